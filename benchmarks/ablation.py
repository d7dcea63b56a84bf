"""Table: the race on wide rows with one contestant removed at a time, at equal time.

    python -m benchmarks.ablation [FOLDER] [--seconds 10] [--seeds 0 1 2] [--within SECONDS]
    python -m benchmarks.ablation --tables [--into docs/wide.md]

FOLDER holds instances as `benchmarks.competition` takes them. Every instance is asked as it is,
and, where `--constrained` names it, with the constraint that `cmpe generate` makes of it (q at the
30th percentile). Each row has a process of one thread and so many seconds of its CPU, for every
seed: with all contestants, and, unless that proves it within SOON seconds, with each of them
removed. Without highspy, `milp` is in no race and is not removed.

A run that is broken off goes on where it stopped: what is done is in results/ablation.jsonl.part.
`--within` begins no row after so many seconds. Seeds come one after the other, so the tables of a
part hold whole seeds but for the last. `--tables` shows the kept result, or the part, `--into`
writes it into a page, between its marks.

A run is compared with the one with all contestants and the same seed. `worse, better`: runs whose
value is (an answer counts as better than none). `value` and `bound`: how much lower the value and
how much higher the bound is on average, in percent of the best value known. `time`: the geometric
mean of the CPU seconds to the proof, by those with all contestants, of runs proved in both. The row
*another seed* compares runs with all contestants with each other: what is no more than chance.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.competition import FOLDER, Instance, Question, constrained, instances_of, run
from benchmarks.frame import Record, circumstances, parser, plain
from cmpe.formats.text import write_text
from cmpe.warming import compile_parts
from study.paper.readme import markdown, put

NAME = "ablation"
CONTESTANTS = ("search", "branching", "probing", "consistency", "splitting", "elimination", "milp")
PERCENTILE = 30
CONSTRAINED = (
    "CSP_11", "grid20x20.f5.wrap", "grid40x40.f10.wrap", "pdb1kwh", "pedigree19", "Promedas_13",
    "rus_50_100_4_1", "SegM_17",
)  # fmt: skip
PROVED = ("optimal", "infeasible")
SAME = 1e-6  # of a value's size
SOON = 1.0  # seconds: rows that all contestants prove so soon are asked with all of them only
HEAD = ("without", "runs", "worse, better", "value", "bound", "proved", "time")
COMPILED = ("search", "wide", "exact", "lagrangian", "sampling")  # ahead, of `cmpe.warming`
Key = tuple[str, int, str]


def main(arguments: Sequence[str] | None = None) -> int:
    options: Any = parser(__doc__)
    options.add_argument("folder", type=Path, nargs="?", default=FOLDER)
    options.add_argument("--seconds", type=float, default=10.0, help="of a row")
    options.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options.add_argument("--processes", type=int, default=1, help="rows at once")
    options.add_argument("--only", nargs="+", help="names of instances")
    options.add_argument("--constrained", nargs="*", default=CONSTRAINED, help="names of instances")
    options.add_argument("--problems", type=Path, default=Path("problems"), help="where they lie")
    options.add_argument("--within", type=float, default=math.inf, help="seconds: what begins")
    options.add_argument("--tables", action="store_true", help="show what was kept")
    options.add_argument("--into", type=Path, help="the page that gets the tables")
    chosen = options.parse_args(arguments)
    if not chosen.tables:
        measure(chosen)
    text = "\n\n".join(tables(kept(chosen.results / f"{NAME}.jsonl")))
    if chosen.into is not None:
        write_text(chosen.into, put(chosen.into.read_text(encoding="utf-8"), {NAME: text}))
    else:
        print(text)
    return 0


def measure(options: argparse.Namespace) -> None:
    """Ask what has not been asked yet; the part becomes the result when everything is."""
    over = time.monotonic() + options.within
    path = options.results / f"{NAME}.jsonl"
    part = part_of(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not part.exists():
        header = {"benchmark": NAME, "seconds": options.seconds, **circumstances(options.seed)}
        part.write_text(json.dumps(plain(header)) + "\n", encoding="utf-8")
    limit = json.loads(part.read_text(encoding="utf-8").splitlines()[0])["seconds"]
    if limit != options.seconds:
        raise SystemExit(f"{part} was begun with --seconds {limit:g}: go on with it or remove it")
    done = {_key(record) for record in kept(path)}
    has_milp = find_spec("highspy") is not None
    if not has_milp:
        print("highspy is not installed: milp is in no race and is not removed", flush=True)
    removed = ["", *(name for name in CONTESTANTS if has_milp or name != "milp")]
    compile_parts(COMPILED, options.processes)
    instances = [i for i in instances_of(options.folder) if _is_asked(i, options.only)]
    rows = [version for i in instances for version in _versions(i, options)]
    lock, late = threading.Lock(), threading.Event()

    def compare(seed: int, instance: Instance) -> None:
        """The runs of a row and a seed that have not been made yet."""
        for name in removed:
            if name and _is_proved_soon(path, instance.name, seed):
                return
            if (instance.name, seed, name) in done:
                continue
            if time.monotonic() >= over:
                late.set()
                return
            record = _asked(instance, seed, name, options.seconds, has_milp)
            with lock, part.open("a", encoding="utf-8") as file:
                file.write(json.dumps(plain(record)) + "\n")

    with ThreadPoolExecutor(options.processes) as pool:
        tasks = [pool.submit(compare, seed, row) for seed in options.seeds for row in rows]
        for task in tasks:
            task.result()
    if late.is_set():
        print("runs are left: the same command goes on with them", flush=True)
    else:
        part.replace(path)


def _is_proved_soon(path: Path, name: str, seed: int) -> bool:
    """Whether all contestants together proved a row so fast that none of them matters."""
    whole = next(r for r in kept(path) if _key(r) == (name, seed, ""))
    return whole["status"] in PROVED and whole["cpu_s"] < SOON


def part_of(path: Path) -> Path:
    """What is there of a result that is not whole."""
    return path.with_name(path.name + ".part")


def _is_asked(instance: Instance, only: Sequence[str] | None) -> bool:
    return not only or instance.name in only


def _versions(instance: Instance, options: argparse.Namespace) -> list[Instance]:
    """The instance as it is, and with a constraint."""
    if instance.name not in options.constrained:
        return [instance]
    return [instance, constrained(instance, PERCENTILE, options.problems, options.seed)]


def _asked(instance: Instance, seed: int, removed: str, seconds: float, has_milp: bool) -> Record:
    """One row without a contestant; '' removes none."""
    absent = [name for name in (removed, "" if has_milp else "milp") if name]
    found = run(instance, Question("auto", seconds, seed, "cpu", without=tuple(absent)))
    kept = {k: found.get(k) for k in ("status", "value", "bound", "wall_s", "cpu_s", "peak_mib")}
    is_constrained = instance.model.is_dir()
    known = instance.known if np.isfinite(instance.known) else None
    first = {"instance": instance.name, "constrained": is_constrained, "seed": seed}
    return {**first, "without": removed, "known": known, **kept}


def kept(path: Path) -> list[Record]:
    """The measurements of a result, or of its part, without the header."""
    found = next((file for file in (part_of(path), path) if file.exists()), None)
    if found is None:
        raise SystemExit(f"{path} is not there; `python -m benchmarks.{NAME}` makes it")
    return [json.loads(line) for line in found.read_text(encoding="utf-8").splitlines()[1:]]


def _key(record: Record) -> Key:
    return record["instance"], record["seed"], record["without"]


def tables(records: Sequence[Record]) -> Iterator[str]:
    """One for rows without constraints, one for rows with."""
    for constrained_, about in ((False, "Without constraints"), (True, "With a constraint")):
        mine = [r for r in records if r["constrained"] == constrained_]
        if mine:
            count, seeds = len({r["instance"] for r in mine}), len({r["seed"] for r in mine})
            milp = "" if any(r["without"] == "milp" for r in mine) else " HiGHS took no part."
            yield f"{about}: {count} rows, {seeds} seeds.{milp}"
            yield markdown(HEAD, list(_rows(mine)))


def _rows(records: Sequence[Record]) -> Iterator[list[str]]:
    best = {r["instance"]: r["known"] for r in records}
    for r in records:
        if r["value"] is not None:
            before = best[r["instance"]]
            best[r["instance"]] = r["value"] if before is None else max(before, r["value"])
    runs = {_key(r): r for r in records}
    whole = {key: r for key, r in runs.items() if not key[2]}
    proved = sum(r["status"] in PROVED for r in whole.values())
    yield ["nothing", str(len(whole)), "", "", "", str(proved), ""]
    seeds = sorted({seed for _, seed, _ in whole})
    others = dict(zip(seeds, [*seeds[1:], *seeds[:1]], strict=True))
    again = [(r, (i, others[s], "")) for (i, s, _), r in whole.items() if others[s] != s]
    chance = [(whole[key], r) for r, key in again if key in whole]
    if chance:
        yield ["*another seed*", *_compared(chance, best)]
    for name in dict.fromkeys(r["without"] for r in records if r["without"]):
        same = [(r, (i, s, "")) for (i, s, w), r in runs.items() if w == name]
        pairs = [(r, whole[key]) for r, key in same if key in whole]
        yield [f"`{name}`", *_compared(pairs, best)]


def _compared(pairs: Sequence[tuple[Record, Record]], best: Record) -> list[str]:
    """How runs compare with others of the same rows."""
    worse = better = 0
    lower, higher, times = [], [], []
    for run_, other in pairs:
        size = max(abs(best[other["instance"]] or 0.0), 1e-9)
        one, two = run_["value"], other["value"]
        if one is not None and two is not None:
            lower.append(100.0 * (two - one) / size)
            worse += lower[-1] > 100.0 * SAME
            better += lower[-1] < -100.0 * SAME
        else:
            worse += two is not None
            better += one is not None
        if run_["bound"] is not None and other["bound"] is not None:
            higher.append(100.0 * (run_["bound"] - other["bound"]) / size)
        if run_["status"] in PROVED and other["status"] in PROVED:
            times.append(np.log(run_["cpu_s"] / other["cpu_s"]))
    proved = sum(one["status"] in PROVED for one, _ in pairs)
    ratio = f"{np.exp(np.mean(times)):.2f}" if times else ""
    changes = [f"{np.mean(each):+.2f} %" if each else "" for each in (lower, higher)]
    return [str(len(pairs)), f"{worse}, {better}", *changes, str(proved), ratio]


if __name__ == "__main__":
    sys.exit(main())
