"""What a row costs in the cells of the fair study: constants, a network, and the engines.

Run it on an idle machine. Times are CPU seconds of one thread with all test rows in one call, the
least of some repetitions. A pass takes equally long with any weights, so a network of the study's
shape is timed untrained. The worth of its answers and the time of their repair are those of the
answers that training kept. The step needs torch, numpy, scipy and numba, no other package.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

import cmpe
from cmpe.arrays import Assignments
from cmpe.evaluation import chosen, constants
from cmpe.learning.losses.functions import relaxation_of
from cmpe.learning.networks.networks import Network, encode
from cmpe.learning.prediction import Predictor
from cmpe.learning.runs import Trained
from cmpe.solvers.local import improve
from study.fair import arms
from study.fair.cells import ALLOWED, MARGINS, KeptCell, write_json
from study.fair.figures import Answers, Judge, Record
from study.frame import cpu_model

REPETITIONS, LEAST, MOST = 3, 0.2, 5.0  # calls, and seconds of all of them together
ENGINES = ("local", "lagrangian", "exact")
SEARCHED = (0.3, 1.0)  # ms a row that `search` may take


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """The CPU seconds of the quickest of some calls, and what the last one returned."""
    spent: list[float] = []
    while sum(spent) < MOST and (len(spent) < REPETITIONS or sum(spent) < LEAST):
        begin = time.process_time()
        result = call()
        spent.append(time.process_time() - begin)
    return min(spent), result


def best_run(cell: KeptCell) -> tuple[Record, Answers] | None:
    """The trained arm that validation rows prefer, and the answers of its seed 0."""
    runs = list(arms.kept_runs(cell))
    if not runs:
        return None
    safe = [r for r in runs if r[0]["violation"] <= ALLOWED]
    if safe:
        run, answers = min(safe, key=lambda r: float(r[0]["regret"]))
    else:
        run, answers = min(runs, key=lambda r: float(r[0]["violation"]))
    return run, answers[0, MARGINS.index(run["margin"])]


def untrained(problem: cmpe.Problem, evidence: Assignments) -> Predictor:
    """A network of the study's shape with the weights that training starts from."""
    config = arms.ARMS[0].config(arms.EPOCHS, 1.0, 0.0, 0)
    relaxation = relaxation_of(problem, floor=config.floor, device="cpu", head=config.head)
    width = encode(problem, evidence).shape[1]
    weights = Network.of(config, width, relaxation).initial(0)
    stacked = {name: value.unsqueeze(0) for name, value in weights.items()}  # of one member
    return Predictor(problem, Trained(config, "", stacked), "cpu", relaxation)


def cell_times(cell: KeptCell) -> Record:
    """Microseconds a row, regret and violations of everything that answers the test rows."""
    judge = Judge(cell)
    problem, test = judge.problem, judge.test
    points: Record = {}

    def answered(name: str, begin: float, call: Callable[[], Assignments]) -> None:
        spent, answers = seconds(call)
        us = 1e6 * (begin + spent) / len(test)
        points[name] = {"us": us, **judge.measure(answers)}

    def repaired(name: str, start: Answers, begin: float) -> None:
        improve(judge.instances.take(slice(2)), start[:2])  # what is compiled is not timed
        answered(name, begin, lambda: improve(cmpe.Instances(problem, test), start))

    found = chosen(constants(problem, cell.rows[cell.train]), ALLOWED)
    constant = judge.filled(found.assignment[list(problem.free)])
    points["constant"] = {"us": 0.0, **judge.measure(constant)}
    repaired("constant, repaired", constant, 0.0)
    run = best_run(cell)
    if run is not None:
        network, answers = untrained(problem, test[:1]), judge.filled(run[1])
        network.predict(judge.instances)
        passing, _ = seconds(lambda: network.predict(cmpe.Instances(problem, test))[0])
        points["network"] = {"us": 1e6 * passing / len(test), **judge.measure(answers)}
        repaired("network, repaired", answers, passing)
    for method in ENGINES:
        cmpe.solve(problem, test[:2], method=method)
        answered(method, 0.0, partial(_engine, problem, test, method, None))
    for ms in SEARCHED if problem.is_log_linear else ():
        cmpe.solve(problem, test[:2], method="search", time_limit=ms / 1e3)
        answered(f"search, {ms:g} ms", 0.0, partial(_engine, problem, test, "search", ms / 1e3))
    return {
        "machine": cpu_model(), "rows": len(test), "points": points,
        "network": None if run is None else {k: run[0][k] for k in ("arm", "temperature")},
    }  # fmt: skip


def _engine(
    problem: cmpe.Problem, test: Assignments, method: str, limit: float | None
) -> Assignments:
    return cmpe.solve(problem, test, method=method, time_limit=limit).assignments


def write_times(folders: Sequence[Path]) -> None:
    """One record per prepared cell, as times.json in its folder; made anew each time."""
    torch.set_num_threads(1)
    for folder in folders:
        if (folder / "none.npz").exists():
            record = cell_times(KeptCell(folder))
            write_json(folder / "times.json", record)
            print(f"timed {folder.name}", flush=True)
