"""A results directory with made-up figures: small, deterministic, every file of the contract.

`python tests/reporting/synthetic.py DIR [full]` writes one to look at; `full` has the size of the
whole study.
"""

from __future__ import annotations

import json
import math
import struct
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NETWORKS = ("mse", "mae", "mse_pen", "mae_pen", "ssl_pen", "pdl", "ss_cmpe", "ss_cmpe_pen")
TUNED = ("tuned", "tuned+repair")
SOLVERS = ("constant", "lagrangian", "exact", "milp:highs", "milp:scip", "toulbar2", "ilp")
METHODS = (*NETWORKS, *TUNED, *SOLVERS)
SMALL = {"Grids_17": "uai", "Segmentation_12": "uai", "dna": "tractable", "Grids_17_10": "wide"}
FULL = {
    **{f"Segmentation_{i}": "uai" for i in (12, 14, 15)},
    **{f"Grids_{i}": "uai" for i in (17, 18)},
    **dict.fromkeys(("ad", "bbc", "c20ng", "cwebkb", "dna"), "tractable"),
    **dict.fromkeys(("Grids_17_10", "Ising_50x50"), "wide"),
}
MISSING = ("dna", 10, "pdl")  # has a reason
REASON = "training ran past the limit of an hour"
SECONDS = {
    "constant": 1e-7, "tuned": 2e-5, "tuned+repair": 6e-5, "lagrangian": 9e-5, "exact": 4e-5,
    "milp:highs": 0.2, "milp:scip": 0.6, "toulbar2": 0.05, "ilp": 0.6,
}  # fmt: skip


def noise(*words: object) -> float:
    """A number in [0, 1) that only depends on the words."""
    return zlib.crc32(repr(words).encode()) % 9973 / 9973


def metrics(dataset: str, q: int, method: str, seed: int) -> dict[str, Any]:
    u = noise(dataset, q, method, seed)
    trained = method in NETWORKS
    gap = 0.02 + 0.05 * u if trained else 0.004 * u if method in TUNED else 0.0
    gap = 0.0004 * u if method == "lagrangian" else gap
    violation = (0.3 * u * (1 - q / 120)) if trained else 0.02 * u if method == "tuned" else 0.0
    seconds = SECONDS.get(method, 1.5e-5) * (0.7 + 0.6 * u)
    if dataset in ("Grids_17_10", "Ising_50x50"):
        seconds *= {"exact": 2e4, "milp:highs": 30}.get(method, 3)
    spreads = {
        "regret": (500 * gap, 300 * gap),
        "feasible_regret": (520 * gap, 280 * gap),
        "gap": (gap, 0.8 * gap),
        "violation": (violation, math.sqrt(violation * (1 - violation))),
        "violation_size": (3 * u, u) if violation else (None, None),
        "certified_gap": (520 * gap + 0.1, 0.2) if method not in NETWORKS else (None, None),
        "seconds": (seconds, 0.3 * seconds),
    }
    flat = {}
    for name, (mean, std) in spreads.items():
        flat[name], flat[f"{name}_std"] = mean, std
    return {"rows": 1000, "distinct": 640, "distinct_answers": 300, "optimal": 1.0, **flat}


def cells(datasets: dict[str, str], qs: tuple[int, ...], seeds: int) -> Iterator[dict[str, Any]]:
    for dataset, group in datasets.items():
        for q in qs if group != "wide" else (80,):
            for method in METHODS:
                for seed in range(seeds if method in NETWORKS + TUNED else 1):
                    yield cell(dataset, group, q, method, seed)


def cell(dataset: str, group: str, q: int, method: str, seed: int) -> dict[str, Any]:
    missing = (dataset, q, method) == MISSING
    every = metrics(dataset, q, method, seed)
    harder = {**every, "rows": 210, "violation": min(1.0, 3 * every["violation"])}
    learned = method in NETWORKS + TUNED
    return {
        "dataset": dataset, "group": group, "q": q, "method": method, "seed": seed,
        "every": None if missing else every, "constrained": None if missing else harder,
        "mean_reference": -471.25, "mean_objective": -471.25 - every["regret"],
        "overlap": 0.25,
        "relaxed_violation": every["violation"] / 2 if learned else None,
        "train_seconds": 40.0 + seed if learned else None,
        "device": "cuda" if learned else "cpu",
        "status": "missing" if missing else "measured", "reason": REASON if missing else None,
    }  # fmt: skip


def curves(datasets: dict[str, str], qs: tuple[int, ...]) -> Iterator[dict[str, Any]]:
    for dataset in datasets:
        for q in qs[-2:]:
            for method in (*NETWORKS[2:], "tuned"):
                for epoch in range(1, 31, 3):
                    u = noise(dataset, q, method)
                    yield {
                        "dataset": dataset, "q": q, "method": method, "seed": 0, "epoch": epoch,
                        "loss": 100 / epoch, "validation_regret": 2 + 60 * (0.5 + u) / epoch,
                        "validation_violation": 0.4 * u * (1 - epoch / 40), "seconds": epoch * 0.3,
                    }  # fmt: skip


def times(datasets: dict[str, str], qs: tuple[int, ...]) -> Iterator[dict[str, Any]]:
    for dataset in datasets:
        for q in qs[-2:]:
            for method in ("tuned+repair", *SOLVERS[1:-1]):
                for budget in (1, 4, 16):
                    u = noise(dataset, q, method)
                    seconds = SECONDS[method] * budget
                    yield time(dataset, q, method, seconds, 30 * u / budget**1.5, False)
            yield time(dataset, q, "tuned+repair", 4e-2, 1.5, True)


