"""The choices of a training run, and the presets `paper`, `stable` and `tuned`."""

from __future__ import annotations

import math
from dataclasses import Field, asdict, dataclass, fields, replace
from typing import Any

from cmpe.arguments import real_number, whole_number
from cmpe.bounds.lagrangian import lane_bytes
from cmpe.errors import MethodError
from cmpe.learning.losses.catalogue import Family, LossKind, loss_kind
from cmpe.learning.settings import TRAINING
from cmpe.problem import Problem

HEADS = ("plain", "residual")
ALPHAS = ("paper", "precomputed", "fixed")
# What members of one stack may differ in; all else decides the shape of the program.
MEMBER_FIELDS = frozenset({
    "learning_rate", "beta", "contrast", "rho", "gamma", "penalty_start", "temperature",
    "dual_growth", "seed", "plateau_factor",
})  # fmt: skip


@dataclass(frozen=True)
class TrainingConfig:
    """Everything that decides a training run besides the problem and its rows."""

    loss: str = "ss_cmpe"
    module: bool = False  # a torch module that `fit` is given, in the place of the mlp
    head: str = "plain"  # plain or residual: how its numbers become an answer
    hidden: tuple[int, ...] = (128, 256, 512)
    skip: bool = False  # a linear map from the inputs to the logits
    predict_multiplier: bool = False  # a head for mu*, for the cheap certificate
    epochs: int = 300
    batch_size: int = 128
    learning_rate: float = 1e-3
    plateau_factor: float = 0.9  # 1 keeps the learning rate
    plateau_patience: int = 10
    cooldown: float = 0.0  # the share of the last epochs in which the rate falls linearly to 0
    beta: float = math.inf  # steepness of ss_cmpe's gate; inf: the piecewise form
    alpha: str = "fixed"  # paper, precomputed or fixed: where alpha_x comes from (losses/alpha.py)
    contrast: float = 1.0  # times alpha_x: an infeasible answer costs at least contrast x p*
    gate_gradient: bool = True  # whether the smooth gate itself is differentiated
    rho: float = 1.0  # step of lambda_x; weight of ss_cmpe_pen's square
    gamma: float = 0.0  # entropy regulariser: > 0 asks for whole outputs
    penalty_start: float = 1.0  # lambda_x at first; of pdl too
    penalty_factor: float = 1.0  # above 1: multiply lambda_x of violated examples instead
    penalty_limit: float = 1e4  # the largest lambda_x; of pdl too
    dual_hidden: int = 128  # pdl: units of the dual network
    primal_epochs: int = 8  # pdl: epochs that move the primal network
    dual_epochs: int = 2  # pdl: epochs that then move the dual network; together a period
    dual_growth: float = 2.0  # pdl: lambda is multiplied by it after a period
    dual_enough: float = 0.8  # pdl: unless the violation fell below this share of the last period's
    temperature: float = 0.0  # weight of an entropy bonus, in mean fields of h; falls to 0
    cooling: float = 0.8  # the share of the epochs in which it does
    margins: tuple[float, ...] = (0.0,)  # nats below q that the network can be asked to keep
    passes: int = 1  # margins that calibration may ask for together; the best answer is kept
    allowed_violation: float = 0.02  # the rate of violations that the calibrated margin may have
    floor: float = 20.0  # nats below a table's largest entry that a potential of 0 counts as
    label_method: str = "exact"  # whose answers are the labels
    rows: int = 0  # to draw from the objective and train on, besides those given
    fresh: bool = False  # draw them anew for every epoch
    validation_share: float = 0.1
    evaluate_every: int = 1  # epochs between looks at the validation rows
    patience: int = 0  # looks without improvement before stopping; 0: run all epochs
    keep_best: bool = True  # the weights of the best look, not the last
    seed: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, _typed(field, getattr(self, field.name)))
        _ = self.kind
        if self.head not in HEADS:
            raise MethodError(f"a head is one of {', '.join(HEADS)}; found {self.head!r}")
        if self.alpha not in ALPHAS:
            raise MethodError(f"alpha is one of {', '.join(ALPHAS)}; found {self.alpha!r}")
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if not value >= least:
                raise MethodError(f"{name} must be at least {least}, found {value}")
            if value in (math.inf, -math.inf) and name not in UNBOUNDED:
                raise MethodError(f"{name} must be finite, found {value}")
        self._check_shares()
        if self.module and (
            len(self.margins) > 1 or self.predict_multiplier or self.head != "plain"
        ):
            raise MethodError(
                "a network of yours reads no margin, predicts no multiplier and has head plain; "
                "leave margins, predict_multiplier and head as they are"
            )
        if self.fresh and not self.rows:
            raise MethodError("fresh rows need a number of them: rows must be above 0")
        if 0.0 not in self.margins or not all(map(math.isfinite, self.margins)):
            raise MethodError(f"margins must be finite and contain 0, found {self.margins}")
        if any(width < 1 for width in self.hidden):
            raise MethodError(f"hidden layers must be at least 1 wide, found {self.hidden}")

    def _check_shares(self) -> None:
        for name in ("plateau_factor", "cooling", "cooldown", "dual_enough"):
            if not 0 < getattr(self, name) <= 1 and (name != "cooldown" or self.cooldown):
                raise MethodError(f"{name} must be above 0 and at most 1")
        for name in ("validation_share", "allowed_violation"):
            if not 0 <= getattr(self, name) < 1:
                raise MethodError(f"{name} must be below 1, found {getattr(self, name)}")

    def of_module(self) -> TrainingConfig:
        """The same for a torch module, which reads no margin and predicts no multiplier."""
        return replace(self, module=True, margins=(0.0,), passes=1, predict_multiplier=False)

    @property
    def kind(self) -> LossKind:
        """What training must know of the loss; an unknown one is refused."""
        return loss_kind(self.loss)

    def to_json(self) -> dict[str, Any]:
        """Plain values for a file; inf is written as null."""
        return {k: None if v == math.inf else v for k, v in asdict(self).items()}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> TrainingConfig:
        """The inverse of `to_json`; unknown fields are refused."""
        if not isinstance(values, dict):
            raise MethodError(f"a training config is an object, found {values!r}")
        values = {k: v for k, v in values.items() if k not in GONE or v != GONE[k]}
        odd = sorted(set(values) - {f.name for f in fields(cls)})
        if odd:
            raise MethodError(f"a training config has no field {odd[0]!r}")
        whole: dict[str, Any] = {
            k: math.inf if k in UNBOUNDED and v is None else v for k, v in values.items()
        }
        return cls(**whole)


