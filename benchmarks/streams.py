"""A million rows on one machine: rows a second, memory, and what kill -9 leaves.

    python -m benchmarks.streams [--rows 1000000] [--small-rows 10000000] [--workers 1]
        [--kills 5] [--cases Segmentation_14 dna small] [--results DIR]

Each case is `cmpe solve DIR --evidence ROWS.npy --method exact --output FOLDER/ --format parquet`
in a process of its own, twice: to its end, and killed with SIGKILL (the whole process group) when
random shares of the rows are answered, each time going on with --resume. The record has rows a
second by the clock and by CPU time, the largest memory of all its processes together (proportional
set size, sampled, so that pages they share count once), and whether both folders are the same,
byte for byte, but for the journal.

Rows are samples of the model, 60 % observed, in which every value is redrawn with probability 0.2,
so that a million of them are distinct. `small` is nltcs (16 variables), as it is sampled.
Where ../shared/data is absent, generated models stand in.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import cmpe
from benchmarks.frame import UAI_FILES, Recorder, parser, print_table
from cmpe.formats.debd import read_debd
from cmpe.formats.directory import ProblemDirectory, write_directory
from cmpe.generation import Recipe, generate, grid

DENSITY = UAI_FILES.parent / "density"
COMMAND = "from cmpe.cli.main import main; main()"
REDRAWN = 0.2
CHUNK = 50_000  # rows made at once
PAUSE = 0.2  # seconds between two looks at a process
COLUMNS = ("case", "rows", "workers", "wall_s", "cpu_s", "rows_per_s", "rows_per_cpu_s",
           "memory_mib", "kills", "identical")  # fmt: skip


def model_of(case: str) -> tuple[Any, str]:
    """The model, and where it is from."""
    if case == "Segmentation_14":
        file = UAI_FILES / f"{case}.uai"
        found = (cmpe.read_model(file), file.name) if file.exists() else None
        return found or (grid(15, 15, seed=14), "a generated grid of 15 x 15")
    name = "nltcs" if case == "small" else case
    file = DENSITY / f"{name}.train.data.gz"
    if file.exists():
        return cmpe.learn_chow_liu(read_debd(file)).to_model(), f"a Chow-Liu tree of {file.name}"
    size = 16 if case == "small" else 180
    data = np.random.default_rng(0).integers(0, 2, (2000, size)).astype(np.int32)
    return cmpe.learn_chow_liu(data).to_model(), f"a Chow-Liu tree of noise, {size} variables"


def make_rows(made: Any, rows: int, path: Path, seed: int, *, redrawn: float) -> int:
    """Write rows to a `.npy` file, chunk by chunk; how many of them are distinct."""
    problem = made.problem
    observed = list(problem.evidence_variables)
    sizes = np.asarray(problem.domain.cardinalities)[observed]
    out = np.lib.format.open_memmap(path, "w+", np.int8, (rows, len(observed)))
    random, keys = np.random.default_rng(seed), []
    for first in range(0, rows, CHUNK):
        count = min(CHUNK, rows - first)
        drawn = cmpe.sample(problem.objective, count, seed=seed + 1 + first).assignments
        block = drawn[:, observed].astype(np.int8)
        anew = random.random(block.shape) < redrawn
        block[anew] = random.integers(0, np.broadcast_to(sizes, block.shape)[anew])
        out[first : first + count] = block
        packed = np.packbits(block, axis=1) if sizes.max() <= 2 else block
        keys.append([hash(row.tobytes()) for row in packed])
    out.flush()
    return len(np.unique(np.concatenate(keys)))


def started(arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", COMMAND, *arguments]
    return subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)


def memory_of(group: int) -> int:
    """Bytes of all processes of a group, shared pages counted once."""
    total = 0
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text().rsplit(")", 1)[1].split()
                if int(stat[2]) == group:
                    rollup = (folder / "smaps_rollup").read_text()
                    pss = next(line for line in rollup.splitlines() if line.startswith("Pss:"))
                    total += 1024 * int(pss.split()[1])
            except (OSError, StopIteration, IndexError):
                continue
    return total


def watched(process: subprocess.Popen[bytes], until: int | None, folder: Path) -> tuple[int, float]:
    """Wait for the end, or kill when so many parts are there: (largest memory, CPU seconds)."""
    most = 0
    while True:
        ended, _, used = os.wait4(process.pid, os.WNOHANG)
        if ended:
            process.returncode = 0
            return most, used.ru_utime + used.ru_stime
        most = max(most, memory_of(process.pid))
        if until is not None and len(list(folder.glob("part-*"))) >= until:
            os.killpg(process.pid, signal.SIGKILL)
            _, _, used = os.wait4(process.pid, 0)
            process.returncode = -9
            return most, used.ru_utime + used.ru_stime
        time.sleep(PAUSE)


def digest(folder: Path) -> str:
    """A hash of everything but the journal."""
    found = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        if file.name != "journal.jsonl":
            found.update(file.name.encode() + hashlib.sha256(file.read_bytes()).digest())
    return found.hexdigest()


def measure(recorder: Recorder, case: str, rows: int, chosen: Any) -> None:
    model, source = model_of(case)
    made = generate(model, Recipe(samples=1000, seed=chosen.seed), name=case)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        write_directory(
            ProblemDirectory(made.problem, made.train[:10], made.test[:10]), place / "p"
        )
        redrawn = 0.0 if case == "small" else REDRAWN
        distinct = make_rows(made, rows, place / "rows.npy", chosen.seed, redrawn=redrawn)
        base = ["solve", str(place / "p"), "--evidence", str(place / "rows.npy"), "--method",
                "exact", "--format", "parquet", "--workers", str(chosen.workers)]  # fmt: skip
        begin = time.perf_counter()
        whole = [*base, "--output", f"{place}/whole/"]
        memory, cpu = watched(started(whole), None, place / "whole")
        wall = time.perf_counter() - begin
        manifest = json.loads((place / "whole" / "manifest.json").read_text())
        record = {
            "case": case, "model": source, "rows": manifest["rows"], "distinct": distinct,
            "workers": chosen.workers, "parts": manifest["parts"], "tally": manifest["tally"],
            "wall_s": wall, "cpu_s": cpu, "rows_per_s": rows / wall, "rows_per_cpu_s": rows / cpu,
            "memory_mib": memory / 2**20,
        }  # fmt: skip
        print(record, flush=True)
        if chosen.kills and case != "small":
            record |= kill_and_resume(base, place, manifest["parts"], chosen)
        recorder.add(**record)


def kill_and_resume(base: list[str], place: Path, parts: int, chosen: Any) -> dict[str, Any]:
    """The same with kills at random moments: when, and whether the folders are the same."""
    random = np.random.default_rng(chosen.seed)
    moments = sorted(int(k) for k in random.integers(1, parts, chosen.kills))
    command = [*base, "--output", f"{place}/killed/"]
    for until in [*moments, None]:
        process = started(command)
        watched(process, until, place / "killed")
        command = [*base, "--output", f"{place}/killed/", "--resume"]
    same = digest(place / "whole") == digest(place / "killed")
    return {"kills": len(moments), "killed_at_parts": moments, "identical": same}


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--small-rows", type=int, default=10_000_000)
    options.add_argument("--workers", type=int, default=1)
    options.add_argument("--kills", type=int, default=5)
    options.add_argument("--cases", nargs="+", default=["Segmentation_14", "dna", "small"])
    options.add_argument("--name", default="streams", help="of the result file")
    chosen = options.parse_args()
    with Recorder(chosen.name, chosen) as recorder:
        for case in chosen.cases:
            measure(recorder, case, chosen.small_rows if case == "small" else chosen.rows, chosen)
            print_table(recorder.records[-1:], COLUMNS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
