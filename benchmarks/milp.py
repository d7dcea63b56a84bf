"""Table: seconds a row of the MILP back-ends and toulbar2 on the paper's models.

    python -m benchmarks.milp [--time-limit 5] [--rows 20] [--models Grids_17 ...] [--gibbs]

Each model gives one problem per percentile of q, at 60 % evidence. Its rows are distinct
test rows, those first whose unconstrained optimum breaks the constraint (`binding`); there may be
fewer distinct ones than asked for. With --gibbs, which writes milp_gibbs.jsonl, samples come from
Gibbs chains instead of the exact sampler: on the grids those stay far from the modes, and the rows
are much harder. Times are wall-clock on one thread; building a row's program is counted, importing
the back-end is not. toulbar2's limit is in whole CPU seconds.

All answers are held against each other: a row is in disagreement where a back-end's bound is below
the objective of another's feasible answer, by more than 1e-5 of it. Two different proved optima
are such a case, and so is a wrong proof of infeasibility. Any of them makes the exit code 1.
A `cpu_share` below 1 says that other work had this core meanwhile, and that times are too long.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

import cmpe
from benchmarks.frame import (
    MODELS,
    Record,
    Recorder,
    model_files,
    parser,
    print_table,
    with_cpu_share,
)
from cmpe.generation import grid

PERCENTILES = (10, 30, 80)
METHODS = ("milp:highs", "milp:scip", "milp:gurobi", "toulbar2")
SAMPLES = 2_000
TOLERANCE = 1e-5
LITTLE_MEMORY = 2**20  # bytes, too few to sample any of the models exactly
COLUMNS = (
    "model", "percentile", "method", "rows", "binding", "proved", "mean_s", "median_s", "max_s",
    "cpu_share", "outcome",
)  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """One problem and the rows it is solved for."""

    problem: cmpe.Problem
    percentile: int
    sampler: str
    rows: NDArray[np.int32]
    binding: int
    test_rows: tuple[int, int]  # how many of them are distinct, how many of those bind

    @property
    def about(self) -> Record:
        """What every record of the cell says."""
        return {
            "model": self.problem.name,
            "percentile": self.percentile,
            "at_most": self.problem.limits[0],
            "sampler": self.sampler,
            "rows": len(self.rows),
            "binding": self.binding,
            "distinct_test_rows": self.test_rows[0],
            "binding_test_rows": self.test_rows[1],
        }


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser(__doc__)
    options.add_argument("--time-limit", type=float, default=5.0, help="seconds a row")
    options.add_argument("--rows", type=int, default=20, help="at most so many rows a cell")
    options.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    options.add_argument("--methods", nargs="+", choices=cmpe.METHODS, default=METHODS)
    options.add_argument("--gibbs", action="store_true", help="sample by Gibbs chains")
    chosen = options.parse_args(arguments)
    wrong = 0
    name = "milp_gibbs" if chosen.gibbs else "milp"
    with Recorder(name, chosen) as recorder, model_files(chosen.models) as paths:
        unavailable = _warm_up(chosen.methods)
        for path in paths:
            for cell in _cells(cmpe.read_uai(path), path.stem, chosen):
                wrong += _run(cell, chosen, unavailable, recorder)
    print(f"{wrong} rows in disagreement")
    return int(wrong > 0)


def _warm_up(methods: Sequence[str]) -> dict[str, str]:
    """Load every back-end; say why some cannot run."""
    problem = cmpe.queries.mpe(grid(3, 3))
    outcomes = {method: _solve(problem, None, method, 60.0) for method in methods}
    return {method: text for method, text in outcomes.items() if isinstance(text, str)}


def _solve(
    problem: cmpe.Problem, rows: NDArray[np.int32] | None, method: str, limit: float
) -> cmpe.Solutions | str:
    """The answers, or why there are none: a package or a licence is missing."""
    try:
        return cmpe.solve(problem, rows, method=method, time_limit=limit)
    except cmpe.CmpeError as error:
        return str(error)


def _cells(model: cmpe.LogLinearModel, name: str, options: argparse.Namespace) -> Iterator[Cell]:
    best: NDArray[np.int32] | None = None  # the unconstrained optima, which q does not change
    for percentile in PERCENTILES:
        made = cmpe.generate(model, _recipe(percentile, options), name=name)
        distinct = made.test[np.sort(np.unique(made.test, axis=0, return_index=True)[1])]
        if best is None:
            free = cmpe.queries.mpe(model, made.problem.evidence_variables)
            best = cmpe.solve(free, distinct, method="milp:highs").assignments
        binding = ~made.problem.is_feasible(best)
        first = np.argsort(~binding, kind="stable")[: options.rows]
        yield Cell(
            problem=made.problem,
            percentile=percentile,
            sampler=made.provenance["sampler"]["evidence"],
            rows=distinct[first],
            binding=int(binding[first].sum()),
            test_rows=(len(distinct), int(binding.sum())),
        )


def _recipe(percentile: int, options: argparse.Namespace) -> cmpe.Recipe:
    recipe = cmpe.Recipe(percentile=percentile, samples=SAMPLES, seed=options.seed)
    return replace(recipe, memory_limit=LITTLE_MEMORY) if options.gibbs else recipe


def _run(
    cell: Cell, options: argparse.Namespace, unavailable: Mapping[str, str], recorder: Recorder
) -> int:
    """Record every method on one cell; how many rows are in disagreement."""
    _ = cell.problem.given(cell.rows).conditioning  # kept by the problem, for every method
    already = len(recorder.records)
    answers: dict[str, cmpe.Solutions] = {}
    for method in options.methods:
        limit = options.time_limit
        about = {**cell.about, "method": method, "time_limit_s": limit}
        if method in unavailable:
            recorder.add(**about, outcome=unavailable[method])
            continue
        answer, share = with_cpu_share(partial(_solve, cell.problem, cell.rows, method, limit))
        if isinstance(answer, str):
            recorder.add(**about, outcome=answer)
            continue
        answers[method] = answer
        recorder.add(**about, **_summary(answer), cpu_share=share, outcome="solved")
    wrong = _disagreements(answers)
    spread = _spread(answers)
    recorder.add(**cell.about, disagreements=wrong, proved_spread=spread, outcome="compared")
    print_table(recorder.records[already:-1], COLUMNS)
    return len(wrong)


def _proved(answers: cmpe.Solutions) -> NDArray[np.bool_]:
    return np.isin(answers.status, (cmpe.Status.OPTIMAL, cmpe.Status.INFEASIBLE))


def _summary(answers: cmpe.Solutions) -> Record:
    seconds, gaps = answers.seconds, answers.gap[answers.feasible]
    return {
        "mean_s": seconds.mean(),
        "median_s": np.median(seconds),
        "max_s": seconds.max(),
        "proved": int(_proved(answers).sum()),
        "feasible": int(answers.feasible.sum()),
        "largest_gap": gaps.max(initial=0.0),
        "seconds": seconds,
        "status": [cmpe.Status(s).label for s in answers.status],
    }


def _disagreements(answers: Mapping[str, cmpe.Solutions]) -> list[Record]:
    """The rows where a bound is below another method's feasible objective."""
    if not answers:
        return []
    found = np.stack([np.where(a.feasible, a.objective, -np.inf) for a in answers.values()])
    best = found.max(axis=0)  # (B,)
    return [
        {"row": int(row), "method": method, "bound": answer.bound[row], "best": best[row]}
        for method, answer in answers.items()
        for row in np.flatnonzero(answer.bound < best - TOLERANCE * np.maximum(1.0, np.abs(best)))
    ]


def _spread(answers: Mapping[str, cmpe.Solutions]) -> float:
    """The largest relative difference between proved optima of one row."""
    if not answers:
        return 0.0
    values = [
        np.where(a.status == cmpe.Status.OPTIMAL, a.objective, np.nan) for a in answers.values()
    ]
    proved = np.ma.masked_invalid(values)  # (methods, B)
    scale = np.maximum(1.0, np.abs(proved.max(axis=0)))
    return float(np.ma.filled((np.ptp(proved, axis=0) / scale).max(), 0.0))


if __name__ == "__main__":
    sys.exit(main())
