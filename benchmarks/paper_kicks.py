"""How many kicks a repair needs, settled on rows that no test sees.

    python -m benchmarks.paper_kicks --out DIR [--scale brief] [--datasets bbc dna] [--kicks 0 40]

Trains the tuned network of each data set at q = 80 (in DIR/store, where a run of the study may
have left its inputs; stopped anywhere, it goes on from there) and repairs its answers to its own
validation rows: a tenth of the training rows, which chose its epoch and its margin but taught it
nothing. `share` is the mean regret over the one that the paper's best method implies; `choice` is
the smallest number of kicks at which every share is at most `--most`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.frame import Recorder, parser, print_table, race
from cmpe.execution.local import InProcess
from cmpe.formats.labels import problem_digest
from cmpe.learning.pipeline import Pipeline
from cmpe.learning.runs import Trained
from cmpe.learning.solver import NeuralSolver
from cmpe.learning.training.config import TrainingConfig
from cmpe.learning.training.data import split
from cmpe.learning.training.fitting import torch_threads
from cmpe.problem import Instances
from cmpe.solvers.local import improve
from study.paper.artifacts import assignments_of, rows_of
from study.paper.description import DATA, read_study
from study.paper.plan import REFERENCE, Plan, plan_of
from study.paper.results import PAPER, implied_regret, papers_figures
from study.paper.runner import run
from study.paper.stages import task
from study.paper.store import Json, Store, Task
from study.paper.training import LABELS, RESULT, WEIGHTS

Q = 80
METHOD = "tuned"
TRIED = (0, 5, 10, 20, 40, 80, 160)
MOST = 0.01  # of the regret that the paper's best method implies
REPEATS = 3


@dataclass(frozen=True)
class Held:
    """The validation rows of a network, its answers and their proved optima."""

    instances: Instances
    answers: NDArray[np.int32]  # (B, n)
    best: NDArray[np.float64]  # (B,): h*

    def regret(self, answers: NDArray[np.int32]) -> tuple[float, float, float]:
        """Its mean in nats, the standard error of that, and the share of violations."""
        problem = self.instances.problem
        lost = self.best - problem.objective.value(answers)
        error = float(lost.std() / np.sqrt(len(lost)))
        return float(lost.mean()), error, float(1.0 - problem.is_feasible(answers).mean())


def trained_tasks(plan: Plan, datasets: list[str], seed: int) -> dict[str, Task]:
    """By data set: the study's task that trains its network, told to keep the weights."""
    cells = [c for c in plan.cells if (c.q, c.method, c.seed) == (Q, METHOD, seed)]
    made = {}
    for cell in cells:
        if cell.network is not None and cell.dataset in datasets:
            told = {**cell.network.settings, "weights": True}
            inputs = {name: plan.tasks[key] for name, key in cell.network.inputs.items()}
            made[cell.dataset] = task("train", told, **inputs)
    return made


def labels_of(plan: Plan, network: Task) -> Task:
    """The proved answers to the rows given, of which a network with drawn rows reads others."""
    told = {"q": Q, "method": REFERENCE}
    return plan.add(task("labels", told, problem=plan.tasks[network.inputs["problem"]]))


def train(plan: Plan, store: Store, wanted: Task) -> None:
    """Do what is missing for one network and for judging it."""
    tasks, waiting = {wanted.key: wanted}, [labels_of(plan, wanted).key, *wanted.inputs.values()]
    while waiting:
        needed = plan.tasks[waiting.pop()]
        tasks[needed.key] = needed
        waiting.extend(needed.inputs.values())
    sources = {key: files for key, files in plan.sources.items() if key in tasks}
    report = run(Plan(tasks, sources=sources), store, InProcess())
    for why in report.failed.values():
        raise SystemExit(f"error: {why}")


