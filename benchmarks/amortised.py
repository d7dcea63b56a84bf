"""One network for any question beside `search`, at equal CPU time: what several schedules add.

Each row of a model is asked at five positions of q, with a random mask that observes a share of the
variables. No mask, sample or limit has been tuned on, and the shares 0.3 and 0.7 neither. Rows of a
mask are one problem: an observed selector adds each row's own limit to t. The regret of a row is
what it lacks of the best feasible value that any contestant, or `search` with `--reference` ms,
found.

    search     `search` from scratch, for so many ms a row
    S+F        S schedules and F questions that follow (`--ways`), single moves, then `search` for
               the rest of the time; without a time limit a row gets 8+8

Every model and seed is a process of one thread (`--processes`); times are its CPU seconds. With the
default options a machine with 16 idle cores takes about six minutes.

    python -m benchmarks.amortised --tables     shows what was kept
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any

import numpy as np

import cmpe
from benchmarks.frame import Record, Recorder, model_files, parser
from cmpe.arrays import Assignments, Floats
from cmpe.core.schedules import Passed
from cmpe.formats.uai import read_uai
from cmpe.generation import Recipe, grid, perturbed
from cmpe.learning.amortised.config import AmortisedConfig, QuestionRange
from cmpe.learning.amortised.consulting import consulted
from cmpe.learning.amortised.messages import MessagePass
from cmpe.learning.amortised.questions import QuestionMaker, selecting
from cmpe.learning.amortised.solver import AmortisedSolver
from cmpe.learning.amortised.training import fit_amortised
from cmpe.problem import Instances
from cmpe.problem.groups import by_observed
from cmpe.solvers.search import search
from cmpe.solvers.search.schedule import Budget

NAME = "amortised"
PLACES = (0.1, 0.3, 0.5, 0.7, 0.9)  # positions of q
ASKED = QuestionRange(
    rates=((0.08, 0.2), (0.4, 0.6), (0.8, 0.92)), positions=((0.0, 0.2), (0.4, 0.6), (0.8, 1.0))
)
BUDGETS = {  # ms a row
    "Grids_17": (0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
    "Segmentation_14": (0.25, 0.5, 1.0, 2.0, 4.0, 8.0),
    "Ising_50": (1.0, 2.0, 4.0, 8.0, 16.0, 32.0),
}
WAYS = ("1+0", "2+0", "4+0", "8+0", "8+8")
SEEDS = (0, 1, 2)
FITS = 1.5  # times the budget: a way that takes longer is left out
SAME = 1e-3  # nats
ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True)
class Cell:
    """Rows of one mask at every position of q."""

    instances: Instances  # of the problem with a selector
    limits: Floats  # (R, m)

    @classmethod
    def of(cls, problem: cmpe.Problem, samples: Assignments, rate: float, floor: float) -> Cell:
        """One random mask, each sample at all positions."""
        n, random = problem.variables, np.random.default_rng(round(100 * rate))
        chosen = random.permutation(n)[: round(rate * n)]
        given = np.full(samples.shape, -1)
        given[:, chosen] = samples[:, chosen]
        rows = np.repeat(given, len(PLACES), axis=0)
        places = np.tile(PLACES, len(samples))[:, None]
        maker = QuestionMaker(problem, MessagePass.of(problem, floor), QuestionRange())
        limits = maker.limits_at(rows, places)
        whole = np.column_stack([rows, np.arange(len(rows))]).astype(np.int32)
        [(instances, _)] = by_observed(selecting(problem, limits), whole)
        return cls(instances, limits)

    def ask(self, solver: AmortisedSolver, given: Assignments, number: int) -> Passed:
        """A pass, with the selector."""
        numbers = given[:, -1]
        found = solver.predict(given[:, :-1], self.limits[numbers], number)
        return found._replace(values=np.column_stack([found.values, numbers]).astype(np.int32))

    def answers(self, way: str, solver: AmortisedSolver, ms: float) -> Assignments:
        """What a contestant makes of all rows in so many ms each."""
        begin, block, prices = time.process_time(), self.instances, None
        rows = np.full(block.full().shape, -1, dtype=np.int32)
        if way != "search":
            numbers = numbers_of(way)
            rows, first = consulted(block, lambda x, k: self.ask(solver, x, k), numbers)
            prices = first.multipliers
        left = ms / 1000 - (time.process_time() - begin) / len(rows)
        if left <= 0.0:
            return rows
        budget = Budget(seconds=left, clock=time.process_time)
        return search(block, rows, multipliers=prices, budget=budget)

    def worth(self, rows: Assignments) -> Floats:
        """h of the feasible rows, -inf of the others."""
        problem = self.instances.problem
        return np.where(problem.is_feasible(rows), problem.objective.value(rows), -np.inf)


def numbers_of(way: str) -> tuple[int, int]:
    """Of "8+4": eight schedules, and four questions that follow."""
    schedules, _, followed = way.partition("+")
    return int(schedules), int(followed)


def posed(name: str) -> cmpe.Problem:
    """h is the model, t a noisy copy; the limit is a placeholder."""
    if name.startswith("Ising"):
        model = grid(50, 50, seed=50)
    else:
        with model_files([name]) as (path,):
            model = read_uai(path)
    return cmpe.Problem(model, [cmpe.Constraint(perturbed(model, Recipe()), 0.0)], name=name)


def measured(
    cell: Cell, solver: AmortisedSolver, options: argparse.Namespace, budgets: Sequence[float]
) -> Iterator[Record]:
    """Every contestant, its CPU time a row, and its mean regret."""
    few = Cell(cell.instances.take(slice(0, 16)), cell.limits)
    for way in ("search", options.ways[-1]):  # compiles
        few.answers(way, solver, 1.0)
    best = cell.worth(cell.answers("search", solver, options.reference))
    found = []
    for ms in budgets:
        for way in ("search", *options.ways):
            begin = time.process_time()
            rows = cell.answers(way, solver, ms)
            used = 1000 * (time.process_time() - begin) / len(rows)
            if way in ("search", "1+0") or used <= FITS * ms:
                found.append((way, ms, used, cell.worth(rows)))
                best = np.maximum(best, found[-1][-1])
    for way, ms, used, values in found:
        good = np.isfinite(values)
        yield {
            "who": way, "budget": ms, "ms": used, "rows": len(values),
            "violated": int((~good).sum()), "regret": float((best - values)[good].mean()),
        }  # fmt: skip


def measured_model(name: str, seed: int, options: argparse.Namespace) -> list[Record]:
    """Tune with a seed, and measure every cell."""
    problem = posed(name)
    config = AmortisedConfig(questions=ASKED, generations=options.generations, seed=seed)
    begin = time.process_time()
    solver = fit_amortised(problem, config)
    found: list[Record] = [{"tuning_s": time.process_time() - begin}]
    samples = cmpe.sample(problem.objective, options.samples, 99 + seed).assignments
    for rate in options.rates:
        cell = Cell.of(problem, samples, rate, config.floor)
        found += [{"rate": rate, **r} for r in measured(cell, solver, options, BUDGETS[name])]
    return [{"model": name, "seed": seed, **record} for record in found]


def run(options: argparse.Namespace) -> None:
    """Every model with every seed, in processes."""
    asked = [(name, seed) for name in options.models for seed in options.seeds]
    for variable in ONE_THREAD:
        os.environ[variable] = "1"
    spawned = multiprocessing.get_context("spawn")
    with (
        Recorder(NAME, options) as out,
        ProcessPoolExecutor(options.processes, mp_context=spawned) as pool,
    ):
        tasks = [pool.submit(measured_model, *each, options) for each in asked]
        for task in as_completed(tasks):
            for record in task.result():
                out.add(**record)
            print(f"{record['model']}, seed {record['seed']}: done", flush=True)
    print("\n".join(table(out.records)))


def kept(options: argparse.Namespace) -> list[Record]:
    """Every measurement of the kept result."""
    path = options.results / f"{NAME}.jsonl"
    if not path.exists():
        raise SystemExit(f"{path} is not there; `python -m benchmarks.{NAME}` makes it")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()[1:]]


def table(records: Sequence[Record]) -> Iterator[str]:
    """Mean regret over seeds and shares that are observed, and ms a row, by budget; then in how
    many cells each way has less regret than `search`, and more."""
    cells = [r for r in records if "who" in r]
    ways = list(dict.fromkeys(r["who"] for r in cells))
    yield f"| model | ms a row | {' | '.join(ways)} |"
    yield "|---" * (2 + len(ways)) + "|"
    for model, ms in dict.fromkeys((r["model"], r["budget"]) for r in cells):
        here = [r for r in cells if (r["model"], r["budget"]) == (model, ms)]
        yield f"| {model} | {ms:g} | {' | '.join(_cell(here, way) for way in ways)} |"
    yield ""
    plain = {_place(r): r["regret"] for r in cells if r["who"] == "search"}
    for way in ways[1:]:
        pairs = [(r["regret"], plain[_place(r)]) for r in cells if r["who"] == way]
        less, more = (sum(sign * (b - a) > SAME for a, b in pairs) for sign in (1, -1))
        mean = np.mean([a - b for a, b in pairs])
        counts = f"less regret than search in {less} of {len(pairs)} cells, more in {more}"
        yield f"{way}: {counts}; {mean:+.3f} nats"


def _place(record: Record) -> tuple[Any, ...]:
    return tuple(record[name] for name in ("model", "seed", "rate", "budget"))


def _cell(records: Sequence[Record], way: str) -> str:
    """Empty where a contestant did not answer all cells within the time."""
    mine = [r for r in records if r["who"] == way]
    if len(mine) < len({(r["seed"], r["rate"]) for r in records}):
        return ""
    regret, ms = (float(np.mean([r[name] for r in mine])) for name in ("regret", "ms"))
    return f"{regret:.2f} ({ms:.1f})"


def main(arguments: list[str] | None = None) -> None:
    """Measure, or show what was kept."""
    options: Any = parser(__doc__)
    options.add_argument("--models", nargs="+", default=list(BUDGETS), choices=list(BUDGETS))
    options.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    options.add_argument("--ways", nargs="+", default=list(WAYS), help="schedules+questions")
    options.add_argument("--rates", nargs="+", type=float, default=[0.1, 0.3, 0.5])
    options.add_argument("--samples", type=int, default=16, help="of a cell, at five positions")
    options.add_argument("--generations", type=int, default=120)
    options.add_argument("--reference", type=float, default=60.0, help="ms a row of `search`")
    options.add_argument("--processes", type=int, default=os.cpu_count())
    options.add_argument("--tables", action="store_true", help="show what was kept")
    chosen = options.parse_args(arguments)
    if chosen.tables:
        print("\n".join(table(kept(chosen))))
    else:
        run(chosen)


if __name__ == "__main__":
    main()
