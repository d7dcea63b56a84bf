"""The wide problems in the study: cells and points of time from kept benchmark results.

Measured by `benchmarks.wide_learned` (starts of search), `benchmarks.wide` (search; other solvers
at 10 s a row) and `benchmarks.wide_reduction` (proofs); nothing runs here. Every method's cell is
one budget, the others are points of time:

    network+moves, network+repair     the network's pass and repair, no budget
    X+search                          search from X for SHORT milliseconds a row
    search                            from its own start, for LONG milliseconds a row
    exact                             0.1 s of search, then reduction until proved, 60 s at most
    milp:highs, milp:scip, toulbar2   10 s a row, two rows; toulbar2: its best configuration

Training is in the cells only: the few rows measured here are no measure of how many share it.
Regrets are against the best value known. Those that rounding makes smaller than the tolerance of a
proof are 0.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from study.paper.store import Json

SHORT, LONG = 1.0, 100.0  # milliseconds
PERCENTILE = 30  # of families whose name tells none
STARTS = ("network", "constant", "icm", "random")
TINY = 1e-6
UNPROVED = "not every row was proved within 60 s, so the regret is not known"
INFEASIBLE = "no feasible answer was found"


def wide_results(folder: Path) -> tuple[list[Json], list[Json]]:
    """Cells and points of time of all families."""
    cells, times = [], []
    for point in (*_learned(folder), *_searched(folder), *_proved(folder), *_others(folder)):
        chosen = point.pop("chosen")
        times.append({**_place(point), **_reached(point), "amortised": False})
        if chosen:
            cells.append(_cell(point))
    return cells, [t for t in times if t["regret"] is not None]


def _records(folder: Path, name: str) -> list[Json]:
    path = folder / f"{name}.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return [r for r in map(json.loads, lines) if "family" in r]


def _learned(folder: Path) -> Iterator[Json]:
    """Network and other starts; a start that took twice its budget is no point."""
    for r in _records(folder, "wide_learned"):
        used, searched = r["used_us"] * 1e-6, r["stage"] == "search"
        if r["start"] not in STARTS or (searched and used > 2e-3 * r["ms"]):
            continue
        if not searched and r["start"] != "network":
            continue
        trained = r["train_s"] if r["start"] in ("network", "constant") else None
        about = {"train_seconds": trained, "regret_std": r["error"] * r["rows"] ** 0.5}
        chosen = not searched or r["ms"] == SHORT
        yield _point(r, f"{r['start']}+{r['stage']}", used, chosen=chosen, **about)


def _searched(folder: Path) -> Iterator[Json]:
    for r in _records(folder, "wide"):
        yield _point(r, "search", r["used_ms"] * 1e-3, chosen=r["ms"] == LONG)


def _proved(folder: Path) -> Iterator[Json]:
    """The reduction's gap is that of its worst row; proved rows have no regret."""
    for r in _records(folder, "wide_reduction"):
        used = r["search_s"] + (r["first_s"] + r["mean_s"] * (r["rows"] - 1)) / r["rows"]
        regret = 0.0 if r["proved"] == r["rows"] else None
        about = {"certified_gap": r["gap"], "proved": r["proved"] / r["rows"]}
        if regret is None:
            about["reason"] = UNPROVED
        yield _point({"violated": 0, **r, "regret": regret}, "exact", used, chosen=True, **about)


def _others(folder: Path) -> Iterator[Json]:
    """Of toulbar2's configurations, the one of least regret, the quicker one among equals."""
    best: dict[tuple[str, str], Json] = {}
    for r in _records(folder, "wide_others"):
        name = "toulbar2" if r["method"].startswith("toulbar2") else r["method"]
        known = best.setdefault((r["family"], name), r)
        if _rank(r) < _rank(known):
            best[r["family"], name] = r
    for (_, name), r in best.items():
        about = {"proved": r["proved"] / r["rows"]}
        if r["regret"] is None:
            about["reason"] = INFEASIBLE
        yield _point(r, name, r["used_ms"] * 1e-3, chosen=True, **about)


def _rank(record: Json) -> tuple[float, float]:
    regret = math.inf if record["regret"] is None else round(record["regret"], 3)
    return regret, record["used_ms"]


def _point(record: Json, method: str, seconds: float, *, chosen: bool, **more: Any) -> Json:
    regret = record["regret"]
    known = regret is not None and regret == regret
    return {
        "dataset": record["family"],
        "method": method,
        "rows": record["rows"],
        "regret": (regret if abs(regret) > TINY else 0.0) if known else None,
        "violation": record["violated"] / record["rows"],
        "seconds": seconds,
        "regret_std": None,
        "certified_gap": None,
        "proved": 0.0,
        "train_seconds": None,
        "reason": None,
        "chosen": chosen,
        **more,
    }


def _place(point: Json) -> Json:
    found = re.search(r"_q(\d+)", point["dataset"])
    q = int(found.group(1)) if found else PERCENTILE
    return {"dataset": point["dataset"], "q": q, "method": point["method"]}


def _reached(point: Json) -> Json:
    names = ("seconds", "regret", "certified_gap", "violation", "rows")
    return {name: point[name] for name in names}


def _cell(point: Json) -> Json:
    every = {**_reached(point), "regret_std": point["regret_std"], "proved": point["proved"]}
    return {
        **_place(point), "group": "wide", "seed": 0, "every": every, "constrained": None,
        "train_seconds": point["train_seconds"], "device": "cpu", "status": "measured",
        "reason": point["reason"],
    }  # fmt: skip
