"""Processes that are killed, disks that are full or read-only, workers that die.

Each scenario runs the command in a process of its own. What must hold: a file is there whole or not
at all, old files are not touched by a command that fails, a command that fails says one line and
ends with 2, and what was killed goes on to the bytes of a run that was not.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import cmpe
from benchmarks.campaign.journal import Journal
from cmpe.formats.labels import problem_digest
from cmpe.generation import grid

ROOT = Path(__file__).resolve().parents[2]
MOST_SECONDS = 300.0
COMMAND = "from cmpe.cli.main import main; main()"
TRAINING = ("--set", "hidden=[4]", "--set", "batch_size=16", "--checkpoint-minutes", "0")


@dataclass(frozen=True)
class Ended:
    """How a process ended."""

    code: int  # minus the signal that ended it; -99: it had to be killed after MOST_SECONDS
    out: str
    err: str


@dataclass
class Place:
    """A folder to work in, and what a scenario may ask."""

    folder: Path
    rng: np.random.Generator
    journal: Journal
    said: list[str] = field(default_factory=list)

    def start(self, words: Sequence[object], most_bytes: int | None = None) -> Any:
        """Begin a `cmpe` command; it can write no file of more than `most_bytes`."""

        def limit() -> None:
            if most_bytes is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))

        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        begun = [str(word) for word in words]
        command = begun if begun[0] == sys.executable else [sys.executable, "-c", COMMAND, *begun]
        return subprocess.Popen(
            command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": path}, preexec_fn=limit, start_new_session=True,
        )  # fmt: skip

    def ended(self, process: Any, seconds: float | None = None) -> Ended:
        """Wait for it, or kill it and all it started after some seconds."""
        try:
            out, err = process.communicate(timeout=MOST_SECONDS if seconds is None else seconds)
            code = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            code = -99 if seconds is None else -int(signal.SIGKILL)
        self.said.append(f"exit {code}: {' '.join(process.args[3:])}\n{out[-300:]}{err[-1500:]}")
        return Ended(code, out, err)

    def run(self, *words: object, most_bytes: int | None = None) -> Ended:
        """Run a command to its end."""
        return self.ended(self.start(words, most_bytes))

    def killed(self, *words: object, within: float) -> Ended:
        """Run a command and kill it -9 at a random moment, if it has not ended by then."""
        return self.ended(self.start(words), float(self.rng.uniform(0.2, within)))

    def must(self, holds: bool, sentence: str) -> None:
        """A promise, or a finding."""
        self.journal.count("promises of processes")
        if not holds:
            self.journal.find("lost", f"{sentence}\n{chr(10).join(self.said)}")

    def refused(self, end: Ended) -> None:
        """One line and exit code 2."""
        self.must(end.code == 2, f"expected exit code 2, found {end.code}")
        beside = ("warning:", "cmpe: compiling")
        lines = [line for line in end.err.splitlines() if not line.startswith(beside)]
        is_one = len(lines) == 1 and lines[0].startswith("error: ")
        self.must(is_one, f"expected one line of error, found {end.err[-500:]!r}")

    def files(self, folder: str | Path = ".") -> dict[str, bytes]:
        """All files below a folder."""
        whole = self.folder / folder
        return {
            p.relative_to(whole).as_posix(): p.read_bytes()
            for p in sorted(whole.rglob("*")) if p.is_file()
        }  # fmt: skip

    def problem(self, side: int = 4, samples: int = 60) -> Path:
        """A problem directory that was generated."""
        seed = int(self.rng.integers(1000))
        cmpe.write_uai(grid(side, side, seed=seed), self.folder / "m.uai")
        made = self.run("generate", "m.uai", "--out", "p", "--samples", samples, "--seed", seed)
        self.must(made.code == 0, "generate must end with 0")
        return self.folder / "p"


def killed_solve(place: Place) -> None:
    """The answers are all there or none, and the next run gives them."""
    place.problem(side=5, samples=400)
    solve = ("solve", "p", "--method", "milp", "--output", "a.json", "--format", "json")
    place.killed(*solve, within=6.0)
    left = [name for name in place.files() if name.startswith((".a", "a"))]
    lines = (place.folder / "a.json").read_text().splitlines() if "a.json" in left else []
    whole = [json.loads(line) for line in lines]
    place.must(len(whole) in (0, 40), f"expected 0 or 40 answers, found {len(whole)}")
    place.must(place.run(*solve).code in (0, 1), "solve must end after a kill")
    again = (place.folder / "a.json").read_text().splitlines()
    place.must(len(again) == 40, f"expected 40 answers, found {len(again)}")
    known = [{k: v for k, v in row.items() if k != "seconds"} for row in whole]
    after = [{k: v for k, v in json.loads(row).items() if k != "seconds"} for row in again]
    place.must(not known or known == after, "answers after a kill must be the same")


def _children(pid: int) -> list[int]:
    """The processes that a process has started and that run."""
    numbered = [entry for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [int(entry.name) for entry in numbered if _parent(entry) == pid]


def _parent(process: Path) -> int | None:
    """The process that started another one; None of one that has ended."""
    try:
        state, parent = (process / "stat").read_text().rsplit(")", 1)[1].split()[:2]
    except OSError:
        return None
    return None if state == "Z" else int(parent)


def ended_workers(place: Place) -> None:
    """Whatever ends a command, its workers end too, and the next start removes its folders."""
    place.problem(side=5, samples=4000)
    temporary = place.folder / "temporary"
    temporary.mkdir()
    solve = ("solve", "p", "--method", "milp", "--output", "a/", "--workers", 2)
    signalled = signal.SIGKILL if place.rng.random() < 0.5 else signal.SIGTERM
    with _environment("TMPDIR", str(temporary)):
        process = place.start(solve)
        workers: list[int] = []
        deadline = time.monotonic() + MOST_SECONDS
        while len(workers) < 2 and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
            workers = _children(process.pid)
        time.sleep(float(place.rng.uniform(0.0, 3.0)))
        workers = sorted({*workers, *_children(process.pid)})
        process.send_signal(signalled)
        place.ended(process)  # and its stdout, which nobody else may hold
        end = time.monotonic() + 60.0
        while any(map(_runs, workers)) and time.monotonic() < end:
            time.sleep(0.1)
        place.must(not any(map(_runs, workers)), f"workers {workers} outlive {signalled!r}")
        place.must(place.run(*solve, "--resume").code in (0, 1), "solve must go on")
        left = [p.name for p in temporary.glob("cmpe-*")]
        place.must(not left, f"folders are left: {left}")


def _runs(pid: int) -> bool:
    """Whether a process runs."""
    return _parent(Path("/proc", str(pid))) is not None


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """A variable of the environment for as long as the context lasts."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def killed_train(place: Place) -> None:
    """Killed, resumed, killed, resumed: the weights of a run that was not."""
    place.problem()
    seed = int(place.rng.integers(100))
    told = ("train", "p", "--epochs", 60, "--seed", seed, *TRAINING)
    place.must(place.run(*told, "--out", "whole").code == 0, "train must end with 0")
    place.killed(*told, "--out", "killed", within=9.0)
    for _ in range(2):
        begun = (place.folder / "killed" / "checkpoint.pt").exists()
        place.killed(*told, "--out", "killed", *(["--resume"] if begun else []), within=9.0)
    begun = (place.folder / "killed" / "checkpoint.pt").exists()
    last = place.run(*told, "--out", "killed", *(["--resume"] if begun else []))
    place.must(last.code == 0, "a killed run must resume")
    one, other = (place.files(name)["weights.safetensors"] for name in ("whole", "killed"))
    place.must(one == other, "a resumed run must have the weights of a whole one")
    solver = cmpe.NeuralSolver.load(
        place.folder / "killed", cmpe.read_directory(place.folder / "p").problem
    )
    place.must(solver.trained.digest == problem_digest(solver.problem), "its problem is its own")


