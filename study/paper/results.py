"""The results folder: plain files that `study report` reads, made from what the store holds.

A cell whose tasks are not done is there too, as missing, with the reason. Seconds, and all that
may differ between two runs of one study, come from beside the artifacts.
"""

from __future__ import annotations

import csv
import json
import os
import platform
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from cmpe.formats.text import write_text
from study.frame import cpu_model, versions
from study.paper.description import Study
from study.paper.plan import Cell, Plan
from study.paper.stages import FACTS, METRICS
from study.paper.store import Json, Store, canonical, digest
from study.paper.training import CURVE, RESULT
from study.paper.wide import wide_results

PAPER = Path(__file__).parents[3] / "shared" / "paper" / "results.csv"
ADVERSARIAL = ("adversarial.jsonl", "adversarial.png", "adversarial.svg")
PARTS = ("every", "constrained")
UNTRAINED = "not trained yet"  # why a network has no figures


@dataclass(frozen=True)
class Origin:
    """What the results say of where they come from."""

    study: Study
    paper: Path = PAPER
    adversarial: Path | None = None  # a run directory of `study adversarial`
    commands: tuple[str, ...] = ()
    untrained: str = UNTRAINED
    wide: Path | None = None  # kept results of the wide benchmarks


def write_results(
    plan: Plan, store: Store, out: Path, origin: Origin, failed: Mapping[str, str]
) -> list[Json]:
    """Write every file; returns the cells."""
    figures = papers_figures(origin.paper)
    listed = [c for c in _longest(plan.cells) if c.seed in _seeds(plan, store)]
    why = {**_untrained(listed, store, origin), **failed}
    cells = [_cell(cell, store, why) for cell in listed]
    wide, wide_times = wide_results(origin.wide) if origin.wide else ([], [])
    cells += wide
    _lines(out / "cells.jsonl", cells)
    _lines(out / "curves.jsonl", [r for c in listed for r in _curve(c, store)])
    times = [r for c in plan.cells for r in _times(c, store)]
    _lines(out / "times.jsonl", times + wide_times)
    _lines(out / "datasets.jsonl", _datasets(plan, store, origin.study))
    if figures:
        _lines(out / "paper.jsonl", figures)
    for name in ADVERSARIAL if origin.adversarial else ():
        if origin.adversarial and (origin.adversarial / name).is_file():
            shutil.copyfile(origin.adversarial / name, out / name)
    write_text(out / "index.json", json.dumps(plan.index(), indent=1) + "\n")
    write_text(out / "provenance.json", json.dumps(_provenance(plan, store, origin), indent=1))
    return cells


def _seeds(plan: Plan, store: Store) -> list[int]:
    """The first seed, and those of which anything was trained: others have no cells."""
    known = {c.seed for c in plan.cells if c.network is not None and store.has(c.network)}
    return sorted(known | {min((c.seed for c in plan.cells), default=0)})


def _untrained(cells: Iterable[Cell], store: Store, origin: Origin) -> dict[str, str]:
    """Reasons by key of `evaluate`."""
    networks = ((c.evaluate.key, c.network) for c in cells if c.network is not None)
    return {key: origin.untrained for key, network in networks if not store.has(network)}


def _lines(path: Path, records: Iterable[Json]) -> None:
    write_text(path, "".join(json.dumps(r, allow_nan=False) + "\n" for r in records))


def _longest(cells: Iterable[Cell]) -> list[Cell]:
    """Of each cell the one with the largest budget."""
    best: dict[tuple[Any, ...], Cell] = {}
    for cell in cells:
        name = (cell.dataset, cell.q, cell.method, cell.seed)
        if name not in best or (cell.budget or 0.0) > (best[name].budget or 0.0):
            best[name] = cell
    return list(best.values())


