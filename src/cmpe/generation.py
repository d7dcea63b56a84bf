"""Problems to learn from: made from one model by the recipe of the paper (§5), or from a pair.

M1 is the given model. M2 adds N(0, variance) to every log-table entry. q is the k-th smallest
t of 100 samples of M2. A random share of the variables is evidence; samples of M1 give its
values, the first 90 % to train and the rest to test. One seed decides everything. `from_pair` takes
M1, M2 and q as given, and rows as well where there are any.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmpe.arguments import real_number, whole_number
from cmpe.arrays import FREE, Values
from cmpe.elimination.plan import MEMORY_LIMIT
from cmpe.errors import InputError
from cmpe.models.function import Function
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.models.ruled import RuledModel
from cmpe.models.tractable.cutset import CutsetNetwork
from cmpe.problem import Constraint, Problem
from cmpe.sampling import Samples, sample

Model = LogLinearModel | CutsetNetwork

QUANTILE_SAMPLES = 100
MACHINE = ("memory_limit", "time_limit")  # choices that say nothing about the problem
TRAIN_SHARE = 0.9


@dataclass(frozen=True)
class Recipe:
    """The choices of the paper's set-up."""

    evidence_fraction: float = 0.6
    noise_variance: float = 0.1
    percentile: int = 80
    samples: int = 10_000
    seed: int = 0
    memory_limit: int = MEMORY_LIMIT
    time_limit: float | None = None  # seconds for all samples together

    def __post_init__(self) -> None:
        for name in ("evidence_fraction", "noise_variance"):
            number = real_number(name, getattr(self, name), InputError)
            object.__setattr__(self, name, number)
        for name, least in {"percentile": 0, "samples": 2, "seed": 0, "memory_limit": 0}.items():
            count = whole_number(name, getattr(self, name), least, InputError)
            object.__setattr__(self, name, count)
        if not 0 <= self.evidence_fraction <= 1:
            raise InputError(
                f"evidence_fraction must be from 0 to 1, found {self.evidence_fraction}"
            )
        if not (np.isfinite(self.noise_variance) and self.noise_variance >= 0):
            raise InputError(f"noise_variance must be at least 0, found {self.noise_variance}")
        if not 1 <= self.percentile <= QUANTILE_SAMPLES:
            raise InputError(f"percentile must be from 1 to 100, found {self.percentile}")
        if self.time_limit is not None and not self.time_limit > 0:
            raise InputError(f"time_limit must be above 0 seconds, found {self.time_limit}")

    def sample(self, model: Function, count: int, seed: np.random.SeedSequence) -> Samples:
        """Samples within the memory, and within the time that such a share of all may take."""
        share = count / (self.samples + QUANTILE_SAMPLES)
        seconds = None if self.time_limit is None else self.time_limit * share
        return sample(model, count, seed, memory_limit=self.memory_limit, time_limit=seconds)


@dataclass(frozen=True)
class Generated:
    """A problem with rows to train and to test on, and how they came about."""

    problem: Problem
    train: NDArray[np.int32]  # (N, |X|), in the order of problem.evidence_variables
    test: NDArray[np.int32]
    provenance: dict[str, Any]
    # t of samples of M2, ascending: q of percentile k is [k - 1]; none where q is given
    quantiles: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))


def generate(
    model: Model,
    recipe: Recipe | None = None,
    *,
    name: str = "",
    noisy: Model | None = None,
) -> Generated:
    """Make a problem from `model`; `noisy` replaces the perturbed model M2."""
    choices = recipe or Recipe()
    _, quantile, variables, rows = _seeds(choices.seed)
    second = noisy if noisy is not None else perturbed(model, choices)
    drawn = choices.sample(second, QUANTILE_SAMPLES, quantile)
    values = np.sort(second.value(drawn.assignments))
    at_most = float(values[choices.percentile - 1])
    observed = _choose(model.variables, choices.evidence_fraction, variables)
    evidence = choices.sample(model, choices.samples, rows)
    train = _train_rows(choices.samples)
    chosen = evidence.assignments[:, list(observed)]
    problem = Problem(model, (Constraint(second, at_most),), observed, name)
    provenance = {
        "recipe": {k: v for k, v in asdict(choices).items() if k not in MACHINE},
        "sampler": {
            "evidence": evidence.sampler,
            "quantile": drawn.sampler,
            "width": evidence.width,
        },
    }
    return Generated(problem, chosen[:train], chosen[train:], provenance, values)


