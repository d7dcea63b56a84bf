"""Settings of a network for any evidence and any q, checked."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from cmpe.arguments import real_number, whole_number
from cmpe.errors import MethodError

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
    """Which questions are drawn to tune on.

    A mask observes a share of the variables drawn evenly from `rates`. Evidence is part of a sample
    of h. The *position* of q_j is 0 at t_j of an assignment that makes all t small given the
    evidence, and 1 at t_j of one that makes h large; it is drawn evenly from `positions`.
    """

    rates: Intervals = ((0.1, 0.9),)
    positions: Intervals = ((0.0, 1.0),)
    observed: tuple[int, ...] | None = None  # the variables, where every row observes the same
    limits: tuple[float, ...] | None = None  # q, where it is always the same

    def __post_init__(self) -> None:
        for name in ("rates", "positions"):
            object.__setattr__(self, name, _intervals(name, getattr(self, name)))
        if self.observed is not None:
            chosen = tuple(whole_number("observed", v, 0) for v in self.observed)
            object.__setattr__(self, "observed", chosen)
        if self.limits is not None:
            limits = tuple(real_number("limits", q) for q in self.limits)
            object.__setattr__(self, "limits", limits)

    def has_rate(self, rate: float) -> bool:
        """Whether masks of this share of observed variables were tuned on."""
        return any(low <= rate <= high for low, high in self.rates)


@dataclass(frozen=True)
class AmortisedConfig:
    """What is tuned, on what, and for how long."""

    steps: int = 20  # rounds of messages
    generations: int = 120
    seconds: float | None = None  # end earlier when so many are spent
    rows: int = 2000  # samples of h that evidence is taken from
    floor: float = 20.0  # nats below the largest entry of a table that stand for log 0
    seed: int = 0
    questions: QuestionRange = QuestionRange()

    def __post_init__(self) -> None:
        for name, least in _WHOLE.items():
            object.__setattr__(self, name, whole_number(name, getattr(self, name), least))
        floor = real_number("floor", self.floor)
        if not 0.0 <= floor < float("inf"):
            raise MethodError(f"floor must be finite and at least 0, found {floor}")
        object.__setattr__(self, "floor", floor)
        if self.seconds is not None:
            object.__setattr__(self, "seconds", real_number("seconds", self.seconds))

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


_WHOLE = {"steps": 1, "generations": 1, "rows": 1, "seed": 0}