STUDY = """
[recipe]
evidence_fraction = 0.6
noise_variance = 0.1
seed = 0
[datasets.grid]
group = "uai"
stand_in = { grid = [3, 3], seed = 1 }
[methods.exact]
solver = "exact"
[methods.lagrangian]
solver = "lagrangian"
[methods.mse]
network = "paper"
[scales.tiny]
datasets = ["grid"]
percentiles = [30, 60]
seeds = [0]
samples = 40
few_rows = 2
few_percentiles = [30]
budgets = [1.0]
selection = { folds = 2, epochs = 1, beta = [1.0], rho = [0.1] }
changes = { paper = { epochs = 2, hidden = [4], batch_size = 16, evaluate_every = 1 } }
"""


def killed_study(place: Place) -> None:
    """A study that was killed does the rest, and has the results of one that was not."""
    (place.folder / "study.toml").write_text(STUDY)
    told = (sys.executable, "-m", "study", "paper", "run", "--study", "study.toml")
    scale = ("--scale", "tiny", "--data", "/nonexistent", "--out")
    place.must(place.run(*told, *scale, "whole").code == 0, "the study must end with 0")
    for _ in range(2):
        place.killed(*told, *scale, "killed", within=12.0)
    place.must(place.run(*told, *scale, "killed").code == 0, "a killed study must go on")
    one, other = (_results(place.folder / name) for name in ("whole", "killed"))
    place.must(bool(one), "a study must have results")
    place.must(one == other, "a killed study must have the results of a whole one")


def _results(folder: Path) -> list[Any]:
    """Every cell without what depends on the clock."""
    found = sorted(folder.rglob("cells.jsonl"))
    rows = [json.loads(line) for path in found[:1] for line in path.read_text().splitlines()]
    kept = ("dataset", "q", "method", "regret", "violation", "gap", "rows")
    return [{k: row.get(k) for k in kept} for row in rows]


