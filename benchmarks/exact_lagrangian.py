"""Part `lagrangian` of `benchmarks.exact`: fast answers with a certified gap, and loss bounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

import cmpe
from benchmarks.exact_measure import (
    TOLERANCE,
    Measured,
    Rows,
    Settings,
    compare,
    largest,
    measure,
    total,
)
from benchmarks.exact_paper import problem_of, sources
from benchmarks.frame import Record, Recorder, print_table, race
from benchmarks.targets import Check, none_of
from cmpe.bounds.loss import LossBounds, loss_bounds
from cmpe.generation import grid

COLUMNS = (
    "model", "percentile", "rows", "feasible", "mean_us", "ready_us", "closed", "mean_gap_share",
    "largest_gap_share", "mean_regret", "violated", "wrong", "bounds_s", "bounds_wrong",
    "cpu_share",
)  # fmt: skip


def lagrangian(settings: Settings, recorder: Recorder) -> list[Check]:
    """All rows of the paper's models, training rows too."""
    _warm_up()
    for problem, percentile, train, test in _cells(settings):
        rows = np.concatenate([train, test])
        exact = cmpe.solve(problem, rows, method="exact", time_limit=settings.limit)
        quick = measure(problem, rows, method="lagrangian")
        recorder.add(
            model=problem.name,
            percentile=percentile,
            rows=len(rows),
            **_quality(problem, exact, quick),
            **_loss_bounds(problem, train, exact.take(np.arange(len(train)))),
        )
    cells = list(recorder.records)
    print_table(cells, COLUMNS)
    shares = [100 * cell["mean_gap_share"] for cell in cells]
    return [
        none_of("rows where a bound is wrong", total(cells, "wrong")),
        none_of("wrong loss bounds", total(cells, "bounds_wrong")),
        none_of("violated rows with a feasible answer", total(cells, "violated")),
        Check("slowest cell, us a row, plan included", largest(cells, "mean_us"), "<=", 100),
        Check("certified gap, % of f*, mean of all cells", np.mean(shares), "<=", 0.5),
        Check("certified gap, % of f*, mean of the worst cell", max(shares), "<=", 0.5),
        Check("loss bounds of the training rows, s, largest", largest(cells, "bounds_s"), "<=", 2),
    ]


def _warm_up() -> None:
    model = grid(4, 4)
    problem = cmpe.Problem(model, (cmpe.Constraint(model.perturb(0.1, 0), 1.0),), (0,))
    cmpe.solve(problem, [[0], [1]], method="lagrangian")
    loss_bounds(problem.given([[0], [1]]))


def _cells(settings: Settings) -> Iterator[tuple[cmpe.Problem, int, Rows, Rows]]:
    for source in sources(settings):
        for percentile in (10, 80):
            problem = problem_of(source, percentile)
            observed = list(problem.evidence_variables)
            yield problem, percentile, source.train[:, observed], source.test[:, observed]


def _quality(problem: cmpe.Problem, exact: cmpe.Solutions, quick: Measured) -> Record:
    """The certified gap in shares of f* = C - h*, over the rows with a feasible answer."""
    answers, solvable = quick.answers, exact.feasible
    both = solvable & answers.feasible
    gaps = answers.gap[both] / (problem.shift - exact.objective[both])
    compared = compare(answers, exact)
    return {
        "feasible": int(solvable.sum()),
        "violated": int((solvable & ~answers.feasible).sum()),
        "closed": int((answers.status == cmpe.Status.OPTIMAL).sum()),
        "mean_gap_share": gaps.mean() if len(gaps) else 0.0,
        "largest_gap_share": gaps.max(initial=0.0),
        "mean_regret": (exact.objective - answers.objective)[both].mean() if len(gaps) else 0.0,
        "mean_us": quick.mean_us,
        "ready_us": quick.ready_us,
        "plan_ms": 1e3 * quick.plan,
        "cpu_share": quick.cpu_share,
        "wrong": compared["exact_wrong"] + compared["reference_wrong"],
    }


def _loss_bounds(problem: cmpe.Problem, rows: Rows, exact: cmpe.Solutions) -> Record:
    """Seconds of `loss_bounds` on a fresh problem; p_upper is wrong below f*."""
    found: list[LossBounds] = []
    timing = race(
        {"bounds": lambda: found.append(loss_bounds(replace(problem).given(rows)))},
        repeats=3,
        warm_up=0,
    )["bounds"]
    solvable = exact.feasible
    best = problem.shift - exact.objective[solvable]
    short = found[0].p_upper[solvable] < best - TOLERANCE * np.maximum(1.0, np.abs(best))
    return {"bounds_s": timing.median, "bounds_rows": len(rows), "bounds_wrong": int(short.sum())}
