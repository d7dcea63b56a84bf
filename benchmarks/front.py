"""Table: complete fronts, the k best and certified bands, beside one `exact` solve.

    python -m benchmarks.front [--parts fronts,loops,best,growth,hull,wide] [--rows 1000]
    python -m benchmarks.front --pack FOLDER
    python -m benchmarks.front --parts best,fronts --packs FOLDER --workers 16 --stop-after 400

Parts, each of which leaves results/front_PART.jsonl:
  fronts  complete fronts of the paper's models and five Chow-Liu trees at 60 % evidence: points,
          CPU seconds a row, the same as a multiple of one `exact` solve, and beside solving a
          sample of the front's own limits by `exact`. The distinct ones of the first --rows rows;
          a front that is not complete after --row-limit seconds is left as it is
  best    k = 1, 10, 100 beside one solve, rows likewise; the hardest of 50 rows by itself
  loops   an epsilon-constraint loop by HiGHS and SCIP on 5 rows of a small grid
  growth  Ising strips of growing length
  hull    the points that toulbar2's MultiCFN finds (supported ones, by its own account) beside the
          complete front, on grids
  wide    the certified band of Grids_17 at 10 % evidence (by elimination too, which is what
          `cmpe.front` does with it), of a 50 x 50 grid and of Grids_17 without evidence over time

Times are CPU seconds of one thread, so that other work on the machine does not count. Of `fronts`
and `best` a journal keeps what was done: the same command goes on where it stopped. With --workers
fronts run in several processes; the k best and single solves come first, in one, beside nothing.
--pack writes the problems they need, and --packs reads them where the data are not. What asks for a
solver that is not installed is left out.
"""

from __future__ import annotations

import math
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import cmpe
from benchmarks.frame import HERE, UAI_FILES, Record, Recorder, parser, print_table
from benchmarks.front_rows import NAMES, best, fronts, made, pack
from cmpe.generation import grid
from cmpe.solvers.exact import too_wide
from cmpe.tradeoffs.points import TracedPoints
from cmpe.tradeoffs.wide import refine

LENGTHS = (10, 20, 40, 80, 160)
SIDES = (3, 4, 5, 6, 7)
DIGITS = 6  # of toulbar2's costs
MARKS = 400  # limits at which a band is measured
HALF_WINDOW = 100.0  # nats: these limits are from so much below q to so much above it
APART = 1.05  # records of a band: by this factor in time


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser(__doc__)
    options.add_argument("--parts", type=lambda text: text.split(","), default=list(PARTS))
    options.add_argument("--rows", type=int, default=1_000)
    options.add_argument("--row-limit", type=float, default=120.0, help="seconds of a front")
    options.add_argument("--seconds", type=float, default=60.0, help="of a strip or a wide row")
    options.add_argument("--models", type=lambda text: text.split(","), default=list(NAMES))
    options.add_argument("--workers", type=int, default=1, help="processes")
    options.add_argument("--stop-after", type=float, default=math.inf, help="begin no more, s")
    options.add_argument("--journal", type=Path, default=HERE / "runs" / "front")
    options.add_argument("--packs", type=Path, help="folder of packed problems")
    options.add_argument("--pack", type=Path, help="write them there, and end")
    chosen = options.parse_args(arguments)
    if chosen.pack is not None:
        pack(chosen.pack, chosen.models, chosen.rows)
        return 0
    chosen.ends = time.monotonic() + chosen.stop_after
    for part in chosen.parts:
        with Recorder(f"front_{part}", chosen) as recorder:
            for record in PARTS[part](chosen):
                recorder.add(**record)
                print_table([record], list(record))
    return 0


def loops(options: Namespace) -> Iterator[Record]:
    """The epsilon-constraint loop: solve, lower the limit below the answer's t, again."""
    found = cmpe.generate(grid(6, 6, seed=4), cmpe.Recipe(samples=100, percentile=30))
    problem, rows = found.problem, found.test[:5]
    cmpe.front(problem, rows[:1])
    ways = {"front": "numba", "milp:highs": "highspy", "milp:scip": "pyscipopt"}
    for name in (name for name, module in ways.items() if find_spec(module)):
        for row in range(len(rows)):
            one = rows[row : row + 1]
            begin = time.process_time()
            points = len(cmpe.front(problem, one)[0]) if name == "front" else _loop(
                problem, one, name
            )  # fmt: skip
            yield {
                "method": name, "row": row, "points": points,
                "cpu_s": time.process_time() - begin,
            }  # fmt: skip


def _loop(problem: cmpe.Problem, one: NDArray[np.generic], method: str) -> int:
    """How many points the loop finds."""
    own, q, points = problem.constraints[0].function, math.inf, 0
    while True:
        limits = [cmpe.Constraint(own, q)] if q < math.inf else []
        posed = cmpe.Problem(problem.objective, limits, problem.evidence_variables)
        answer = cmpe.solve(posed, one, method=method)
        if not answer.feasible[0]:
            return points
        points += 1
        q = float(own.value(answer.assignments)[0]) - 1e-4


