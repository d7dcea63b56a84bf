"""Problems made from one model, as the paper makes them (paper §5).

M1 is the given model. M2 adds N(0, variance) to every log-table entry. q is the k-th smallest
t of 100 samples of M2. A random share of the variables is evidence; samples of M1 give its
values, the first 90 % to train and the rest to test. One seed decides everything.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmpe.arguments import real_number, whole_number
from cmpe.elimination.plan import MEMORY_LIMIT
from cmpe.errors import InputError
from cmpe.models.loglinear import Factor, LogLinearModel
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

    def sample(self, model: Model, count: int, seed: np.random.SeedSequence) -> Samples:
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
    quantiles: NDArray[np.float64]  # t of samples of M2, ascending: q of percentile k is [k - 1]


def generate(
    model: Model,
    recipe: Recipe | None = None,
    *,
    name: str = "",
    noisy: Model | None = None,
) -> Generated:
    """Make a problem from `model`; `noisy` replaces the M2 that `perturbed` would make."""
    choices = recipe or Recipe()
    _, quantile, variables, rows = _seeds(choices.seed)
    second = noisy if noisy is not None else perturbed(model, choices)
    drawn = choices.sample(second, QUANTILE_SAMPLES, quantile)
    values = np.sort(second.value(drawn.assignments))
    at_most = float(values[choices.percentile - 1])
    observed = _choose(model.variables, choices.evidence_fraction, variables)
    evidence = choices.sample(model, choices.samples, rows)
    train = max(1, min(choices.samples - 1, round(TRAIN_SHARE * choices.samples)))
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