def held_out(plan: Plan, store: Store, network: Task) -> Held:
    """The rows that a trained network did not learn from."""
    problem, labels = store.read(plan.tasks[network.inputs["problem"]]), labels_of(plan, network)
    rows, artifact = rows_of(problem, Q), store.read(network)
    result = artifact.json(RESULT)
    config = TrainingConfig.from_json(network.settings["config"])
    weights = {k: torch.from_numpy(v) for k, v in artifact.arrays(WEIGHTS).items()}
    passes = tuple(result["passes"] or [result["margin"]])
    trained = Trained(config, problem_digest(rows.problem), weights, passes=passes)
    alone = Pipeline(repair=False, certificate="none")
    solver = NeuralSolver(rows.problem, trained, alone)
    every = Instances(rows.problem, rows.train)
    best = assignments_of(every, store.read(labels).arrays(LABELS))
    chosen = split(len(rows.train), config)[1]
    chosen = chosen[best[chosen, 0] >= 0]  # rows with a feasible answer
    instances = Instances(rows.problem, rows.train[chosen])
    with torch_threads(1):
        answers = solver.solve(rows.problem, instances.evidence).assignments
    return Held(instances, answers, rows.problem.objective.value(best[chosen]))


def measure(held: Held, kicks: tuple[int, ...], implied: float | None) -> Iterator[Json]:
    """One record for the network alone, and one for each number of kicks."""

    def record(answers: NDArray[np.int32], **more: Any) -> Json:
        regret, error, violation = held.regret(answers)
        share = regret / implied if implied else None
        told = {"rows": len(answers), "regret": regret, "error": error, "share": share}
        return {**more, **told, "violation": violation}

    yield record(held.answers, method=METHOD)
    tries = {str(k): partial(improve, held.instances, held.answers, kicks=k) for k in kicks}
    times = race(tries, repeats=REPEATS, clock=time.process_time)
    for k in kicks:
        each = times[str(k)].best / len(held.answers)
        yield record(tries[str(k)](), method="repair", kicks=k, us_a_row=1e6 * each)


def choice(records: list[Json], most: float) -> int | None:
    """The smallest number of kicks at which every data set has a share of at most `most`."""
    shares: dict[int, list[float]] = {}
    for record in records:
        if record["method"] == "repair" and record["share"] is not None:
            shares.setdefault(record["kicks"], []).append(record["share"])
    return min((k for k, found in shares.items() if max(found) <= most), default=None)


def study_parser(text: str | None, scale: str) -> argparse.ArgumentParser:
    """The options of a benchmark on what a run of the study has left."""
    options = parser(text)
    options.add_argument("--out", type=Path, required=True, help="of the study: DIR/store is used")
    options.add_argument("--scale", default=scale, help="of study.toml")
    options.add_argument("--datasets", nargs="+", help="default: all of the scale")
    options.add_argument("--data", type=Path, default=DATA, help="folder with uai/ and density/")
    return options


def _options() -> argparse.Namespace:
    options = study_parser(__doc__, "brief")
    options.add_argument("--kicks", nargs="+", type=int, default=TRIED)
    options.add_argument("--most", type=float, default=MOST, help="share of the paper's regret")
    options.add_argument("--paper", type=Path, default=PAPER, help="the paper's tables as csv")
    return options.parse_args()


def main() -> int:
    chosen = _options()
    study = read_study(scale=chosen.scale)
    plan, store = plan_of(study, chosen.data), Store(chosen.out / "store")
    named = chosen.datasets or list(study.scale.datasets)
    figures = papers_figures(chosen.paper)
    source = f"scale {chosen.scale}, validation rows of seed {chosen.seed} at q = {Q}"
    with Recorder("paper_kicks", chosen, source) as recorder:
        for dataset, network in trained_tasks(plan, named, chosen.seed).items():
            train(plan, store, network)
            held, implied = held_out(plan, store, network), implied_regret(figures, dataset, Q)
            for record in measure(held, tuple(chosen.kicks), implied):
                recorder.add(dataset=dataset, **record)
        recorder.add(method="choice", kicks=choice(recorder.records, chosen.most), most=chosen.most)
    columns = ("dataset", "method", "kicks", "regret", "error", "share", "violation", "us_a_row")
    print_table(recorder.records, columns)
    return 0


if __name__ == "__main__":
    sys.exit(main())
