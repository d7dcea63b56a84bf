"""What the benchmarks for a GPU share: stand-ins, packed problems, clock and result file.

The machine with the GPU may have torch, numpy and scipy only, so that a benchmark has two steps:
`prepare` packs problems where everything is installed, another mode reads the packs there.
"""

from __future__ import annotations

import itertools
import json
import pickle
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from study.bare import without_numba, without_safetensors

Record = dict[str, Any]


def plain_problem(problem: Any) -> Any:
    """The same problem without what it has computed: small when packed."""
    p = problem
    return type(p)(p.objective, p.constraints, p.evidence_variables, p.name)


def pack_problems(out: Path, folders: list[Path], rows: int, more: Callable[..., Any]) -> None:
    """Write (problem, rows, *more(problem, rows)) of each problem directory to `out`/NAME.pkl.

    There are as many rows of evidence as asked for: a directory's own, in turns.
    """
    import cmpe

    out.mkdir(parents=True, exist_ok=True)
    for folder in folders:
        content = cmpe.read_directory(folder)
        known = np.concatenate([content.test, content.train])
        chosen = known[np.arange(rows) % len(known)].astype(np.uint8)
        packed = plain_problem(content.problem), chosen, *more(content.problem, chosen)
        (out / f"{content.problem.name}.pkl").write_bytes(pickle.dumps(packed))


def median_seconds(
    call: Callable[[], Any], repeats: int = 7, warm_up: int = 1
) -> tuple[Any, float]:
    """The last answer and the median time after `warm_up` calls, which may capture graphs."""
    seconds = []
    for _ in range(warm_up + repeats):
        begin = time.perf_counter()
        answer = call()  # numpy arrays: nothing is left to wait for
        seconds.append(time.perf_counter() - begin)
    return answer, statistics.median(seconds[warm_up:])


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Write a header and `records`, one a line, and show each as soon as it is there."""
    import torch

    header = {"machine": torch.cuda.get_device_name(), "versions": {"torch": torch.__version__}}
    lines = []
    for record in itertools.chain([header], records):
        lines.append(json.dumps(record))
        print(lines[-1], flush=True)
    path.write_text("\n".join(lines) + "\n")


def run_modes(
    prepare: Callable[[Path, list[Path]], None],
    measure: Callable[[Path], Iterable[Record]],
) -> None:
    """`FILE.py MODE FIRST PATH...`: mode `prepare` runs here; mode `time`, there, writes the
    records of `measure` for each path to FIRST.
    """
    mode, first, *rest = sys.argv[1:]
    paths = [Path(path) for path in rest]
    if mode == "prepare":
        prepare(Path(first), paths)
        return
    without_numba()
    without_safetensors()
    write_records(Path(first), (record for path in paths for record in measure(path)))
