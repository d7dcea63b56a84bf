"""Answers against reference answers: metrics of all rows and of the constrained ones.

    regret      h* - h in nats
    gap         regret / f*, with f* = C - h* (the paper's optimality gap)
    violation   share of rows that break a constraint; size: by how much, in nats, where they do

A row is constrained when its unconstrained optimum breaks a constraint: the constraint binds. The
others are plain MPE, and often the majority. Evidence repeats, so the numbers of distinct rows and
of distinct answers stand beside each figure.
Rows that come in blocks are measured block by block, and `Evaluation.pooled` joins the figures.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Floats, Values
from cmpe.errors import InputError
from cmpe.flip import flip_of
from cmpe.problem import Evidence, Instances, Problem, need_problem
from cmpe.solution import Solutions
from cmpe.solvers.base import Running
from cmpe.solvers.flips import assignments, images_of
from cmpe.solving import solve


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation over rows; NaN without rows."""

    mean: float
    std: float
    count: int = field(default=0, compare=False)  # of rows

    @classmethod
    def of(cls, values: Floats) -> Spread:
        """Of one number per row; what is not a number is left out."""
        known = values[np.isfinite(values)]
        if not len(known):
            return cls(float("nan"), float("nan"))
        return cls(float(known.mean()), float(known.std()), len(known))

    @classmethod
    def pooled(cls, parts: Sequence[Spread]) -> Spread:
        """Of the rows of all parts: variance within them, and between their means."""
        count = sum(part.count for part in parts)
        if not count:
            return cls(float("nan"), float("nan"))
        known = [(part.count / count, part.mean, part.std) for part in parts if part.count]
        mean = sum(share * each for share, each, _ in known)
        square = sum(share * (std**2 + (each - mean) ** 2) for share, each, std in known)
        return cls(mean, math.sqrt(square), count)


@dataclass(frozen=True)
class Metrics:
    """How answers fare on a set of rows."""

    rows: int
    distinct: int | None  # rows; unknown of several blocks
    distinct_answers: int | None  # to the free variables; unknown of several blocks
    optimal: float  # share of rows whose reference is proved optimal
    regret: Spread
    feasible_regret: Spread  # over the rows that satisfy every constraint
    gap: Spread
    violation: Spread
    violation_size: Spread  # over the rows that break a constraint
    certified_gap: Spread  # bound - objective of the feasible ones
    seconds: Spread

    def to_json(self) -> dict[str, Any]:
        """Plain numbers; what is missing is None."""
        out: dict[str, Any] = {}
        for name, value in self.__dict__.items():
            if isinstance(value, Spread):
                out[name], out[f"{name}_std"] = _plain(value.mean), _plain(value.std)
            else:
                out[name] = _plain(value)
        return out

    @classmethod
    def pooled(cls, parts: Sequence[Metrics]) -> Metrics:
        """Of the rows of all parts."""
        if len(parts) == 1:
            return parts[0]
        rows = sum(part.rows for part in parts)
        some = [part for part in parts if part.rows]
        spreads = (f for f, value in parts[0].__dict__.items() if isinstance(value, Spread))
        return cls(
            rows=rows,
            distinct=None,
            distinct_answers=None,
            optimal=sum(p.rows * p.optimal for p in some) / rows if rows else float("nan"),
            **{name: Spread.pooled([getattr(part, name) for part in parts]) for name in spreads},
        )


@dataclass(frozen=True)
class Evaluation:
    """The metrics of all rows and of the constrained ones."""

    every: Metrics
    constrained: Metrics

    @property
    def binding(self) -> float:
        """The share of rows on which the constraint binds; NaN without rows."""
        return self.constrained.rows / self.every.rows if self.every.rows else float("nan")

    @classmethod
    def pooled(cls, parts: Sequence[Evaluation]) -> Evaluation:
        """Of one block of rows or more; how many of them are distinct is unknown of several."""
        return cls(
            Metrics.pooled([part.every for part in parts]),
            Metrics.pooled([part.constrained for part in parts]),
        )


