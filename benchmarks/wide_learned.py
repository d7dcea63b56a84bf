"""Learned starts on wide problems: a network before repair and before search, and none.

    python -m benchmarks.wide_learned [--families NAME ...]

For each family: label training rows by `search`, train a small network on them (`distill`), then
answer the family's test rows from the network's start and from random, ICM and max-product starts,
by repair alone and by search with budgets from 0.1 to 100 ms a row of one core. Rows to train on
are other samples of the same model; the references of the test rows are those of wide_families.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

import cmpe
from benchmarks.frame import Record, Recorder, parser, print_table
from benchmarks.wide_families import LITTLE_MEMORY, family, reference
from cmpe.elimination import MEMORY_LIMIT
from cmpe.learning.config import TrainingConfig
from cmpe.learning.fitting import fit
from cmpe.learning.solver import NeuralSolver
from cmpe.problem import Assignments, Instances
from cmpe.sampling import sample
from cmpe.solvers.local_search import improve
from cmpe.solvers.neighbourhoods import search
from cmpe.solvers.passes import Budget

FAMILIES = ("Grids_17_10_q30_gibbs", "Grids_17_10_q80_gibbs", "Ising_50")
ROWS = 16  # one block of search
TRAIN = 1500
BUDGETS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)  # ms a row
BEGINNINGS = ("random", "icm", "messages")
REPEATS = 5
COLUMNS = ("family", "start", "stage", "ms", "used_us", "regret", "violated", "train_s")
CONFIG = TrainingConfig(
    loss="distill", hidden=(512,), skip=True, epochs=60, batch_size=128, label_method="search",
    plateau_factor=1.0, validation_share=0.1,
)  # fmt: skip


def trained(name: str, seed: int) -> tuple[NeuralSolver, float]:
    """A network for a family, and the CPU seconds of its labels and training."""
    problem, known = family(name).parts("train")[0]
    memory = LITTLE_MEMORY if name.endswith("gibbs") else MEMORY_LIMIT
    drawn = sample(problem.objective, TRAIN, seed + 1, memory_limit=memory).assignments
    rows = drawn[:, list(problem.evidence_variables)]
    begin = time.process_time()
    solver = fit(problem, np.concatenate([known, rows]), replace(CONFIG, seed=seed))
    return solver, time.process_time() - begin


def started(instances: Instances, solver: NeuralSolver) -> dict[str, Callable[[], Assignments]]:
    """Where each kind of start begins: no assignment where search makes its own."""
    none = np.full((len(instances), instances.problem.variables), -1, dtype=np.int32)
    starts: dict[str, Callable[[], Assignments]] = {name: lambda: none for name in BEGINNINGS}
    return {**starts, "network": lambda: solver.predict(instances)[0]}


def answers(
    instances: Instances, kind: str, start: Assignments, ms: float, seed: int
) -> Assignments:
    """Search from a start for `ms` a row; 0 is repair alone."""
    begin = kind if kind in BEGINNINGS else "icm"
    if ms == 0:
        if kind != "network":  # no passes: only the start itself, then the same repair
            budget = Budget(passes=0)
            start = search(instances, start, budget=budget, begin=begin, seed=seed)
        return improve(instances, start)
    budget = Budget(seconds=ms / 1000, clock=time.thread_time)
    return search(instances, start, budget=budget, begin=begin, seed=seed)


def measure(name: str, options: argparse.Namespace, recorder: Recorder) -> None:
    solver, spent = trained(name, options.seed)
    problem, rows = family(name).parts("test")[0]
    instances = problem.given(rows[:ROWS])
    best = reference(name).objective[:ROWS]
    for kind, start in started(instances, solver).items():
        for ms in (0.0, *BUDGETS):
            answers(instances, kind, start(), ms or 0.1, options.seed)  # compiles
            seconds, found = [], np.zeros(0)
            for _ in range(REPEATS if ms <= 1 else 1):
                begin = time.process_time()
                found = answers(instances, kind, start(), ms, options.seed)
                seconds.append(time.process_time() - begin)
            recorder.add(**_record(problem, found, best), family=name, start=kind,
                         stage="search" if ms else "repair", ms=ms, train_s=spent,
                         used_us=1e6 * float(np.median(seconds)) / ROWS)  # fmt: skip
    print_table([r for r in recorder.records if r["family"] == name], COLUMNS)


def _record(problem: cmpe.Problem, found: Assignments, best: np.ndarray) -> Record:
    feasible = problem.is_feasible(found)
    regret = np.where(feasible, best - problem.objective.value(found), np.nan)
    mean = float(np.nanmean(regret)) if feasible.any() else None
    return {"rows": len(found), "regret": mean, "violated": int((~feasible).sum())}


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser(__doc__)
    options.add_argument("--families", nargs="+", default=list(FAMILIES))
    chosen = options.parse_args(arguments)
    with Recorder("wide_learned", chosen) as recorder:
        for name in chosen.families:
            measure(name, chosen, recorder)


if __name__ == "__main__":
    main()