def _typed(field: Field[Any], value: Any) -> Any:
    """The value as its field's type, or one line that says what is wrong with it."""
    kind = str(field.type)
    if kind.startswith("tuple"):
        if not isinstance(value, list | tuple):
            raise MethodError(f"{field.name} must be a list of numbers, found {value!r}")
        inner = "int" if "int" in kind else "float"
        return tuple(_number(field.name, inner, item) for item in value)
    if kind in ("int", "float"):
        return _number(field.name, kind, value)
    wanted = {"bool": bool, "str": str}[kind]
    if not isinstance(value, wanted):
        raise MethodError(f"{field.name} must be of type {kind}, found {value!r}")
    return value


def _number(name: str, kind: str, value: Any) -> int | float:
    if kind == "float":
        return real_number(name, value)
    return whole_number(name, value, -(2**63))


_LEAST = {
    "epochs": 1, "batch_size": 1, "learning_rate": 0.0, "plateau_patience": 0,
    "beta": 0.0, "contrast": 1.0, "rho": 0.0, "penalty_start": 0.0,
    "penalty_factor": 1.0, "penalty_limit": 0.0, "temperature": 0.0, "floor": 0.0,
    "dual_hidden": 1, "primal_epochs": 1, "dual_epochs": 1, "dual_growth": 1.0,
    "evaluate_every": 1, "passes": 1, "patience": 0, "seed": 0, "rows": 0, "gamma": -1e9,
}  # fmt: skip
UNBOUNDED = frozenset({"beta", "penalty_limit"})
# Fields that runs of earlier versions have; with any other value they are refused.
GONE = {"network": "mlp", "steps": 0, "mask_inputs": False, "mix": 0.0, "mix_after": 0.0}


