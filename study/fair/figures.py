"""What the answers of the fair study are worth: one record per cell, read by docs/paper.md.

The test rows are read here and in `timing`, nowhere else. Regret is in nats, the mean over feasible
answers; the share of violated rows stands beside it. Constants are those of `cmpe.evaluation`,
chosen on training rows.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cmpe
from cmpe.evaluation import constants
from cmpe.solvers.local import improve
from study.fair import arms
from study.fair.cells import MARGINS, KeptCell, write_json
from study.fair.page import constant_of

Record = dict[str, Any]
Answers = NDArray[np.int32]


class Judge:
    """Answers to the test rows of a cell, against proved optima."""

    def __init__(self, cell: KeptCell) -> None:
        self.cell, self.problem, self.test = cell, cell.problem, cell.test
        self.instances = cmpe.Instances(self.problem, self.test)
        self.best = cmpe.solve(self.problem, self.test, method="exact")
        self.answerable = self.best.feasible

    def objective(self, answers: Answers) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """h of whole assignments, and whether they are feasible."""
        values = self.problem.objective.value(answers)
        return values, self.problem.is_feasible(answers) & (values > -np.inf) & self.answerable

    def measure(self, answers: Answers) -> Record:
        """Regret where feasible, the share violated, and the number of distinct answers."""
        values, feasible = self.objective(answers)
        regret = np.maximum(self.best.objective - values, 0.0)[feasible]
        free = answers[:, list(self.problem.free)]
        return {
            "regret": float(regret.mean()) if len(regret) else None,
            "violated": 1.0 - float(feasible.sum()) / max(1, int(self.answerable.sum())),
            "distinct": len(np.unique(free, axis=0)),
        }

    def filled(self, free: NDArray[Any]) -> Answers:
        """Whole assignments from values of the free variables, one row or as many as there are."""
        whole = np.zeros((len(self.test), self.problem.variables), dtype=np.int32)
        whole[:, list(self.problem.evidence_variables)] = self.test
        whole[:, list(self.problem.free)] = free
        return whole

    def repaired(self, answers: Answers) -> Answers:
        """The answers after the stage that repairs those of a trained solver."""
        return np.asarray(improve(self.instances, answers), dtype=np.int32)


def facts(judge: Judge) -> Record:
    """What a reader must know of a cell before any learned figure."""
    cell, problem = judge.cell, judge.problem
    plain = cmpe.solve(cmpe.queries.mpe(problem.objective, problem.evidence_variables), judge.test)
    binds = ~problem.is_feasible(plain.assignments) & judge.answerable
    train = {row.tobytes() for row in cell.rows}
    return {
        "train": len(cell.train),
        "validation": len(cell.validation),
        "test": len(judge.test),
        "free": len(problem.free),
        "binds": float(binds.mean()),
        "seen": float(np.mean([row.tobytes() in train for row in judge.test])),
        "distinct_optima": judge.measure(judge.best.assignments)["distinct"],
        "infeasible": float(1.0 - judge.answerable.mean()),
    }


def constant_records(judge: Judge) -> list[tuple[Record, Answers]]:
    """Constant answers along regret and violations, and each as answers to the test rows.

    `trained` is the share of training rows that a constant violates; it grows along the list.
    """
    cell, free = judge.cell, list(judge.problem.free)
    records = []
    for each in constants(judge.problem, cell.rows[cell.train]):
        answers = judge.filled(each.assignment[free])
        records.append(({"trained": each.violated, **judge.measure(answers)}, answers))
    return records


def solvers(judge: Judge) -> Record:
    """What the engines without a network leave."""
    return {
        method: judge.measure(cmpe.solve(judge.problem, judge.test, method=method).assignments)
        for method in ("exact", "lagrangian", "local")
    }


def arm_record(judge: Judge, run: Record, answers: Answers) -> Record:
    """A trained arm: its seeds at the chosen margin and at all of them; seed 0 repaired."""
    at = [[judge.measure(judge.filled(seed[i])) for seed in answers] for i in range(len(MARGINS))]
    chosen = MARGINS.index(run["margin"])
    return {
        **run,
        "seeds": at[chosen],
        "mean": _mean(at[chosen]),
        "curve": [_mean(point) for point in at],
        "repaired": judge.measure(judge.repaired(judge.filled(answers[0, chosen]))),
    }


def _mean(each: Sequence[Record]) -> Record:
    """Means over seeds; the regret over those seeds that have a feasible answer."""
    regrets = [e["regret"] for e in each if e["regret"] is not None]
    return {
        "regret": float(np.mean(regrets)) if regrets else None,
        "regret_sd": float(np.std(regrets)) if regrets else None,
        "violated": float(np.mean([e["violated"] for e in each])),
        "violated_sd": float(np.std([e["violated"] for e in each])),
        "distinct": float(np.mean([e["distinct"] for e in each])),
    }


def common_rows(judge: Judge, runs: Sequence[tuple[Record, Answers]], constant: Answers) -> Record:
    """The paper's protocol: regret on rows that all self-supervised arms answer feasibly.

    Of each arm seed 0 is read at its margin. The constant counts where it is feasible itself.
    """
    chosen = {
        f"{run['arm']}, T {run['temperature']:g}": judge.objective(
            judge.filled(answers[0, MARGINS.index(run["margin"])])
        )
        for run, answers in runs
        if not run["arm"].startswith(("mse", "mae"))
    }
    common = np.logical_and.reduce([judge.answerable, *(ok for _, ok in chosen.values())])
    chosen["constant"] = judge.objective(constant)
    regret = {}
    for name, (values, feasible) in chosen.items():
        lost = (judge.best.objective - values)[common & feasible]
        regret[name] = float(lost.mean()) if len(lost) else None
    return {"rows": int(common.sum()), "regret": regret}


def cell_record(cell: KeptCell) -> Record:
    """All figures of a cell but its times."""
    judge = Judge(cell)
    runs = list(arms.kept_runs(cell))
    found = constant_records(judge)
    records = [record for record, _ in found]
    constant = found[records.index(constant_of({"constants": records}))][1]
    return {
        "cell": cell.folder.name, "seeds": len(arms.SEEDS), "facts": facts(judge),
        "constants": records,
        "constant_repaired": judge.measure(judge.repaired(constant)),
        "solvers": solvers(judge),
        "arms": [arm_record(judge, run, each) for run, each in runs],
        "common": common_rows(judge, runs, constant),
    }  # fmt: skip


def is_read(folder: Path) -> bool:
    """Whether the figures of a cell are there, with all of its trained arms."""
    path = folder / "figures.json"
    if not path.exists():
        return False
    known = {record["arm"] for record in json.loads(path.read_text())["arms"]}
    return known == {arm.name for arm in arms.ARMS if arms.is_done(folder, arm)}


def write_figures(folders: Sequence[Path]) -> None:
    """One record per prepared cell, as figures.json in its folder; those that are there stay."""
    for folder in folders:
        if not (folder / "none.npz").exists() or is_read(folder):
            continue
        record = cell_record(KeptCell(folder))
        write_json(folder / "figures.json", record)
        print(f"read {folder.name}: {len(record['arms'])} runs", flush=True)
