"""What the answers of the fair study are worth: one record per cell, read by docs/paper.md.

The test rows are read here and nowhere else. Regret is in nats, the mean over feasible answers; the
share of violated rows stands beside it. Constants are optima of training rows, chosen on training
rows by the share that they may violate.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cmpe
from study.fair.arms import ARMS, SEEDS, file_name, is_done
from study.fair.cells import MARGINS, KeptCell, write_json

CANDIDATES, JUDGED = 150, 1000  # constants that are tried, and training rows that judge them
SHARES = (0.0, 0.01, 0.05, 0.2)  # of training rows that a constant may violate

Record = dict[str, Any]
Answers = NDArray[np.int32]


class Judge:
    """Answers to the test rows of a cell, against proved optima."""

    def __init__(self, cell: KeptCell) -> None:
        self.cell, self.problem, self.test = cell, cell.problem, cell.test
        cmpe.solve(self.problem, self.test[:2], method="exact")  # what is compiled is not timed
        begin = time.process_time()
        self.best = cmpe.solve(self.problem, self.test, method="exact")
        self.exact_us = 1e6 * (time.process_time() - begin) / len(self.test)
        self.answerable = self.best.feasible

    def objective(self, answers: Answers) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """h of whole assignments, and whether they are feasible."""
        values = self.problem.objective.value(answers)
        return values, self.problem.is_feasible(answers) & (values > -np.inf)

    def measure(self, answers: Answers) -> Record:
        """Regret where feasible, the share violated, and the number of distinct answers."""
        values, feasible = self.objective(answers)
        kept = feasible & self.answerable
        regret = np.maximum(self.best.objective - values, 0.0)[kept]
        free = answers[:, list(self.problem.free)]
        return {
            "regret": float(regret.mean()) if len(regret) else None,
            "violated": 1.0 - float(kept.sum()) / max(1, int(self.answerable.sum())),
            "distinct": len(np.unique(free, axis=0)),
        }

    def filled(self, free: NDArray[Any]) -> Answers:
        """Whole assignments from values of the free variables of every test row."""
        whole = np.zeros((len(self.test), self.problem.variables), dtype=np.int32)
        whole[:, list(self.problem.evidence_variables)] = self.test
        whole[:, list(self.problem.free)] = free
        return whole


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


def constants(judge: Judge) -> list[Record]:
    """The best constant answers, chosen on training rows, along regret and violations."""
    cell, problem, free = judge.cell, judge.problem, list(judge.problem.free)
    labelled = cell.data("labels")
    labels = labelled.labels[cell.train][..., free]
    known = labelled.usable[cell.train]
    rng = np.random.default_rng(0)
    tried = []
    for column in range(len(MARGINS)):
        found, counts = np.unique(labels[known[:, column], column], axis=0, return_counts=True)
        share = counts / max(1, counts.sum())
        count = min(len(found), CANDIDATES // len(MARGINS))
        tried.append(found[rng.choice(len(found), count, replace=False, p=share)])
    judged = cell.train[:JUDGED]
    rows = cell.rows[judged]
    best = labelled.labels[judged, 0].astype(np.int32)
    usable = known[:JUDGED, 0]
    optimum = problem.objective.value(np.maximum(best, 0))
    outcomes = []
    for values in np.unique(np.concatenate(tried), axis=0):
        whole = np.zeros((len(rows), problem.variables), dtype=np.int32)
        whole[:, list(problem.evidence_variables)], whole[:, free] = rows, values
        h, feasible = problem.objective.value(whole), problem.is_feasible(whole)
        kept = feasible & usable & (h > -np.inf)
        regret = float((optimum - h)[kept].mean()) if kept.any() else np.inf
        outcomes.append((1.0 - kept.sum() / max(1, usable.sum()), regret, values))
    records = []
    for share in SHARES:
        safe = [o for o in outcomes if o[0] <= share]
        if safe:
            values = min(safe, key=lambda o: o[1])[2]
            records.append({"allowed": share, **judge.measure(judge.filled(values))})
    return records


def solvers(judge: Judge) -> Record:
    """The engines without a network: microseconds of CPU a row beside what they leave."""
    measured: Record = {"exact": {"regret": 0.0, "violated": 0.0, "us": judge.exact_us}}
    for method in ("lagrangian", "local"):
        cmpe.solve(judge.problem, judge.test[:2], method=method)
        begin = time.process_time()
        found = cmpe.solve(judge.problem, judge.test, method=method)
        seconds = time.process_time() - begin
        measured[method] = judge.measure(found.assignments)
        measured[method]["us"] = 1e6 * seconds / len(judge.test)
    return measured


def arm_records(judge: Judge) -> list[Record]:
    """Every trained arm: each seed at the chosen margin and at all of them, then repaired."""
    records = []
    for arm in ARMS:
        if not is_done(judge.cell.folder, arm):
            continue
        path = judge.cell.folder / f"{file_name(arm)}.npz"
        with np.load(path) as kept:
            count = len(judge.problem.free)
            answers = np.unpackbits(kept["answers"], axis=-1, count=count)
        for run, seeds in zip(
            json.loads(path.with_suffix(".json").read_text()), answers, strict=True
        ):
            chosen = MARGINS.index(run["margin"])
            each = [judge.measure(judge.filled(seed[chosen])) for seed in seeds]
            start = judge.filled(seeds[0][chosen])
            running = cmpe.Running(start=start)
            repaired = cmpe.solve(judge.problem, judge.test, method="local", running=running)
            curve = [
                [judge.measure(judge.filled(seed[i])) for seed in seeds]
                for i in range(len(MARGINS))
            ]
            feasible = judge.objective(start)[1] & judge.answerable
            records.append({
                **run, "seeds": each, "repaired": judge.measure(repaired.assignments),
                "curve": [_mean(point) for point in curve], "mean": _mean(each),
                "feasible": np.packbits(feasible).tolist(),
            })  # fmt: skip
    return records


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


def common_rows(judge: Judge, records: Sequence[Record]) -> Record:
    """The paper's protocol: regret on rows that all self-supervised arms answer feasibly."""
    mine = [r for r in records if not r["arm"].startswith(("mse", "mae"))]
    if not mine:
        return {"rows": 0, "regret": {}}
    count = len(judge.test)
    bits = [np.unpackbits(np.array(r["feasible"], np.uint8), count=count) for r in mine]
    common = np.logical_and.reduce(bits)
    regret = {}
    for record in mine:
        path = judge.cell.folder / f"{record['arm'].replace(',', '').replace(' ', '-')}.npz"
        with np.load(path) as kept:
            answers = np.unpackbits(kept["answers"], axis=-1, count=len(judge.problem.free))
        place = [r for r in mine if r["arm"] == record["arm"]].index(record)
        chosen = answers[place, 0, MARGINS.index(record["margin"])]
        values, _ = judge.objective(judge.filled(chosen))
        lost = (judge.best.objective - values)[common]
        name = f"{record['arm']}, T {record['temperature']:g}"
        regret[name] = float(lost.mean()) if len(lost) else None
    return {"rows": int(common.sum()), "regret": regret}


def write_figures(folders: Sequence[Path], out: Path) -> None:
    """One record per cell that is prepared: OUT/CELL.json, and all of them in OUT/fair.json."""
    records = []
    for folder in folders:
        if not (folder / "labels.npz").exists():
            continue
        cell = KeptCell(folder)
        judge = Judge(cell)
        arms = arm_records(judge)
        record = {
            "cell": folder.name, "seeds": len(SEEDS), "facts": facts(judge),
            "constants": constants(judge), "solvers": solvers(judge), "arms": arms,
            "common": common_rows(judge, arms),
        }  # fmt: skip
        for arm in arms:
            del arm["feasible"]
        records.append(record)
        write_json(folder / "figures.json", record)
        print(f"read {folder.name}: {len(arms)} arms", flush=True)
    write_json(out / "fair.json", records)
