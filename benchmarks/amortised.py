"""One network for any question beside `search`, at equal CPU time.

Each row of a model is asked at five positions of q, with a random mask that observes a share of the
variables. No mask, sample or limit has been tuned on, and the shares 0.3 and 0.7 neither. Rows of a
mask are one problem: an observed selector adds each row's own limit to t. The regret of a row is
what it lacks of the best feasible value that any contestant, or `search` with `--reference` ms,
found.

    search     `search` from scratch, for so many ms a row
    once       one pass, single moves, then `search` for the rest of the time
    schedules  all schedules and the questions that follow, then `search` for the rest
    default    what a row gets without a time limit

    python -m benchmarks.amortised --tables     shows what was kept
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import cmpe
from benchmarks.frame import HERE, Record, Recorder, model_files, parser
from cmpe.arrays import Assignments, Floats
from cmpe.core.schedules import Passed
from cmpe.formats.uai import read_uai
from cmpe.generation import Recipe, grid, perturbed
from cmpe.learning.amortised.config import AmortisedConfig, QuestionRange
from cmpe.learning.amortised.consulting import consulted
from cmpe.learning.amortised.messages import MessagePass
from cmpe.learning.amortised.questions import QuestionMaker, selecting
from cmpe.learning.amortised.solver import AmortisedSolver, answer_passes
from cmpe.learning.amortised.training import fit_amortised
from cmpe.learning.improvement import moved
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
QUESTIONS = 8, 8  # schedules, and questions that follow


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

    def answers(self, who: str, solver: AmortisedSolver, ms: float) -> Assignments:
        """What a contestant makes of all rows in so many ms each."""
        begin, block, prices = time.process_time(), self.instances, None
        rows = np.full(block.full().shape, -1, dtype=np.int32)
        if who == "once":
            first = self.ask(solver, block.full(), 0)
            rows, prices = moved(block, first.values, 1), first.multipliers
        elif who != "search":
            rows, first = consulted(block, lambda x, k: self.ask(solver, x, k), QUESTIONS)
            prices = first.multipliers
        left = ms / 1000 - (time.process_time() - begin) / len(rows)
        budget = Budget(seconds=left, clock=time.process_time)
        if who == "default":
            rows, budget = moved(block, rows, 1), Budget(answer_passes(block.problem))
        elif left <= 0.0:
            return rows
        return search(block, rows, multipliers=prices, budget=budget)

    def worth(self, rows: Assignments) -> Floats:
        """h of the feasible rows, -inf of the others."""
        problem = self.instances.problem
        return np.where(problem.is_feasible(rows), problem.objective.value(rows), -np.inf)


def posed(name: str) -> cmpe.Problem:
    """h is the model, t a noisy copy; the limit is a placeholder."""
    if name.startswith("Ising"):
        model = grid(50, 50, seed=50)
    else:
        with model_files([name]) as (path,):
            model = read_uai(path)
    return cmpe.Problem(model, [cmpe.Constraint(perturbed(model, Recipe()), 0.0)], name=name)


def measured(
    cell: Cell, solver: AmortisedSolver, options: argparse.Namespace, budgets: Iterable[float]
) -> Iterator[Record]:
    """Every contestant, its CPU time a row, and its mean regret."""
    few = Cell(cell.instances.take(slice(0, 16)), cell.limits)
    plan = [(who, ms) for ms in budgets for who in ("search", "once", "schedules")]
    for who in ("search", "once", "default"):  # compiles
        few.answers(who, solver, 1.0)
    best = cell.worth(cell.answers("search", solver, options.reference))
    found = []
    for who, ms in [*plan, ("default", 0.0)]:
        begin = time.process_time()
        rows = cell.answers(who, solver, ms)
        used = 1000 * (time.process_time() - begin) / len(rows)
        if who != "schedules" or used <= 1.5 * ms:  # where they do not fit there is nothing to show
            found.append((who, ms, used, cell.worth(rows)))
            best = np.maximum(best, found[-1][-1])
    for who, ms, used, values in found:
        yield {"who": who, "budget": ms, "ms": used, "rows": len(values),
               "violated": int((~np.isfinite(values)).sum()),
               "regret": float((best - values)[np.isfinite(values)].mean())}  # fmt: skip


def run(options: argparse.Namespace) -> None:
    """Tune, and measure every cell."""
    with Recorder(NAME, options) as out:
        for name in options.models:
            problem = posed(name)
            config = AmortisedConfig(questions=ASKED, generations=options.generations)
            begin = time.process_time()
            solver = fit_amortised(problem, config)
            out.add(model=name, tuning_s=time.process_time() - begin)
            samples = cmpe.sample(problem.objective, options.samples, 99).assignments
            for rate in options.rates:
                cell = Cell.of(problem, samples, rate, config.floor)
                for record in measured(cell, solver, options, BUDGETS[name]):
                    print(out_of := {"model": name, "rate": rate, **record}, flush=True)
                    out.add(**out_of)


def kept() -> list[Record]:
    """Every measurement of the kept result."""
    path = HERE / "results" / f"{NAME}.jsonl"
    return [r for r in map(json.loads, path.read_text(encoding="utf-8").splitlines()) if "who" in r]


def table(records: list[Record]) -> Iterator[str]:
    """Mean regret over the shares that are observed, and ms a row, by budget."""
    yield "| model | budget | search | once | schedules |"
    yield "|---" * 5 + "|"
    for model in dict.fromkeys(r["model"] for r in records):
        mine = [r for r in records if r["model"] == model]
        for ms in sorted({r["budget"] for r in mine if r["budget"]}):
            here = [r for r in mine if r["budget"] == ms]
            cells = (_cell(here, who) for who in ("search", "once", "schedules"))
            yield f"| {model} | {ms:g} ms | " + " | ".join(cells) + " |"
        yield f"| {model} | none, default | | | {_cell(mine, 'default')} |"


def _cell(records: list[Record], who: str) -> str:
    """Empty where a contestant did not answer all cells within the time."""
    mine = [r for r in records if r["who"] == who]
    if len(mine) < len({r["rate"] for r in records}):
        return ""
    regret, ms = (float(np.mean([r[name] for r in mine])) for name in ("regret", "ms"))
    return f"{regret:.2f} ({ms:.1f})"


def main(arguments: list[str] | None = None) -> None:
    """Measure, or show what was kept."""
    options: Any = parser(__doc__)
    options.add_argument("--models", nargs="+", default=list(BUDGETS), choices=list(BUDGETS))
    options.add_argument("--rates", nargs="+", type=float, default=[0.1, 0.3, 0.5])
    options.add_argument("--samples", type=int, default=16, help="of a cell, at five positions")
    options.add_argument("--generations", type=int, default=120)
    options.add_argument("--reference", type=float, default=60.0, help="ms a row of `search`")
    options.add_argument("--tables", action="store_true", help="show what was kept")
    chosen = options.parse_args(arguments)
    if chosen.tables:
        print("\n".join(table(kept())))
    else:
        run(chosen)


if __name__ == "__main__":
    main()
