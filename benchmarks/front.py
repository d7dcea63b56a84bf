"""Table: complete fronts, the k best and certified bands, beside one `exact` solve.

    python -m benchmarks.front [--parts fronts,loops,best,growth,hull,wide] [--rows 1000]

Parts, each of which leaves results/front_PART.jsonl:
  fronts  complete fronts of the paper's models and five Chow-Liu trees at 60 % evidence: points,
          CPU seconds a row, the same as a multiple of one `exact` solve, and beside solving a
          sample of the front's own limits by `exact`. The distinct ones of the first --rows rows,
          for about --seconds of CPU a model
  loops   an epsilon-constraint loop by HiGHS and SCIP on 5 rows of a small grid
  best    k = 1, 10, 100 beside one solve, rows likewise; the hardest of 50 rows by itself
  growth  Ising strips of growing length
  hull    the points that toulbar2's MultiCFN finds (supported ones, by its own account) beside the
          complete front, on grids
  wide    the certified band of Grids_17 at 10 % evidence and of a 50 x 50 grid over time

Times are CPU seconds of one thread, so that other work on the machine does not count.
"""

from __future__ import annotations

import resource
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

import cmpe
from benchmarks.frame import MODELS, UAI_FILES, Record, Recorder, answer_each, parser, print_table
from benchmarks.tractable import PROBLEMS, _data
from cmpe.generation import grid
from cmpe.tradeoffs.wide import refine

SAMPLED = 40  # limits of a front that are solved one by one
RANKS = (1, 10, 100)
LENGTHS = (10, 20, 40, 80, 160)
SIDES = (3, 4, 5, 6, 7)
DIGITS = 6  # of toulbar2's costs
MARKS = 400  # limits at which a band is measured


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser(__doc__)
    options.add_argument("--parts", type=lambda text: text.split(","), default=list(PARTS))
    options.add_argument("--rows", type=int, default=1_000)
    options.add_argument("--seconds", type=float, default=60.0, help="CPU a model, about")
    options.add_argument("--models", type=lambda text: text.split(","), default=list(NAMES))
    chosen = options.parse_args(arguments)
    for part in chosen.parts:
        with Recorder(f"front_{part}", chosen) as recorder:
            for record in PARTS[part](chosen):
                recorder.add(**record)
                print_table([record], list(record))
    return 0


NAMES = (*MODELS, *PROBLEMS)


def made(name: str, evidence: float = 0.6) -> cmpe.ProblemDirectory:
    """The problem of a model: q at the 30th percentile."""
    if name in PROBLEMS:
        data = _data(name)
        model = cmpe.learn_chow_liu(data["train"], valid=data["valid"]).to_model()
    else:
        model = cmpe.read_uai(UAI_FILES / f"{name}.uai")
    recipe = cmpe.Recipe(samples=10_000, percentile=30, evidence_fraction=evidence)
    found = cmpe.generate(model, recipe)
    return cmpe.ProblemDirectory(found.problem, found.train, found.test)


def cpu(work: Callable[[], object]) -> float:
    """CPU seconds of a call."""
    begin = time.process_time()
    work()
    return time.process_time() - begin


def distinct(content: cmpe.ProblemDirectory, count: int) -> tuple[Any, Any]:
    """The distinct ones of the first `count` rows, as they come, and how often each appears."""
    rows, first, often = np.unique(
        content.test[:count], axis=0, return_index=True, return_counts=True
    )
    order = np.argsort(first)
    return rows[order], often[order]


def warmed(options: Namespace) -> Iterator[tuple[str, cmpe.Problem, Any, Any]]:
    """Every model asked for: its problem, distinct rows and how often; one row was answered."""
    for name in options.models:
        content = made(name)
        rows, often = distinct(content, options.rows)
        answer_each(content.problem, rows[:1], "exact")
        yield name, content.problem, rows, often