def paper(loss: str = "ss_cmpe", **changes: Any) -> TrainingConfig:
    """The paper's settings (supplement B): MLP 128-256-512, Adam 1e-3, batch 128, 300 epochs,
    plateau 0.9 (not for supervised losses); the last weights, since the paper stops nowhere.

    `ss_cmpe` and `ss_cmpe_pen` are as printed: alpha "paper", contrast 1, temperature 0, and beta
    1, which is one of the paper's six values (`stacking.paper_grid` has all).
    """
    kind = loss_kind(loss)
    factor = 1.0 if kind.family is Family.supervised else 0.9
    base = TrainingConfig(loss=loss, plateau_factor=factor, keep_best=False, evaluate_every=10)
    if kind.family is Family.consistent:
        base = replace(base, alpha="paper", beta=1.0)
    return replace(base, **changes)


def stable(loss: str = "ss_cmpe", **changes: Any) -> TrainingConfig:
    """`paper` with what keeps answers feasible and different: not the paper's, and the same for
    every self-supervised loss.

    All of them have a temperature of 2 and margins, of which validation rows choose one.
    `ss_cmpe` and `ss_cmpe_pen` have alpha "fixed" with contrast 3 besides.
    """
    base = paper(loss)
    if base.kind.family in (Family.self_supervised, Family.consistent):
        base = replace(base, temperature=2.0, margins=TRAINING.stable_margins)
    if base.kind.family is Family.consistent:
        base = replace(base, alpha="fixed", contrast=3.0)
    return replace(base, **changes)


def tuned(loss: str = "", problem: Problem | None = None, **changes: Any) -> TrainingConfig:
    """The recipe that did best on validation rows of the paper's models (docs/learning.md).

    Where labels are cheap it learns proved answers to drawn rows (`distill`), with a width and a
    number of rows by the size of the problem, by default the largest. Where elimination is too
    wide for labels, and for the other losses, it is `ss_cmpe` on the rows given.
    """
    name = loss or ("distill" if problem is None or has_cheap_labels(problem) else "ss_cmpe")
    common = TrainingConfig(
        loss=name, skip=True, predict_multiplier=True, margins=TRAINING.margins, passes=8
    )
    if not common.kind.labels:
        recipe = replace(
            common, hidden=(512,), epochs=100, batch_size=256, learning_rate=1.5e-3,
            temperature=1.0, contrast=3.0, beta=1.0,
        )  # fmt: skip
        return replace(recipe, **changes)
    size = TRAINING.widest if problem is None else problem.variables
    first = min(TRAINING.widest, 1 << max(0, TRAINING.wider * size - 1).bit_length())
    rows = min(TRAINING.most_drawn, TRAINING.drawn * size)
    recipe = replace(
        common, hidden=(first, max(1, first // 2)), rows=rows, epochs=60,
        batch_size=512, learning_rate=1e-3, cooldown=0.7, keep_best=False, evaluate_every=5,
    )  # fmt: skip
    return replace(recipe, **changes)


def has_cheap_labels(problem: Problem) -> bool:
    """Whether proved answers to thousands of rows take seconds."""
    if not problem.has_tables:
        return False
    return not problem.is_log_linear or lane_bytes(problem) <= TRAINING.quick_bytes


PRESETS = ("paper", "stable", "tuned")


def preset(
    name: str, loss: str | None = None, problem: Problem | None = None, **changes: Any
) -> TrainingConfig:
    """The preset called `name`, with its own loss unless one is given; `tuned` fits `problem`.

    `paper` is the paper's method as printed, `stable` adds a contrast, a temperature and margins,
    and `tuned`, the default of `fit`, did best on validation rows.
    """
    if name not in PRESETS:
        raise MethodError(f"a preset is one of {', '.join(PRESETS)}; found {name!r}")
    if name == "tuned":
        return tuned(loss or "", problem, **changes)
    made = paper if name == "paper" else stable
    return made(**changes) if loss is None else made(loss, **changes)