def papers_figures(path: Path) -> list[Json]:
    """The paper's tables as records, none where the file is absent."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8") as stream:
        return [
            {**row, "q": int(row["q"]) if row["q"].isdigit() else None,
             "mean": float(row["mean"]), "std": float(row["std"]) if row["std"] else None}
            for row in csv.DictReader(stream)
        ]  # fmt: skip


def _cell(cell: Cell, store: Store, failed: Mapping[str, str]) -> Json:
    record: Json = {
        "dataset": cell.dataset, "group": cell.group, "q": cell.q, "method": cell.method,
        "seed": cell.seed, "every": None, "constrained": None,
        "mean_reference": None, "mean_objective": None, "overlap": None, "relaxed_violation": None,
        "train_seconds": None, "device": None, "settings": None, "budget": cell.budget,
    }  # fmt: skip
    if not store.has(cell.evaluate):
        why = failed.get(cell.evaluate.key, "not run yet")
        return {**record, "status": "missing", "reason": why}
    metrics, aside = store.read(cell.evaluate).json(METRICS), store.aside(cell.evaluate)
    record |= {"status": "measured", "reason": None}
    record |= {part: {**metrics.pop(part), **aside[part]} for part in PARTS}
    record |= metrics
    if cell.network is not None:
        result, beside = store.read(cell.network).json(RESULT), store.aside(cell.network)
        record |= {"settings": {**result["setting"], "margin": result["margin"]}}
        record |= {"train_seconds": beside["train_seconds"], "device": beside["device"]}
        record |= {"members": beside["members"], "finite": result["finite"]}
    return record


def _curve(cell: Cell, store: Store) -> Iterable[Json]:
    if cell.network is None or cell.network is not cell.answers or not store.has(cell.network):
        return
    named = {"dataset": cell.dataset, "q": cell.q, "method": cell.method, "seed": cell.seed}
    seconds = store.aside(cell.network)["curve_seconds"]
    for record, spent in zip(store.read(cell.network).json(CURVE), seconds, strict=True):
        yield {**named, **record, "seconds": spent}


def _times(cell: Cell, store: Store) -> Iterable[Json]:
    """A point of gap against time; for a network one more, with its training shared out."""
    if not store.has(cell.evaluate) or cell.seed:
        return
    every = store.read(cell.evaluate).json(METRICS)["every"]
    spent = store.aside(cell.evaluate)["every"]["seconds"]
    point = {"dataset": cell.dataset, "q": cell.q, "method": cell.method, "seconds": spent}
    point |= {name: every[name] for name in ("regret", "certified_gap", "violation", "rows")}
    yield {**point, "amortised": False}
    if cell.network is not None and spent is not None:
        trained = store.aside(cell.network)["train_seconds"]
        yield {**point, "seconds": spent + trained / every["rows"], "amortised": True}


def _datasets(plan: Plan, store: Store, study: Study) -> Iterable[Json]:
    for dataset in study.datasets:
        made = plan.generated[dataset.name]
        named = {"dataset": dataset.name, "group": dataset.group}
        if store.has(made):
            stands = dataset.name in plan.stand_ins
            yield {**named, **store.read(made).json(FACTS), "stand_in": stands}


def _provenance(plan: Plan, store: Store, origin: Origin) -> Json:
    done = [t for t in plan.tasks.values() if store.has(t)]
    stages = sorted({t.stage for t in done})
    return {
        "versions": versions(),
        "python": platform.python_version(),
        "machine": f"{cpu_model()}, {os.cpu_count()} cores, {_gpu(plan, store)}",
        "seeds": _seeds(plan, store),
        "seeds_of_the_scale": list(origin.study.scale.seeds),
        "scale": origin.study.scale_name,
        "stand_ins": plan.stand_ins,
        "commands": list(origin.commands) or [_command()],
        "tasks": {s: sum(t.stage == s for t in done) for s in stages},
        "hashes": {s: results_hash(store, (t for t in done if t.stage == s)) for s in stages},
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _command() -> str:
    """What was typed, without the folders of this machine."""
    told = [Path(a).name if Path(a).is_absolute() else a for a in sys.argv[1:]]
    return shlex.join(["python", "-m", "study", *told])


def results_hash(store: Store, tasks: Iterable[Any]) -> str:
    """One hash of the results of tasks: equal wherever and however they were run."""
    return digest(canonical({task.key: store.hashes(task) for task in tasks}))


def _gpu(plan: Plan, store: Store) -> str:
    trained = (t for t in plan.tasks.values() if t.stage == "train" and store.has(t))
    names = sorted({store.aside(t).get("gpu") or "" for t in trained} - {""})
    return ", ".join(names) or "no GPU"


def shown(cells: list[Json]) -> list[Json]:
    """The table of a run: each method over all measured cells."""
    cells = [c for c in cells if c["group"] != "wide"]
    methods = dict.fromkeys(c["method"] for c in cells)
    table = []
    for method in methods:
        mine = [c for c in cells if c["method"] == method]
        done = [c for c in mine if c["status"] == "measured"]
        table.append({"method": method, "cells": len(mine), "measured": len(done), **_means(done)})
    return table


def _means(cells: list[Json]) -> Json:
    def mean(name: str) -> Any:
        found = [c["every"][name] for c in cells if c["every"].get(name) is not None]
        return float(np.mean(found)) if found else ""

    return {name: mean(name) for name in ("regret", "gap", "violation", "seconds")}