def from_pair(
    problem: Problem, recipe: Recipe | None = None, rows: Values | None = None
) -> Generated:
    """The same problem with rows to train and to test on; it has no evidence variables yet.

    Without `rows` they are sampled from the objective, as `generate` does with the same seed.
    `rows` (N, n) are -1 where free and must observe the same variables, which are then the evidence
    variables. Of rows that observe all, the recipe's share of the variables is observed. Given rows
    are shuffled by the seed before the first 90 % become training rows.
    """
    choices = recipe or Recipe()
    _, order, variables, drawing = _seeds(choices.seed)
    observed = _choose(problem.variables, choices.evidence_fraction, variables)
    about: dict[str, Any] = {
        "recipe": {"evidence_fraction": choices.evidence_fraction, "seed": choices.seed}
    }
    if rows is None:
        model = problem.objective
        if not isinstance(model, Model | RuledModel):
            raise InputError(
                "rows can be sampled from tables and cutset networks only, found an objective of "
                f"kind {type(model).__name__}; give rows"
            )
        drawn = choices.sample(model, choices.samples, drawing)
        rows = drawn.assignments
        about["recipe"]["samples"] = choices.samples
        about["sampler"] = {"evidence": drawn.sampler, "width": drawn.width}
    else:
        given = _observed_by(rows)
        observed = given if len(given) < problem.variables else observed
        rows = rows[np.random.default_rng(order).permutation(len(rows))]
    train = _train_rows(len(rows))
    chosen = np.ascontiguousarray(rows[:, list(observed)], dtype=np.int32)
    whole = problem.observing(observed)
    return Generated(whole, chosen[:train], chosen[train:], about)


def _observed_by(rows: Values) -> tuple[int, ...]:
    """The variables that every row observes; rows that differ in this are refused."""
    if len(rows) < 2:
        raise InputError(f"rows to train and to test on must be at least 2, found {len(rows)}")
    known = rows != FREE
    odd = np.flatnonzero((known != known[0]).any(axis=1))
    if len(odd):
        raise InputError(
            f"all rows must observe the same variables; row {odd[0]} observes {known[odd[0]].sum()}"
            f", row 0 observes {known[0].sum()}, or others"
        )
    return tuple(np.flatnonzero(known[0]).tolist())


def _train_rows(count: int) -> int:
    return max(1, min(count - 1, round(TRAIN_SHARE * count)))


def perturbed(model: Model, recipe: Recipe) -> Model:
    """M2 of the recipe."""
    return model.perturb(recipe.noise_variance, _seeds(recipe.seed)[0])


def _seeds(seed: int) -> list[np.random.SeedSequence]:
    return np.random.SeedSequence(seed).spawn(4)


def _choose(count: int, fraction: float, seed: np.random.SeedSequence) -> tuple[int, ...]:
    size = round(fraction * count)
    chosen = np.random.default_rng(seed).choice(count, size=size, replace=False)
    return tuple(sorted(int(v) for v in chosen))


def grid(
    rows: int, columns: int, *, coupling: float = 1.0, values: int = 2, seed: int = 0
) -> LogLinearModel:
    """A random grid: N(0, 1) unary and N(0, coupling^2) pairwise log-tables."""
    generator = np.random.default_rng(seed)
    factors = [Factor((v,), generator.normal(size=values)) for v in range(rows * columns)]
    for r in range(rows):
        for c in range(columns):
            here = r * columns + c
            for other in ([here + 1] if c + 1 < columns else []) + (
                [here + columns] if r + 1 < rows else []
            ):
                table = coupling * generator.normal(size=(values, values))
                factors.append(Factor((here, other), table))
    return LogLinearModel((values,) * (rows * columns), tuple(factors))
