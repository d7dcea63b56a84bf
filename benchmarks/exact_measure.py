"""How `benchmarks.exact` measures: cells, the clock and the back-ends."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

import cmpe
from benchmarks.frame import MODELS, Record, answer_each, race
from cmpe.generation import grid

Rows = NDArray[np.int32]

TOLERANCE = 2e-6  # of max(1, |h|): what two proofs within 1e-6 may differ by
REPEATS = 3  # calls, of which the median is taken; one where a call takes longer than SHORT
SHORT = 2.0  # seconds
BATCH = 1_000  # rows of a call that repeats the back-ends' rows


@dataclass(frozen=True)
class Settings:
    """How much to run."""

    seed: int = 0
    models: tuple[str, ...] = tuple(MODELS)
    samples: int = 10_000  # of each model: nine tenths are training rows, the rest test rows
    rows: int = 20  # a cell of part `paper` that the back-ends get; a quarter elsewhere
    limit: float = 10.0  # seconds a row
    wide_limit: float = 60.0  # the same at 30 % evidence and less
    made_rows: int = 200  # of every generated model
    wide_rows: int = 16  # at 10 % evidence, where a row may take a second
    sides: tuple[int, ...] = (10, 14, 20, 30, 50, 70, 100, 140, 200)
    growth_entries: int = 100_000  # rows times variables of part `growth`, at least
    references: tuple[str, ...] = ()  # the back-ends that can run

    @property
    def few(self) -> int:
        """Rows for the back-ends where one row may take a minute."""
        return max(1, self.rows // 4)

    def available(self, *wanted: str) -> list[str]:
        """Those of `wanted` that can run."""
        return [method for method in wanted if method in self.references]


QUICK = Settings(
    models=("Segmentation_12",),
    rows=4,
    limit=1.0,
    wide_limit=5.0,
    made_rows=20,
    wide_rows=2,
    sides=(10, 14, 20),
    growth_entries=5_000,
)


def unconstrained(model: cmpe.Function, observed: Sequence[int], rows: Rows) -> NDArray[np.int32]:
    """The unconstrained optimum of every row: (B, n)."""
    return cmpe.solve(cmpe.queries.mpe(model, observed), rows, method="exact").assignments


@dataclass(frozen=True)
class Cell:
    """One problem, the rows it is solved for, and what to call it."""

    about: Record
    problem: cmpe.Problem
    rows: Rows  # (B, |X|)

    @cached_property
    def constrained(self) -> NDArray[np.bool_]:
        """Which rows have an infeasible unconstrained optimum: (B,)."""
        best = unconstrained(self.problem.objective, self.problem.evidence_variables, self.rows)
        return ~self.problem.is_feasible(best)

    @property
    def distinct(self) -> NDArray[np.intp]:
        """The number of each row that no earlier one equals."""
        return np.sort(np.unique(self.rows, axis=0, return_index=True)[1])

    def picked(self, count: int) -> Rows:
        """At most `count` distinct rows, constrained ones first."""
        first = self.distinct
        order = np.argsort(~self.constrained[first], kind="stable")
        return self.rows[first[order][:count]]

    @property
    def counts(self) -> Record:
        """What the rows are like."""
        return {
            "variables": self.problem.variables,
            "free": len(self.problem.conditioning.free),
            "width": self.problem.plan.width,
            "at_most": self.problem.limits,
            "rows": len(self.rows),
            "distinct": len(self.distinct),
            "constrained": int(self.constrained.sum()),
        }


@dataclass(frozen=True)
class Measured:
    """Answers to a batch, and the seconds that one call takes."""

    answers: cmpe.Solutions
    whole: float  # on a fresh problem: conditioning and plan included
    ready: float  # on a problem that was solved before
    plan: float  # conditioning and plan alone
    best: float  # the shortest call on a fresh problem
    cpu_share: float  # below 1: other work held this core meanwhile

    @property
    def mean_us(self) -> float:
        """Microseconds a row, everything included."""
        return 1e6 * self.whole / len(self.answers)

    @property
    def ready_us(self) -> float:
        """Microseconds a row, the plan excluded."""
        return 1e6 * self.ready / len(self.answers)

    def record(self, prefix: str = "") -> Record:
        """All of it, as fields that begin with `prefix`."""
        answers, gaps = self.answers, self.answers.gap[self.answers.feasible]
        fields = {
            "mean_us": self.mean_us,
            "ready_us": self.ready_us,
            "best_us": 1e6 * self.best / len(answers),
            "plan_ms": 1e3 * self.plan,
            "unproved": int((~proved(answers)).sum()),
            "infeasible": int((answers.status == cmpe.Status.INFEASIBLE).sum()),
            "handed_on": int((answers.method != "exact").sum()),
            "largest_gap": gaps.max(initial=0.0),
            "cpu_share": self.cpu_share,
        }
        return {prefix + name: value for name, value in fields.items()}


def proved(answers: cmpe.Solutions) -> NDArray[np.bool_]:
    """Which rows are settled: (B,)."""
    return answers.proved


def measure(
    problem: cmpe.Problem,
    rows: Rows,
    *,
    method: str = "exact",
    limit: float | None = None,
    each: bool = False,
) -> Measured:
    """Solve `rows` in one call, on a fresh problem and on one whose plan is there.

    `cmpe.solve` answers equal rows once; with `each` the solver itself is called, which does not.
    """

    def call(on: cmpe.Problem) -> cmpe.Solutions:
        if each:
            return answer_each(on, rows, method, limit)
        return cmpe.solve(on, rows, method=method, time_limit=limit)

    begin = (time.perf_counter(), time.process_time())
    answers = call(problem)  # which keeps its plan; a copy has none
    timings = race(
        {
            "whole": lambda: call(replace(problem)),
            "plan": lambda: replace(problem).compiled_plan,
            "ready": lambda: call(problem),
        },
        repeats=REPEATS if time.perf_counter() - begin[0] < SHORT else 1,
        warm_up=0,
    )
    share = (time.process_time() - begin[1]) / (time.perf_counter() - begin[0])
    seconds = {name: timing.median for name, timing in timings.items()}
    return Measured(answers, best=timings["whole"].best, cpu_share=share, **seconds)


def compare(ours: cmpe.Solutions, theirs: cmpe.Solutions) -> Record:
    """A back-end beside `exact` on the same rows.

    An answer is wrong where its bound lies below the other's feasible objective: two different
    proved optima are such a case, and so is a wrong proof of infeasibility.
    """
    best = np.fmax(_found(ours), _found(theirs))  # (B,)
    least = best - TOLERANCE * np.maximum(1.0, np.abs(best))
    both = (ours.status == cmpe.Status.OPTIMAL) & (theirs.status == cmpe.Status.OPTIMAL)
    return {
        "mean_ms": 1e3 * theirs.seconds.mean(),
        "median_ms": 1e3 * np.median(theirs.seconds),
        "max_ms": 1e3 * theirs.seconds.max(),
        "finished": int(proved(theirs).sum()),
        "exact_wrong": int((ours.bound < least).sum()),
        "reference_wrong": int((theirs.bound < least).sum()),
        "largest_difference": np.abs(ours.objective - theirs.objective)[both].max(initial=0.0),
        "seconds": theirs.seconds,
    }


def _found(answers: cmpe.Solutions) -> NDArray[np.float64]:
    return np.where(answers.feasible, answers.objective, -np.inf)


def run_cell(
    cell: Cell, methods: Iterable[str], count: int, limit: float, *, batch: int = BATCH
) -> Record:
    """`exact` on all rows, on the constrained ones, and on the back-ends' rows, and they.

    The back-ends get `count` rows; `exact` gets the same ones over and over, to a call of `batch`.
    """
    everything = measure(cell.problem, cell.rows, limit=limit)
    each = measure(cell.problem, cell.rows, limit=limit, each=True)
    picked = cell.picked(count)
    size = max(batch, len(picked))
    tiled = np.resize(picked, (size, picked.shape[1]))
    same = measure(cell.problem, tiled, limit=limit, each=True)
    ours = same.answers.take(np.arange(len(picked)))
    beside = {
        method: compare(ours, cmpe.solve(cell.problem, picked, method=method, time_limit=limit))
        for method in methods
    }
    return {
        **cell.about,
        **cell.counts,
        **everything.record(),
        **each.record("each_"),
        **_constrained_only(cell, limit),
        **same.record("same_"),
        **_ratios(beside, everything, same),
        "compared": len(picked),
        "time_limit_s": limit,
        "wrong": sum(r["exact_wrong"] + r["reference_wrong"] for r in beside.values()),
        "references": beside,
    }


def _constrained_only(cell: Cell, limit: float) -> Record:
    rows = cell.rows[cell.constrained]
    if not len(rows):
        return {}
    return measure(cell.problem, rows, limit=limit, each=True).record("constrained_")


def _ratios(beside: Mapping[str, Record], everything: Measured, same: Measured) -> Record:
    """How many times longer the back-ends take: than `exact` on their rows, and on all rows."""
    means = {method.removeprefix("milp:"): r["mean_ms"] for method, r in beside.items()}
    ours = {"": same.mean_us, "_ready": same.ready_us, "_all": everything.mean_us}
    out: Record = {f"{name}_ms": mean for name, mean in means.items()}
    for name, mean in {**means, "best": min(means.values(), default=math.nan)}.items():
        out |= {f"times_{name}{end}": 1e3 * mean / own for end, own in ours.items()}
    return out


def total(records: Iterable[Record], field: str) -> int:
    return sum(record.get(field, 0) for record in records)


def least(records: Sequence[Record], field: str) -> float:
    return min((record.get(field, math.nan) for record in records), default=math.nan)


def largest(records: Sequence[Record], field: str) -> float:
    return max((record.get(field, math.nan) for record in records), default=math.nan)


def geometric_mean(records: Sequence[Record], field: str) -> float:
    values = [record[field] for record in records if field in record]
    return statistics.geometric_mean(values) if values else math.nan


def warm_up(methods: Sequence[str]) -> list[str]:
    """Load compiled code and the back-ends; which of `methods` can run."""
    model = grid(4, 4)
    noisy = [model.perturb(0.1, seed) for seed in range(3)]
    for count in range(len(noisy) + 1):
        constraints = tuple(cmpe.Constraint(function, 1.0) for function in noisy[:count])
        cmpe.solve(cmpe.Problem(model, constraints, (0,)), [[0], [1]], method="exact")
    return [method for method in methods if _can_run(method, cmpe.queries.mpe(model))]


def _can_run(method: str, problem: cmpe.Problem) -> bool:
    try:
        cmpe.solve(problem, method=method, time_limit=60.0)
    except cmpe.CmpeError as error:  # a package or a licence is missing
        print(f"{method} is left out: {error}", flush=True)
        return False
    return True