def time(dataset: str, q: int, method: str, seconds: float, regret: float, amortised: bool):
    return {
        "dataset": dataset, "q": q, "method": method, "seconds": seconds, "regret": regret,
        "certified_gap": regret + 0.1, "violation": 0.0, "rows": 1000, "amortised": amortised,
    }  # fmt: skip


def paper(datasets: dict[str, str], qs: tuple[int, ...]) -> Iterator[dict[str, Any]]:
    for dataset, group in datasets.items():
        for q in qs if group != "wide" else ():
            table = f"main_{group}" if q == 80 else f"supplement_{dataset}"
            row = {"table": table, "dataset": dataset, "q": q}
            yield {**row, "method": "ilp", "metric": "objective", "mean": 463.4, "std": None}
            for method in NETWORKS if q != 80 else ("mse_pen", "ssl_pen", "pdl", "ss_cmpe"):
                u = noise("paper", dataset, q, method)
                gap = {"metric": "gap", "mean": round(0.04 + 0.06 * u, 3), "std": 0.04}
                broken = {"metric": "violations", "mean": round(0.3 * u, 3), "std": 0.3}
                yield from ({**row, "method": method, **rest} for rest in (gap, broken))
    for method in ("ilp", "mse_pen", "ss_cmpe"):
        for metric in ("objective", "gap", "violations", "train_seconds", "inference_seconds"):
            mean = round(60 * noise(method, metric), 3)
            yield {"table": "main_mnist", "dataset": "mnist", "q": None, "method": method,
                   "metric": metric, "mean": mean, "std": None}  # fmt: skip


def facts(datasets: dict[str, str]) -> Iterator[dict[str, Any]]:
    for i, (dataset, group) in enumerate(datasets.items()):
        yield {"dataset": dataset, "group": group, "variables": 180 + 40 * i, "functions": 900,
               "free": 90, "evidence": 120, "width": 3, "distinct_test_rows": 640,
               "train_rows": 9000, "test_rows": 1000}  # fmt: skip


def attacks() -> Iterator[dict[str, Any]]:
    for method, label in (("ilp", "MILP"), ("ss_cmpe", "SS-CMPE"), ("residual", "residual head")):
        u = noise(method)
        yield {"method": method, "label": label, "objective": 3 + 9 * u, "objective_std": 1 + u,
               "gap": u, "violation": 0.02 * u, "violation_8bit": 0.03 * u,
               "train_seconds": None if method == "ilp" else 300.0, "seconds": 5e-5, "rows": 1000,
               "device": "cuda", "classifier": "784-64-10", "note": None}  # fmt: skip


PROVENANCE = {
    "versions": {"cmpe": "0.1.0", "numpy": "2.1.0"},
    "python": "3.12.1",
    "machine": "a processor, 2 cores, no GPU",
    "seeds": [0, 1],
    "scale": "synthetic",
    "commands": ["make paper SCALE=smoke OUT=results"],
    "hashes": {"cells": "9f86d081884c7d65"},
    "date": "2026-01-01T00:00:00Z",
}


def picture(width: int = 160, height: int = 90) -> bytes:
    """A grey PNG."""
    rows = b"".join(b"\0" + bytes((7 * x * y) % 256 for x in range(width)) for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


def write_results(folder: Path, *, full: bool = False) -> Path:
    """Write all files of a results directory."""
    datasets = FULL if full else SMALL
    qs = (10, 30, 60, 80, 90) if full else (10, 80)
    folder.mkdir(parents=True, exist_ok=True)
    files = {
        "cells": cells(datasets, qs, 3 if full else 2),
        "curves": curves(datasets, qs),
        "times": times(datasets, qs),
        "datasets": facts(datasets),
        "paper": paper(datasets, qs),
        "adversarial": attacks(),
    }
    for name, rows in files.items():
        write_rows(folder / f"{name}.jsonl", rows)
    (folder / "provenance.json").write_text(json.dumps(PROVENANCE), encoding="utf-8")
    (folder / "adversarial.png").write_bytes(picture())
    return folder


HOSTILE = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(1)>${{7*7}}"


def write_hostile(folder: Path) -> Path:
    """Results whose names would like to be markup, scripts, formulas and paths."""
    rows = [
        cell(name, "uai", 80, method, 0)
        for name in (HOSTILE, HOSTILE[:-1] + "]", "../../x")
        for method in ("exact", "pdl", HOSTILE, "$\\frac{", "=1+1")
    ]
    rows[1] |= {"status": "missing", "reason": HOSTILE}
    write_rows(folder / "cells.jsonl", rows)
    write_rows(folder / "times.jsonl", [time(HOSTILE, 80, HOSTILE, 1.0, 1.0, False)])
    deep = {"deep": {"deeper": {"deepest": [HOSTILE]}}}
    provenance = {HOSTILE: [HOSTILE, {HOSTILE: deep}]}
    (folder / "provenance.json").write_text(json.dumps(provenance), encoding="utf-8")
    (folder / "adversarial.svg").write_text(f"<svg>{HOSTILE}</svg>", encoding="utf-8")
    return folder


def write_rows(path: Path, rows: Any) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    write_results(Path(sys.argv[1]), full="full" in sys.argv[2:])
