"""Learned starts on wide problems: a network before repair and before search, and none.

    python -m benchmarks.wide_learned [--families NAME ...] [--rows 256]

For each family: label training rows by `search`, train a small network on them (`distill`, with a
head for the multiplier), then answer other rows from the network's start and from starts without a
network, by repair alone (`moves` is single moves, `repair` has chains and exchanges too) and by
search with budgets from 0.1 to 100 ms a row of one core. Rows to train on and rows to report on are
other samples of the same model than those of wide_families; their references are proved by `exact`
where its limit allows, else the best value seen.

Starts without a network are random, ICM and max-product. `constant` knows the family, not the row:
each variable's most frequent value in the network's answers to its training rows, and their mean
multiplier. All rows are one batch. Times are CPU times and include the network's pass.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

import cmpe
from benchmarks.frame import Record, Recorder, parser, print_table
from benchmarks.wide_families import LITTLE_MEMORY, family
from cmpe.arrays import FREE, Assignments, Floats
from cmpe.elimination.plan import MEMORY_LIMIT
from cmpe.learning.solver import NeuralSolver
from cmpe.learning.training.config import TrainingConfig
from cmpe.learning.training.fitting import fit
from cmpe.problem import Evidence, Instances
from cmpe.sampling import sample
from cmpe.solvers.local import improve
from cmpe.solvers.search import BEGINNINGS, search
from cmpe.solvers.search.schedule import Budget

FAMILIES = (
    "Grids_17_10_q30_gibbs", "Grids_17_10_q80_gibbs", "Grids_17_10_q30", "Grids_17_10_q80",
    "Ising_50",
)  # fmt: skip
BUDGETS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # ms a row
LONG = 10.0  # ms, from which on a quarter of the rows has to do
SWEEPS = {"moves": 0, "repair": 3}
REPEATS = 3
COLUMNS = (
    "family", "rows", "start", "stage", "ms", "used_us", "regret", "error", "violated", "train_s",
)  # fmt: skip
CONFIG = TrainingConfig(
    loss="distill", hidden=(512,), skip=True, epochs=60, batch_size=128, label_method="search",
    plateau_factor=1.0, validation_share=0.1, predict_multiplier=True,
)  # fmt: skip

Start = tuple[Assignments, Floats | None]  # assignments, -1 for search's own; multipliers


@dataclass(frozen=True)
class Rows:
    """Rows to report on, with the best value known of each."""

    instances: Instances
    best: Floats

    def first(self, count: int) -> Rows:
        """Only so many of them."""
        part = Instances(self.instances.problem, self.instances.evidence[:count])
        return Rows(part, self.best[:count])


def drawn(name: str, count: int, seed: int) -> Evidence:
    """Evidence rows of a family, sampled as its own are."""
    problem = family(name).cases[0].problem
    memory = LITTLE_MEMORY if name.endswith("gibbs") else MEMORY_LIMIT
    rows = sample(problem.objective, count, seed, memory_limit=memory).assignments
    return rows[:, list(problem.evidence_variables)]


def trained(name: str, count: int, seed: int) -> tuple[NeuralSolver, Evidence, float]:
    """A network for a family, its training rows, and the CPU seconds of labels and training."""
    problem, known = family(name).parts("train")[0]
    rows = np.concatenate([known, drawn(name, count, seed + 1)])
    begin = time.process_time()
    solver = fit(problem, rows, replace(CONFIG, seed=seed))
    return solver, rows, time.process_time() - begin


def reported(name: str, count: int, limit: float, seed: int) -> Rows:
    """Rows to report on and what `exact` makes of them."""
    problem = family(name).cases[0].problem
    instances = problem.given(drawn(name, count, seed + 2))
    known = cmpe.solve(problem, instances.evidence, method="exact", time_limit=limit)
    proved = int((known.status == cmpe.Status.OPTIMAL).sum())
    print(f"{name}: {proved} of {count} references proved", flush=True)
    return Rows(instances, np.where(known.feasible, known.objective, -np.inf))


def starts(solver: NeuralSolver, training: Evidence) -> Mapping[str, Callable[[Instances], Start]]:
    """Where each kind of start begins."""
    values, prices = solver.predictor.predict(solver.problem.given(training))
    assert prices is not None
    cards = solver.problem.objective.cardinalities
    counts = np.stack([(values == k).sum(axis=0) for k in range(max(cards))])
    usual, price = counts.argmax(axis=0).astype(np.int32), prices.mean(axis=0)

    def none(instances: Instances) -> Start:
        return np.full((len(instances), len(cards)), FREE, dtype=np.int32), None

    def constant(instances: Instances) -> Start:
        count = len(instances)
        rows = instances.complete(np.tile(usual[list(solver.problem.free)], (count, 1)))
        return rows, np.tile(price, (count, 1))

    own = dict.fromkeys(BEGINNINGS, none)
    return {**own, "constant": constant, "network": solver.predictor.predict}


def answers(instances: Instances, kind: str, start: Start, stage: str, ms: float) -> Assignments:
    """Repair or search from a start."""
    rows, prices = start
    if stage in SWEEPS:
        if kind == "random":
            cards = np.asarray(instances.problem.objective.cardinalities)
            rows = np.random.default_rng(0).integers(0, cards, rows.shape).astype(np.int32)
        return improve(instances, rows, sweeps=SWEEPS[stage])
    begin = kind if kind in BEGINNINGS else BEGINNINGS[0]
    budget = Budget(seconds=ms / 1000, clock=time.thread_time)
    return search(instances, rows, multipliers=prices, budget=budget, begin=begin)


def measure(name: str, options: argparse.Namespace, recorder: Recorder) -> None:
    solver, training, spent = trained(name, options.train, options.seed)
    rows = reported(name, options.rows, options.limit, options.seed)
    found: list[tuple[Record, Assignments]] = []
    for kind, start in starts(solver, training).items():
        stages = [(stage, 0.0) for stage in SWEEPS if kind != "messages"]  # search makes those
        for stage, ms in [*stages, *(("search", ms) for ms in BUDGETS)]:
            part = rows.first(len(rows.best) // 4) if ms >= LONG else rows
            few = part.first(16).instances
            answers(few, kind, start(few), stage, ms or 0.1)  # compiles
            seconds, last = [], np.zeros(0, dtype=np.int32)
            for _ in range(REPEATS if ms <= 1 else 1):
                begin = time.process_time()
                last = answers(part.instances, kind, start(part.instances), stage, ms)
                seconds.append(time.process_time() - begin)
            used = 1e6 * float(np.median(seconds)) / len(last)
            about = {"family": name, "start": kind, "stage": stage, "ms": ms, "train_s": spent}
            found.append(({**about, "used_us": used}, last))
    for _, last in found:
        _raise_references(rows, last)
    for about, last in found:
        recorder.add(**about, **_record(rows.first(len(last)), last))
    print_table([r for r in recorder.records if r["family"] == name], COLUMNS)


def _raise_references(rows: Rows, found: Assignments) -> None:
    """An answer above the best value known becomes it."""
    problem, count = rows.instances.problem, len(found)
    worth = np.where(problem.is_feasible(found), problem.objective.value(found), -np.inf)
    rows.best[:count] = np.maximum(rows.best[:count], worth)


def _record(rows: Rows, found: Assignments) -> Record:
    """Mean regret of the feasible answers, with its standard error."""
    problem = rows.instances.problem
    feasible = problem.is_feasible(found)
    regret = (rows.best - problem.objective.value(found))[feasible]
    mean = float(regret.mean()) if len(regret) else None
    error = float(regret.std() / np.sqrt(len(regret))) if len(regret) else None
    return {
        "rows": len(found), "regret": mean, "error": error, "violated": int((~feasible).sum()),
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser(__doc__)
    options.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    options.add_argument("--train", type=int, default=1500, help="rows, beside the family's 180")
    options.add_argument("--rows", type=int, default=256, help="to report on")
    options.add_argument("--limit", type=float, default=5.0, help="seconds of a reference")
    chosen = options.parse_args(arguments)
    with Recorder("wide_learned", chosen) as recorder:
        for name in chosen.families:
            measure(name, chosen, recorder)


if __name__ == "__main__":
    main()