def full_disk(place: Place) -> None:
    """A command that cannot write says so and leaves what was there."""
    place.problem()
    (place.folder / "d.data").write_text("0,1,0\n1,1,1\n" * 30)
    place.must(place.run("learn", "d.data", "--out", "model.json").code == 0, "learn must work")
    place.must(place.run("solve", "p", "--output", "a.json").code in (0, 1), "solve must work")
    before = place.files()
    commands = (
        ("learn", "d.data", "--out", "model.json", "--model", "chow-liu"),
        ("generate", "m.uai", "--out", "p", "--force", "--samples", 600, "--seed", 7),
        ("solve", "p", "--output", "a.json", "--method", "local"),
        ("convert", "m.uai", "m.LG"),
        ("train", "p", "--out", "run", "--epochs", 2, *TRAINING),
    )
    words = commands[int(place.rng.integers(len(commands)))]
    end = place.run(*words, most_bytes=int(place.rng.integers(0, 400)))
    place.refused(end)
    after = place.files()
    names = {name for name, data in before.items() if after.get(name) != data}
    place.must(not names, f"old files must stay as they are, found changed: {sorted(names)}")
    odd = {n for n in after if n not in before and not n.startswith(("run/", "p/labels-"))}
    place.must(not odd, f"nothing must be left behind, found {sorted(odd)}")


def read_only(place: Place) -> None:
    """Where nothing can be written: one line, exit code 2."""
    place.problem()
    nowhere = "/sys/kernel/nowhere"
    if os.geteuid() != 0:
        nowhere = str(place.folder / "locked" / "nowhere")
        (place.folder / "locked").mkdir(mode=0o500)
    commands = (
        ("solve", "p", "--output", nowhere),
        ("generate", "m.uai", "--out", nowhere),
        ("train", "p", "--out", nowhere, "--epochs", 1, *TRAINING),
        ("convert", "m.uai", nowhere + ".LG"),
    )
    place.refused(place.run(*commands[int(place.rng.integers(len(commands)))]))


TWO_TRAINERS = ("--epochs", 80, *TRAINING)


def two_trainers(place: Place) -> None:
    """Of two trainers in one directory one is refused; the lock of a dead one is gone."""
    place.problem()
    told = ("train", "p", "--out", "run", *TWO_TRAINERS)
    first, second = place.start(told), place.start(told)
    ends = [place.ended(first), place.ended(second)]
    codes = sorted(end.code for end in ends)
    place.must(codes == [0, 2], f"expected one trainer to be refused, found {codes}")
    place.killed("train", "p", "--out", "other", *TWO_TRAINERS, within=8.0)
    begun = (place.folder / "other" / "checkpoint.pt").exists()
    more = ["--resume"] if begun else []
    again = place.run("train", "p", "--out", "other", *TWO_TRAINERS, *more)
    place.must(again.code == 0, "the lock of a dead process must be gone")


WORKERS = """
import os, signal, sys, threading, time
import multiprocessing.process
import cmpe
from cmpe.generation import grid

def kill_one(after):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        children = [
            int(p) for p in os.listdir("/proc") if p.isdigit() and parent(p) == os.getpid()
            and b"spawn_main" in command(p)
        ]
        if children:
            time.sleep(after)
            os.kill(children[-1], signal.SIGKILL)
            return

def command(pid):
    try:
        return open(f"/proc/{pid}/cmdline", "rb").read()
    except OSError:
        return b""

def parent(pid):
    try:
        return int(open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[1])
    except OSError:
        return -1

if __name__ == "__main__":
    side, after = int(sys.argv[1]), float(sys.argv[2])
    problem = cmpe.Problem(
        grid(side, side, seed=1), [cmpe.Constraint(grid(side, side, seed=2), at_most=0.0)], (0, 1)
    )
    threading.Thread(target=kill_one, args=(after,), daemon=True).start()
    rows = [[i % 2, i // 2 % 2] for i in range(4)]
    try:
        found = cmpe.solve(problem, rows, method="milp", time_limit=20.0,
                           running=cmpe.Running(workers=2))
        print("answered", len(found))
    except cmpe.CmpeError as error:
        print("refused", str(error).count("\\n"), error)
"""


def dead_workers(place: Place) -> None:
    """A worker that is killed becomes one sentence within seconds, or is not missed."""
    (place.folder / "workers.py").write_text(WORKERS)
    side, after = int(place.rng.choice([4, 10, 20])), float(place.rng.uniform(0.0, 2.0))
    begin = time.monotonic()
    end = place.run(sys.executable, "workers.py", side, after)
    place.must(end.code == 0, f"expected an answer or a sentence, found exit {end.code}")
    place.must(end.out.startswith(("answered", "refused 0")), f"found {end.out!r}")
    place.journal.measure("seconds with a dead worker", time.monotonic() - begin)


SCENARIOS: tuple[Callable[[Place], None], ...] = (
    killed_solve, killed_train, killed_study, full_disk, full_disk, read_only, two_trainers,
    dead_workers, dead_workers, ended_workers, ended_workers,
)  # fmt: skip


def unit(
    rng: np.random.Generator, journal: Journal, scenario: Callable[[Place], None] | None = None
) -> None:
    """One scenario."""
    chosen = SCENARIOS[int(rng.integers(len(SCENARIOS)))] if scenario is None else scenario
    journal.count("scenarios")
    journal.count(f"scenarios: {chosen.__name__.replace('_', ' ')}")
    with tempfile.TemporaryDirectory(prefix="campaign-") as folder:
        chosen(Place(Path(folder), rng, journal))
