"""`python -m benchmarks.campaign --minutes N --seed S --out DIR`: run, or continue, a campaign."""

from __future__ import annotations

import argparse
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.campaign.journal import Journal, Json, Progress
from benchmarks.frame import circumstances

# The parts, and the share of the time that each gets.
PARTS = {
    "answers": 0.2, "relations": 0.1, "readers": 0.4, "processes": 0.1, "rows": 0.1,
    "certificates": 0.1,
}  # fmt: skip
SLICE = 60.0  # seconds of one worker
SILENCE = 600.0  # A worker that says nothing for so long hangs.


def generator(seed: int, part: str, unit: int) -> np.random.Generator:
    """What decides everything about a unit."""
    return np.random.default_rng([seed, list(PARTS).index(part), unit])


def unit_of(part: str) -> Callable[[np.random.Generator, Journal], None]:
    """The function that does a unit of a part."""
    unit: Callable[[np.random.Generator, Journal], None] = import_module(
        f"benchmarks.campaign.{part}"
    ).unit
    return unit


def work(part: str, seed: int, first: int, seconds: float) -> None:
    """In a worker: units from `first` on, one line before and one after each."""
    do = unit_of(part)
    if part == "readers":
        import_module("benchmarks.campaign.readers").limited()
    begin, number = time.monotonic(), first
    while number == first or time.monotonic() - begin < seconds:
        print(json.dumps({"begin": number}), flush=True)
        journal = Journal()
        do(generator(seed, part, number), journal)
        print(json.dumps({"done": number, **journal.to_json()}), flush=True)
        number += 1


class Watched:
    """A worker, and what it said last."""

    def __init__(self, part: str, seed: int, first: int, seconds: float) -> None:
        self.part, self.unit, self.begin = part, first, time.monotonic()
        self.heard = self.begin
        command = [sys.executable, "-m", "benchmarks.campaign", "--part", part, "--first", first]
        self.process = subprocess.Popen(
            [*map(str, command), "--seed", str(seed), "--seconds", str(seconds)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, text=True,
            cwd=Path(__file__).parents[2],
        )  # fmt: skip
        self.lines: queue.Queue[str] = queue.Queue()
        self.errors: list[str] = []
        self._ears = [
            threading.Thread(target=f, daemon=True) for f in (self._listen, self._collect)
        ]
        for ear in self._ears:
            ear.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stream:
            for line in stream:
                self.lines.put(line)

    def _collect(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stream:
            for line in stream:
                self.errors = [*self.errors[-30:], line]

    def heed(self, progress: Progress, folder: Path) -> bool:
        """Take what it said; False once it is gone."""
        is_gone = self.process.poll() is not None
        if is_gone:
            self._hear_out()
        while not self.lines.empty():
            self._take(json.loads(self.lines.get()), progress, folder)
        if is_gone and self.process.returncode:
            self._blame(f"ended with {self.process.returncode}", progress, folder)
        if not is_gone and time.monotonic() - self.heard > SILENCE:
            self.end()
            self._hear_out()
            self._blame(f"said nothing for {SILENCE:.0f} s", progress, folder, kind="hang")
            return False
        return not is_gone

    def _take(self, said: Json, progress: Progress, folder: Path) -> None:
        self.heard = time.monotonic()
        if "begin" in said:
            self.unit = said["begin"]
        else:
            progress.add(self.part, said["done"], said, folder)

    def _blame(self, how: str, progress: Progress, folder: Path, kind: str = "crash") -> None:
        about = f"{self.part} unit {self.unit}: {how}\n{''.join(self.errors)}"
        journal = Journal()
        journal.find(kind, about)
        progress.add(self.part, self.unit, journal.to_json(), folder)

    def _hear_out(self) -> None:
        """Its last lines; a process that it left behind may hold the pipes open."""
        for ear in self._ears:
            ear.join(5.0)

    def end(self) -> None:
        """Kill it and what it started."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def run(progress: Progress, folder: Path, seconds: float, jobs: int, parts: list[str]) -> None:
    """Keep `jobs` workers busy until the time is up."""
    spent = dict.fromkeys(parts, 0.0)
    about = {"command": "make campaign", **circumstances(progress.seed), "jobs": jobs}
    begin, last, before = time.monotonic(), time.monotonic(), progress.seconds
    workers: list[Watched] = []
    try:
        while workers or time.monotonic() - begin < seconds:
            left = seconds - (time.monotonic() - begin)
            while len(workers) < jobs and left > 0:
                busy = {w.part for w in workers}
                part = min(set(parts) - busy or set(parts), key=lambda p: spent[p] / PARTS[p])
                first = progress.next.get(part, 0)
                if part in busy:
                    first = max(first, max(w.unit for w in workers if w.part == part) + 10**6)
                workers.append(Watched(part, progress.seed, first, min(SLICE, left)))
            time.sleep(0.2)
            for worker in list(workers):
                if not worker.heed(progress, folder):
                    workers.remove(worker)
                    spent[worker.part] += time.monotonic() - worker.begin
            progress.seconds = before + time.monotonic() - begin
            if time.monotonic() - last > 10:
                last = time.monotonic()
                progress.write(folder, about)
    finally:
        for worker in workers:
            worker.end()
        progress.write(folder, about)


def done_again(seed: int, part: str, unit: int) -> Json | None:
    """What a unit says when it is done once more, or None if it crashes."""
    worker = Watched(part, seed, unit, 0.0)
    progress, folder = Progress(seed), Path(tempfile.mkdtemp())
    while worker.heed(progress, folder):
        time.sleep(0.2)
    shutil.rmtree(folder, ignore_errors=True)
    return None if worker.process.returncode else {"findings": progress.findings}


def main(arguments: list[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=30.0)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--out", type=Path)
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS))
    options.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    options.add_argument("--first", type=int, help=argparse.SUPPRESS)
    options.add_argument("--seconds", type=float, help=argparse.SUPPRESS)
    chosen: Any = options.parse_args(arguments)
    if chosen.part:
        work(chosen.part, chosen.seed, chosen.first, chosen.seconds)
        return 0
    folder = chosen.out or Path(f"campaign-{chosen.seed}")
    progress = Progress.read(folder, chosen.seed)
    progress.try_again(partial(done_again, chosen.seed))
    run(progress, folder, 60.0 * chosen.minutes, chosen.jobs, chosen.only)
    print(f"{folder / 'summary.json'}: {progress.counts['row-by-method checks']} checks of "
          f"{progress.counts['rows']} rows, {progress.counts['inputs']} inputs, "
          f"{progress.counts['scenarios']} scenarios of processes, "
          f"{len(progress.findings)} findings, {progress.seconds:.0f} s")  # fmt: skip
    return 1 if progress.findings else 0


if __name__ == "__main__":
    sys.exit(main())