def growth(options: Namespace) -> Iterator[Record]:
    """Strips of width 3 without evidence: points and time by length."""
    for length in LENGTHS:
        model = grid(length, 3, seed=options.seed)
        problem = cmpe.Problem(model, [model.perturb(0.1, 1) <= 0.0])
        begin = time.process_time()
        front = cmpe.front(problem, time_limit=options.seconds)[0]
        spent = time.process_time() - begin
        yield {
            "variables": 3 * length, "points": len(front), "complete": front.complete,
            "supported": int(front.supported.sum()), "cpu_s": spent,
        }  # fmt: skip


def hull(options: Namespace) -> Iterator[Record]:
    """Complete fronts beside toulbar2's supported points."""
    for side in SIDES if find_spec("pytoulbar2") else ():
        model = grid(side, side, seed=options.seed + side)
        other = model.perturb(1.0, 1)
        problem = cmpe.Problem(model, [other <= 0.0])
        cmpe.front(problem)
        begin = time.process_time()
        front = cmpe.front(problem)[0]
        own = time.process_time() - begin
        begin = time.process_time()
        found = supported_by_toulbar2(model, other)
        theirs = time.process_time() - begin
        pairs = zip(front.objective, front.values, front.supported, strict=True)
        on_hull = {(round(float(h), 4), round(float(t), 4)) for h, t, on in pairs if on}
        yield {
            "variables": side * side, "points": len(front), "complete": front.complete,
            "supported": len(on_hull), "toulbar2": len(found),
            "ours_too": len(on_hull & found), "missed": len(front) - len(found),
            "cpu_s": own, "toulbar2_cpu_s": theirs,
        }  # fmt: skip


def supported_by_toulbar2(
    model: cmpe.LogLinearModel, other: cmpe.LogLinearModel
) -> set[tuple[float, float]]:
    """(h, t) of the points of toulbar2's bicriteria method, rounded as its costs are."""
    import pytoulbar2

    both = pytoulbar2.MultiCFN()
    for each, sign in ((model, -1.0), (other, 1.0)):
        network = pytoulbar2.CFN(resolution=DIGITS)
        for v, count in enumerate(each.cardinalities):
            network.AddVariable(f"x{v}", range(count))
        for factor in each.factors:
            costs = (sign * factor.log_table).ravel().tolist()
            network.AddFunction([f"x{v}" for v in factor.scope], costs)
        both.PushCFN(network)
    answers, _ = both.ApproximateParetoFront(0, "min", 1, "min")
    names = [f"x{v}" for v in range(len(model.cardinalities))]
    rows = np.array([[int(answer[name][1:]) for name in names] for answer in answers])
    pairs = zip(model.value(rows), other.value(rows), strict=True)
    return {(round(float(h), 4), round(float(t), 4)) for h, t in pairs}


def wide(options: Namespace) -> Iterator[Record]:
    """The area between points and bound over time, in nats squared."""
    for name, problem, rows in _wide_rows(options.seed):
        window = (problem.limits[0] - HALF_WINDOW, problem.limits[0] + HALF_WINDOW)
        if not too_wide(problem, cmpe.Limits()):
            front = cmpe.front(problem, rows, between=window, time_limit=options.seconds)[0]
            yield {
                "problem": f"{name}, by elimination", "seconds": front.seconds,
                "points": len(front), "complete": front.complete,
                **_width(front.traced, np.linspace(*window, MARKS)),
            }  # fmt: skip
        written = 0.0
        limits = cmpe.Limits(seconds=options.seconds)
        for traced in refine(problem.given(rows), 0, window, limits):
            last = traced.complete or traced.seconds >= options.seconds
            if last or traced.seconds >= APART * written:
                written = traced.seconds
                yield {
                    "problem": name, "seconds": written, "points": len(traced.h),
                    "complete": traced.complete, **_width(traced, np.linspace(*window, MARKS)),
                }  # fmt: skip


def _wide_rows(seed: int) -> Iterator[tuple[str, cmpe.Problem, NDArray[np.generic]]]:
    """Problems, each with one row of evidence."""
    content = made("Grids_17", 0.1)
    yield "Grids_17, 10 %", content.problem, content.test[:1]
    nothing = np.zeros((1, 0), dtype=np.int32)
    grids = cmpe.read_uai(UAI_FILES / "Grids_17.uai")
    for name, model in (("Ising 50 x 50", grid(50, 50, seed=seed)), ("Grids_17, 0 %", grids)):
        t = model.perturb(0.1, 1)
        sampled = t.value(cmpe.sample(t, 20, 0).assignments)
        yield name, cmpe.Problem(model, [t <= float(np.quantile(sampled, 0.3))]), nothing


def _width(traced: TracedPoints, marks: NDArray[np.float64]) -> Record:
    """The band at some limits; what lies between a limit without an answer and -inf is closed."""
    upper = traced.bound(marks)
    low = np.append(-np.inf, traced.h)[np.searchsorted(traced.t, marks, side="right")]
    gap = np.where(upper == -np.inf, 0.0, upper - np.where(upper == -np.inf, 0.0, low))
    known = np.isfinite(gap)
    area = float(np.trapezoid(np.where(known, gap, 0.0), marks))
    widest = float(gap[known].max(initial=0.0))
    return {"area": area, "covered": float(known.mean()), "widest": widest}


PARTS: dict[str, Callable[[Namespace], Iterator[Record]]] = {
    "fronts": fronts,
    "loops": loops,
    "best": best,
    "growth": growth,
    "hull": hull,
    "wide": wide,
}

if __name__ == "__main__":
    raise SystemExit(main())
