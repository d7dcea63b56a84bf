"""Settings of a network for any evidence and any q, checked."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from cmpe.arguments import real_number, whole_number
from cmpe.errors import MethodError

KINDS = ("messages", "mlp")
Intervals = tuple[tuple[float, float], ...]


def _intervals(name: str, values: Any) -> Intervals:
    if not isinstance(values, list | tuple) or not values:
        raise MethodError(f"{name} must be intervals as in [[0.1, 0.9]], found {values!r}")
    out = []
    for pair in values:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise MethodError(f"{name} must be intervals as in [[0.1, 0.9]], found {pair!r}")
        low, high = (real_number(name, end) for end in pair)
        if not 0.0 <= low <= high <= 1.0:
            raise MethodError(f"{name} must lie from 0 to 1, found [{low}, {high}]")
        out.append((low, high))
    return tuple(out)


@dataclass(frozen=True)
class QuestionRange:
    """Which questions are drawn to train on.

    A mask observes a share of the variables drawn evenly from `rates`. A share `blocked` of the
    masks is a ball of the interaction graph, every other one its complement; the others choose
    variables at random. Evidence is part of a sample of h; in each row a share drawn from 0 to
    `noise` of its values is drawn anew, so that it may be unlikely. The *position* of q_j is 0 at
    t_j of an assignment that makes all t small given the evidence, and 1 at t_j of one that makes
    h large; it is drawn evenly from `positions`.
    """

    rates: Intervals = ((0.1, 0.9),)
    positions: Intervals = ((0.0, 1.0),)
    blocked: float = 0.5
    noise: float = 0.0
    observed: tuple[int, ...] | None = None  # the variables, where every row observes the same
    limits: tuple[float, ...] | None = None  # q, where it is always the same

    def __post_init__(self) -> None:
        for name in ("rates", "positions"):
            object.__setattr__(self, name, _intervals(name, getattr(self, name)))
        for name in ("blocked", "noise"):
            share = real_number(name, getattr(self, name))
            if not 0.0 <= share <= 1.0:
                raise MethodError(f"{name} must be from 0 to 1, found {share}")
            object.__setattr__(self, name, share)
        if self.observed is not None:
            chosen = tuple(whole_number("observed", v, 0) for v in self.observed)
            object.__setattr__(self, "observed", chosen)
        if self.limits is not None:
            limits = tuple(real_number("limits", q) for q in self.limits)
            object.__setattr__(self, "limits", limits)

    def has_rate(self, rate: float) -> bool:
        """Whether masks of this share of observed variables were trained on."""
        return any(low <= rate <= high for low, high in self.rates)


@dataclass(frozen=True)
class AmortisedConfig:
    """What is trained, on what, and how."""

    network: str = "messages"  # or mlp
    steps: int = 20  # messages: rounds
    width: int = 0  # messages: hidden units of the correction of beliefs, learnt by gradients
    hidden: tuple[int, ...] = (512,)  # mlp
    batch_size: int = 64
    chunk: int = 8  # batches of questions that are drawn at once
    reuse: int = 4  # how often each of them is trained on
    updates: int = 2000
    generations: int = 120  # of tuning, instead of updates (see `tuned`)
    schedules: int = 16  # of tuned messages: how many are kept (see `AmortisedSolver`)
    seconds: float | None = None  # end earlier when so many are spent
    learning_rate: float = 3e-3
    contrast: float = 3.0
    beta: float = 5.0  # of the loss's gate, over mean slopes of h
    temperature: float = 0.3  # weight of an entropy bonus, in mean slopes of h; falls to 0
    rows: int = 2000  # samples of h that evidence is taken from
    fresh: bool = False  # draw them anew every `refresh` chunks
    refresh: int = 16
    taught: int = 0  # questions that `search` answers first, to be learnt from as well
    teaching: float = 0.02  # its seconds a question
    annealed: int = 0  # sweeps of annealing that answer every question, to be learnt from as well
    mix: float = 1.0  # weight of what is taught
    validation: int = 256  # questions that are looked at
    looks: int = 20
    floor: float = 20.0
    seed: int = 0
    questions: QuestionRange = QuestionRange()

    def __post_init__(self) -> None:
        if self.network not in KINDS:
            raise MethodError(f"a network is one of {', '.join(KINDS)}; found {self.network!r}")
        for name, least in _WHOLE.items():
            object.__setattr__(self, name, whole_number(name, getattr(self, name), least))
        for name, floor in _REAL.items():
            value = real_number(name, getattr(self, name))
            if not floor <= value < float("inf"):
                raise MethodError(f"{name} must be finite and at least {floor}, found {value}")
            object.__setattr__(self, name, value)
        if self.seconds is not None:
            object.__setattr__(self, "seconds", real_number("seconds", self.seconds))
        if not isinstance(self.hidden, list | tuple):
            raise MethodError(f"hidden must be a list of numbers, found {self.hidden!r}")
        object.__setattr__(self, "hidden", tuple(whole_number("hidden", k, 1) for k in self.hidden))

    @property
    def tuned(self) -> bool:
        """Whether the schedule of messages is tuned on repaired answers (`tuning`). Whatever has
        hidden units, or learns from answers, follows gradients."""
        plain = self.network == "messages" and not self.width
        return plain and self.generations > 0 and not (self.taught or self.annealed)

    def to_json(self) -> dict[str, Any]:
        """Plain values for a file."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> AmortisedConfig:
        """The inverse of `to_json`; unknown fields are refused."""
        if not isinstance(values, dict):
            raise MethodError(f"a training config is an object, found {values!r}")
        odd = sorted(set(values) - {f.name for f in fields(cls)})
        if odd:
            raise MethodError(f"a network for any question has no setting {odd[0]!r}")
        asked = values.get("questions", {})
        if not isinstance(asked, dict):
            raise MethodError(f"questions must be an object, found {asked!r}")
        unknown = sorted(set(asked) - {f.name for f in fields(QuestionRange)})
        if unknown:
            raise MethodError(f"questions have no setting {unknown[0]!r}")
        return cls(**{**values, "questions": QuestionRange(**asked)})


_WHOLE = {
    "steps": 1, "width": 0, "batch_size": 1, "chunk": 1, "reuse": 1, "updates": 1, "rows": 1,
    "refresh": 1, "generations": 0, "schedules": 1, "taught": 0, "annealed": 0, "validation": 1,
    "looks": 1, "seed": 0,
}  # fmt: skip
_REAL = {
    "learning_rate": 0.0, "contrast": 1.0, "beta": 0.0, "temperature": 0.0, "floor": 0.0,
    "teaching": 0.0, "mix": 0.0,
}  # fmt: skip