def fronts(options: Namespace) -> Iterator[Record]:
    """Complete fronts."""
    for name, problem, rows, often in warmed(options):
        one = cpu(partial(cmpe.solve, problem, rows, method="exact")) / len(rows)
        batch = max(1, int(1.0 / cpu(partial(cmpe.front, problem, rows[:1]))))
        found: list[cmpe.Front] = []
        begin = time.process_time()
        while len(found) < len(rows) and time.process_time() - begin < options.seconds:
            found += cmpe.front(problem, rows[len(found) :][:batch])
        mean = (time.process_time() - begin) / len(found)
        points = [len(f) for f in found]
        front, last = found[-1], rows[len(found) - 1 : len(found)]
        limits = np.random.default_rng(options.seed).choice(front.values, SAMPLED)
        each = _one_by_one(problem, last, limits.tolist())
        yield {
            "model": name,
            "free": len(problem.free),
            "distinct": len(points),
            "rows": int(often[: len(points)].sum()),
            "complete": sum(f.complete for f in found),
            "points": float(np.mean(points)),
            "most_points": max(points),
            "front_ms": 1e3 * mean,
            "hardest_wall_ms": 1e3 * max(f.seconds for f in found),
            "us_a_point": 1e6 * mean / max(1.0, float(np.mean(points))),
            "exact_us": 1e6 * one,
            "times_exact": mean / one,
            "q_by_q_us": 1e6 * each,
            "share_of_q_by_q": mean / (each * float(np.mean(points))),
            "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }


def _one_by_one(problem: cmpe.Problem, row: Any, limits: Sequence[float]) -> float:
    """CPU seconds of one `exact` solve at a limit of the front, its plan not counted."""
    own = problem.constraints[0].function
    total = 0.0
    for q in limits:
        posed = cmpe.Problem(
            problem.objective, [cmpe.Constraint(own, float(q))], problem.evidence_variables
        )
        rows = np.repeat(row, 64, axis=0)
        answer_each(posed, rows[:1], "exact")
        total += cpu(partial(answer_each, posed, rows, "exact")) / 64
    return total / len(limits)


def loops(options: Namespace) -> Iterator[Record]:
    """The epsilon-constraint loop: solve, lower the limit below the answer's t, again."""
    found = cmpe.generate(grid(6, 6, seed=4), cmpe.Recipe(samples=100, percentile=30))
    problem, rows = found.problem, found.test[:5]
    own = problem.constraints[0].function
    for name in ("front", "milp:highs", "milp:scip"):
        begin, points = time.process_time(), 0
        for row in range(len(rows)):
            one = rows[row : row + 1]
            if name == "front":
                points += len(cmpe.front(problem, one)[0])
                continue
            q = float("inf")
            while True:
                limits = [cmpe.Constraint(own, q)] if q < float("inf") else []
                posed = cmpe.Problem(problem.objective, limits, problem.evidence_variables)
                answer = cmpe.solve(posed, one, method=name)
                if not answer.feasible[0]:
                    break
                points += 1
                q = float(own.value(answer.assignments)[0]) - 1e-4
        yield {"method": name, "points": points, "cpu_s": time.process_time() - begin}


def best(options: Namespace) -> Iterator[Record]:
    """The k best beside one solve, of distinct rows."""
    for name, problem, rows, _ in warmed(options):
        cmpe.best(problem, rows[:1], 2)
        trial = cpu(partial(cmpe.best, problem, rows[:20], RANKS[-1])) / len(rows[:20])
        rows = rows[: max(20, int(options.seconds / trial))]
        one = cpu(partial(cmpe.solve, problem, rows, method="exact")) / len(rows)
        record: Record = {"model": name, "rows": len(rows), "exact_us": 1e6 * one}
        for k in RANKS:
            begin = time.process_time()
            ranked = cmpe.best(problem, rows, k)
            each = (time.process_time() - begin) / len(rows)
            record |= {f"k{k}_ms": 1e3 * each, f"k{k}_times_exact": each / one}
            record |= {f"k{k}_proved": sum(r.complete for r in ranked)}
        alone = [partial(cmpe.best, problem, row[np.newaxis], RANKS[-1]) for row in rows[:50]]
        record["alone_hardest_ms"] = 1e3 * max(map(cpu, alone))
        record["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        yield record


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
    for side in SIDES:
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
    content = made("Grids_17", 0.1)
    model = grid(50, 50, seed=options.seed)
    t = model.perturb(0.1, 1)
    sampled = t.value(cmpe.sample(t, 20, 0).assignments)
    ising = cmpe.Problem(model, [t <= float(np.quantile(sampled, 0.3))])
    for name, problem, rows in (
        ("Grids_17, 10 %", content.problem, content.test[:1]),
        ("Ising 50 x 50", ising, np.zeros((1, 0), dtype=np.int32)),
    ):
        q = problem.limits[0]
        window = (q - 100.0, q + 100.0)
        marks = np.linspace(*window, MARKS)
        for traced in refine(problem.given(rows), 0, window, cmpe.Limits(options.seconds)):
            upper = traced.bound(marks)
            low = np.append(-np.inf, traced.h)[np.searchsorted(traced.t, marks, side="right")]
            known = np.isfinite(upper) & np.isfinite(low)
            area = float(np.trapezoid(np.where(known, upper - low, 0.0), marks))
            yield {
                "problem": name, "seconds": traced.seconds, "points": len(traced.h),
                "area": area, "covered": float(known.mean()),
                "widest": float((upper - low)[known].max(initial=0.0)),
            }  # fmt: skip


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
