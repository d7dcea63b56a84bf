"""Table: instances of the UAI competitions, cmpe and others with one time limit on one core.

    python -m benchmarks.competition FOLDER [--limit 20] [--methods auto search] [--only NAME ...]

FOLDER holds models in any format that `cmpe.read_model` knows (packed or not), evidence beside
those that have some (MODEL.evid), and values.csv: a line per instance, whose columns of numbers
are values in nats known from elsewhere. Every run is a process of its own on one core. It answers
a small problem first, so that compiled code is loaded, then the instance. A record has the wall
and CPU seconds of the call that answers, the peak memory of the process, and the `overrun`, what
the wall clock shows beyond the limit. `known` is the best value of values.csv and of all runs;
`score` is the competition's share of it: 100 (1 - (known - value) / |known|), at least 0. A run
with the same value as the best is 100, one without an answer 0.
"""

from __future__ import annotations

import csv
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import cmpe
from benchmarks.frame import UAI_FILES, Record, Recorder, parser, print_table
from cmpe.formats.evidence import read_evidence
from cmpe.formats.registry import SUFFIXES, read_model
from cmpe.formats.text import suffix_of
from cmpe.generation import grid

FOLDER = UAI_FILES.parent / "uai_competition"
COLUMNS = (
    "instance", "method", "status", "value", "known", "bound", "score", "wall_s", "cpu_s",
    "overrun_s", "peak_mib",
)  # fmt: skip
NOT_VALUES = ("wall", "published")  # published values are rounded to 0.23 nats
PATIENCE = 30.0  # times the limit: a run that takes longer is ended


@dataclass(frozen=True)
class Instance:
    """A model file, its evidence, and what is known of its optimum."""

    name: str
    model: Path
    evidence: Path | None
    known: float  # -inf where nothing is


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser(__doc__)
    options.add_argument("folder", type=Path, nargs="?", default=FOLDER)
    options.add_argument("--limit", type=float, default=20.0, help="seconds of a run")
    options.add_argument("--methods", nargs="+", default=["auto"])
    options.add_argument("--only", nargs="+", help="names of instances")
    options.add_argument("--name", default="competition", help="of the result file")
    chosen = options.parse_args(arguments)
    instances = [i for i in instances_of(chosen.folder) if not chosen.only or i.name in chosen.only]
    with Recorder(chosen.name, chosen, f"{len(instances)} instances") as recorder:
        for instance in instances:
            runs = [run(instance, m, chosen.limit, chosen.seed) for m in chosen.methods]
            for record in scored(runs, instance.known):
                recorder.add(**record)
                print_table([record], COLUMNS)
    print()
    print_table(recorder.records, COLUMNS)
    return 0


def instances_of(folder: Path) -> Iterator[Instance]:
    """The models of a folder, by name."""
    known = _known_values(folder / "values.csv")
    for path in sorted(folder.iterdir()):
        suffix = suffix_of(path)
        if suffix not in SUFFIXES:
            continue
        name = path.name.split(suffix)[0]
        evidence = path.with_name(f"{name}{suffix}.evid")
        has = evidence.exists() and evidence.read_text().split()[:1] not in ([], ["0"])
        yield Instance(name, path, evidence if has else None, known.get(name, -np.inf))


def _known_values(path: Path) -> dict[str, float]:
    if not path.exists():
        return {}
    best = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            found = [_number(row[k]) for k in row if not any(word in k for word in NOT_VALUES)]
            best[row["instance"]] = max(found)
    return best


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return -np.inf


def scored(runs: Sequence[Record], known: float) -> list[Record]:
    """The runs of one instance with the best value known, theirs included, and the score."""
    best = max([known, *(r["value"] for r in runs if r["value"] is not None)])
    return [{**r, "known": best, "score": score(r["value"], best)} for r in runs]


def score(value: float | None, best: float) -> float:
    """100 times the share of the best value; 0 without an answer."""
    if value is None:
        return 0.0
    return max(0.0, 100.0 * (1.0 - (best - value) / max(abs(best), 1e-9)))


def run(instance: Instance, method: str, limit: float, seed: int) -> Record:
    """One method on one instance in a process of its own."""
    told = {
        "model": str(instance.model),
        "evidence": None if instance.evidence is None else str(instance.evidence),
        "method": method,
        "limit": limit,
        "seed": seed,
    }
    first = {"instance": instance.name, "method": method, "limit_s": limit, "seed": seed}
    nothing = {"value": None, "bound": None, "wall_s": None}
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.competition", "one", json.dumps(told)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=60 + PATIENCE * limit
        )
    except subprocess.TimeoutExpired:
        return {**first, **nothing, "status": "did not end"}
    if done.returncode:
        return {**first, **nothing, "status": f"crash: {done.stderr.strip()[-200:]}"}
    return {**first, **json.loads(done.stdout.splitlines()[-1])}


def one(told: Record) -> Record:
    """What the process of a run does: answer and measure."""
    limit, method = told["limit"], told["method"]
    _load(method, limit)
    problem = cmpe.Problem(read_model(Path(told["model"])))
    rows = None if told["evidence"] is None else read_evidence(Path(told["evidence"]), problem)
    wall, cpu = time.perf_counter(), time.process_time()
    answer = cmpe.solve(problem, rows, method=method, time_limit=limit, seed=told["seed"])
    spent, used = time.perf_counter() - wall, time.process_time() - cpu
    value, bound = float(answer.objective[0]), float(answer.bound[0])
    return {
        "status": answer.labels[0],
        "value": value if np.isfinite(value) else None,
        "bound": bound if np.isfinite(bound) else None,
        "wall_s": spent,
        "cpu_s": used,
        "overrun_s": max(0.0, spent - limit),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "by": str(answer.method[0]),
    }


def _load(method: str, limit: float) -> None:
    """Load compiled code, with a wide problem and with a narrow one."""
    for side in (30, 5):
        small = cmpe.Problem(grid(side, side, seed=1))
        cmpe.solve(small, method=method, time_limit=min(1.0, limit))


if __name__ == "__main__":
    if sys.argv[1:2] == ["one"]:
        print(json.dumps(one(json.loads(sys.argv[2]))))
    else:
        sys.exit(main())
