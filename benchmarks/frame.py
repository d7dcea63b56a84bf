"""What every benchmark shares: its data, its clock, its result file and its table.

A benchmark NAME is run by `python -m benchmarks.NAME` or `make bench NAME=NAME`. It leaves
results/NAME.jsonl: a header (machine, versions, data, seed, date, command), then one record per
measurement, so that tables and figures can be redrawn without running anything again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import cmpe
from cmpe.generation import grid
from cmpe.solvers.dispatch import engine_of
from study.frame import cpu_model, versions
from study.frame import print_table as print_table

HERE = Path(__file__).parent
UAI_FILES = HERE.parent.parent / "shared" / "data" / "uai"
# The paper's models, and the (side, seed) of the random grid that stands in for an absent file.
MODELS = {
    "Segmentation_12": (15, 12),
    "Segmentation_14": (15, 14),
    "Segmentation_15": (15, 15),
    "Grids_17": (20, 17),
    "Grids_18": (20, 18),
}
Record = dict[str, Any]
Result = TypeVar("Result")


def parser(text: str | None) -> argparse.ArgumentParser:
    """The options that every benchmark takes; `text` is its docstring."""
    options = argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--seed", type=int, default=0, help="decides everything random")
    options.add_argument(
        "--results", type=Path, default=HERE / "results", help="folder of the result file"
    )
    return options


def data_source() -> str:
    """Where the models come from, in words."""
    if UAI_FILES.is_dir():
        return "the paper's UAI files in ../shared/data/uai"
    return "generated grids, because ../shared/data/uai is absent"


@contextmanager
def model_files(names: Iterable[str] = MODELS) -> Iterator[list[Path]]:
    """The UAI files called `names`, or generated grids in their place."""
    if UAI_FILES.is_dir():
        yield [UAI_FILES / f"{name}.uai" for name in names]
        return
    with grid_files(MODELS[name] for name in names) as paths:
        yield paths


@contextmanager
def grid_files(shapes: Iterable[tuple[int, int]]) -> Iterator[list[Path]]:
    """Files of random grids, one per (side, seed), for as long as the context lasts."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for side, seed in shapes:
            paths.append(Path(folder, f"grid_{side}x{side}_seed{seed}.uai"))
            cmpe.write_uai(grid(side, side, seed=seed), paths[-1])
        yield paths


@dataclass(frozen=True)
class Timing:
    """Seconds of repeated calls."""

    best: float
    median: float


def race(
    contestants: Mapping[str, Callable[[], object]],
    repeats: int = 7,
    warm_up: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
    """Time functions in turns, so that a slow moment of the machine meets all of them.

    For work on one thread that waits for nothing, `clock=time.process_time` shows what the wall
    clock would show on an idle machine, also on a busy one.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(warm_up + repeats):
        for name, function in contestants.items():
            begin = clock()
            function()
            seconds[name].append(clock() - begin)
    timed = {name: taken[warm_up:] for name, taken in seconds.items()}
    return {name: Timing(min(taken), statistics.median(taken)) for name, taken in timed.items()}


def with_cpu_share(function: Callable[[], Result]) -> tuple[Result, float]:
    """The result, and the share of the wall-clock time for which this process had a core."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = function()
    return result, (time.process_time() - cpu) / (time.perf_counter() - wall)


class Recorder:
    """Writes results/NAME.jsonl: NAME.jsonl.part while it runs, renamed when all went well."""

    def __init__(self, name: str, options: argparse.Namespace, data: str | None = None) -> None:
        self.records: list[Record] = []
        self._path: Path = options.results / f"{name}.jsonl"
        self._part = self._path.with_name(self._path.name + ".part")
        self._header = {"benchmark": name, **circumstances(options.seed)}
        if data is not None:
            self._header["data"] = data

    def __enter__(self) -> Self:
        self._part.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._part.open("w", encoding="utf-8")
        self._write(self._header)
        return self

    def add(self, **measurement: Any) -> None:
        """Write one record."""
        self.records.append(measurement)
        self._write(measurement)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        if kind is None:
            self._part.replace(self._path)

    def _write(self, record: Mapping[str, Any]) -> None:
        self._file.write(json.dumps(plain(record), allow_nan=False) + "\n")
        self._file.flush()


def plain(value: Any) -> Any:
    """`value` as JSON: numpy numbers unpacked, six digits, null for what is not finite."""
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if abs(value) < float("inf") else None
    return value


def circumstances(seed: int) -> Record:
    """The header of a result file: machine, versions, data, seed, date and command."""
    path = Path(sys.argv[0]).resolve().with_suffix("")
    module = ".".join(path.relative_to(HERE).parts) if path.is_relative_to(HERE) else path.stem
    arguments = [Path(a).name if Path(a).is_absolute() else a for a in sys.argv[1:]]
    return {
        "machine": {
            "cpu": cpu_model(),
            "cores": os.cpu_count(),
            "cores_used": len(os.sched_getaffinity(0)),
            "load": os.getloadavg()[0],
            "memory_gib": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30,
        },
        "versions": versions(),
        "data": data_source(),
        "seed": seed,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["python", "-m", f"benchmarks.{module}", *arguments]),
    }


@cache
def code_of(parts: tuple[str, ...]) -> str:
    """A hash of the code in some folders of the package: what a measurement is of."""
    digest = hashlib.sha256()
    for part in parts:
        for path in sorted((HERE.parent / "src" / "cmpe" / part).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def answer_each(
    problem: cmpe.Problem, rows: Any, method: str, time_limit: float | None = None
) -> cmpe.Solutions:
    """Every row answered on its own, equal ones too, which `cmpe.solve` answers once."""
    limits = cmpe.Limits(seconds=time_limit)
    return engine_of(method, problem, limits).answer(problem.given(rows), limits)