@dataclass(frozen=True)
class Reference:
    """What answers are measured against: made once for a set of rows."""

    problem: Problem
    evidence: Values  # (B, |X|)
    solutions: Solutions
    constrained: NDArray[np.bool_]  # (B,)


def reference(
    problem: Problem,
    evidence: Evidence,
    *,
    method: str | None = None,
    running: Running | None = None,
) -> Reference:
    """Solve the rows with and without the constraints.

    The method is `exact` by default, and `auto` for problems without tables: a reference that is
    not proved there is the best known answer (`Metrics.optimal` is the share that is proved).
    """
    need_problem(problem, "reference")
    instances = problem.given(evidence)
    chosen = method or _default(problem)
    best = solve(problem, instances.evidence, method=chosen, running=running)
    free = _unconstrained(instances, method, running)
    answered = (free >= 0).all(axis=1)
    easy = np.zeros(len(instances), dtype=bool)
    easy[answered] = problem.is_feasible(free[answered])
    return Reference(problem, instances.evidence, best, ~easy)


def _default(problem: Problem) -> str:
    return "exact" if problem.has_tables else "auto"


def _unconstrained(instances: Instances, method: str | None, running: Running | None) -> Values:
    """What is best without the constraints: (B, n), -1 where that is unknown."""
    flip = flip_of(instances.problem)
    if flip is not None:  # no change at all
        return assignments(instances, flip, images_of(instances, flip))
    alone = replace(instances.problem, constraints=())
    chosen = method or _default(alone)
    return solve(alone, instances.evidence, method=chosen, running=running).assignments


def evaluate(answers: Solutions, against: Reference) -> Evaluation:
    """The metrics of `answers` to those rows of a reference that have a feasible answer."""
    _check_kinds(answers, against)
    if len(answers) != len(against.solutions):
        raise InputError(
            f"{len(against.solutions)} rows need as many answers, found {len(answers)}"
        )
    known = against.solutions.feasible
    return Evaluation(
        _metrics(answers, against, known), _metrics(answers, against, known & against.constrained)
    )


def overlap(evidence: Values, training: Values) -> float:
    """The share of rows of evidence that are also training rows; NaN without rows."""
    known = set(map(bytes, np.ascontiguousarray(training, dtype=np.float64)))
    rows = np.ascontiguousarray(evidence, dtype=np.float64)
    return float(np.mean([bytes(row) in known for row in rows])) if len(rows) else float("nan")


def _check_kinds(answers: object, against: object) -> None:
    if not (isinstance(answers, Solutions) and isinstance(against, Reference)):
        found = f"{type(answers).__name__} and {type(against).__name__}"
        raise InputError(
            "evaluate needs answers and a reference, as in cmpe.evaluate(cmpe.solve(problem, "
            f"rows), cmpe.reference(problem, rows)); found {found}"
        )


def _metrics(answers: Solutions, against: Reference, which: NDArray[np.bool_]) -> Metrics:
    mine, best = answers.take(which), against.solutions.take(which)
    regret = best.objective - mine.objective
    size = np.maximum(mine.violations, 0.0).sum(axis=1)
    return Metrics(
        rows=len(mine),
        distinct=len(np.unique(against.evidence[which], axis=0)),
        distinct_answers=len(np.unique(mine.assignments[:, list(against.problem.free)], axis=0)),
        optimal=float((best.status == 0).mean()) if len(best) else float("nan"),
        regret=Spread.of(regret),
        feasible_regret=Spread.of(regret[mine.feasible]),
        gap=Spread.of(regret / (against.problem.shift - best.objective)),
        violation=Spread.of((~mine.feasible).astype(float)),
        violation_size=Spread.of(size[~mine.feasible]),
        certified_gap=Spread.of(mine.gap),
        seconds=Spread.of(mine.seconds),
    )


def _plain(value: float | None) -> float | None:
    return value if value is not None and np.isfinite(value) else None
