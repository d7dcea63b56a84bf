"""Table: instances of the UAI competitions, cmpe and others with one time limit on one core.

    python -m benchmarks.competition FOLDER [--limits 1 5 20] [--methods auto search]
                                            [--only NAME ...] [--figures FOLDER]

FOLDER holds models in any format that `cmpe.read_model` knows (packed or not), evidence beside
those that have some (MODEL.evid), and values.csv: a line per instance, whose columns of numbers
are values in nats known from elsewhere. Every run is a process of its own with one thread. It
answers small problems first, so that compiled code is loaded, then the instance. A record has the
wall and CPU seconds of the call that answers, the peak memory of the process, and the `overrun`,
what the clock shows beyond the limit. `known` is the best value of values.csv and of all runs
(published values are left out: they are rounded to 0.23 nats). `score` is the share of it that was
reached: 100 (1 - (known - value) / |known|), at least 0; without an answer 0. The last table has
the mean score of every family, the letters that names begin with.

With several --limits every run is made with each of them, and --figures draws the regret of every
method against the limit, a picture an instance.

With --percentiles 30 80 every instance becomes constrained problems: `cmpe generate` makes the
second model and q, a tenth of the variables is evidence, and the first test row is asked. They are
kept in --problems, and made once. `binds` says whether the best answer without the constraint,
after a second of search, breaks it.

With --clock cpu the limit counts CPU seconds of the process and of those it started instead of the
wall clock's: on a machine that others share, it shows what an idle core would reach. HiGHS, SCIP
and toulbar2, which look at the wall clock, are then stopped by Ctrl-C when their time is over
(HiGHS does not hear that in its first linear program, and gets --stretch times the seconds by the
wall clock besides: more on a busier machine).
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np

import cmpe
from benchmarks.frame import UAI_FILES, Record, Recorder, parser, print_table
from cmpe.errors import Interrupted
from cmpe.formats.directory import (
    ProblemDirectory,
    holds_problem,
    read_directory,
    write_directory,
)
from cmpe.formats.evidence import read_rows
from cmpe.formats.registry import SUFFIXES, read_model
from cmpe.formats.text import suffix_of
from cmpe.generation import Recipe, generate, grid
from cmpe.pictures.figures import new_figure, save
from cmpe.solvers.wide.race import Race

if TYPE_CHECKING:
    from cmpe import LogLinearModel

FOLDER = UAI_FILES.parent / "uai_competition"
COLUMNS = (
    "instance", "method", "status", "value", "known", "bound", "score", "wall_s", "cpu_s",
    "overrun_s", "peak_mib",
)  # fmt: skip
OURS = ("auto", "exact", "search", "local", "lagrangian")  # that ask the package's own clock
NOT_VALUES = ("wall", "published")  # published values are rounded to 0.23 nats
# What the process of a run executes. Every deadline of the package asks time.perf_counter.
_ONE = "from benchmarks.competition import one; print(json.dumps(one(json.loads(sys.argv[1]))))"
START = {
    "wall": f"import json, sys; {_ONE}",
    "cpu": f"import json, sys, time; time.perf_counter = time.process_time; {_ONE}",
}
PATIENCE = 30.0  # times the limit: a run that takes longer is ended
LOOK = 0.02  # seconds between two looks at the CPU clock of others
EVIDENCE = 0.1  # of the variables, in constrained versions
GENERATE_SECONDS = 20.0  # for the samples of a constrained version
SAMPLES = 20
LEAST_REGRET = 1e-3  # nats, for the pictures


class Question(NamedTuple):
    """What is asked about an instance."""

    method: str
    limit_s: float
    seed: int
    clock: str
    stretch: float = 4.0  # times the limit, by the wall clock, where CPU seconds count
    without: tuple[str, ...] = ()  # contestants of the race that are left out


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
    options.add_argument("--limits", type=float, nargs="+", default=[20.0], help="seconds of a run")
    options.add_argument("--figures", type=Path, help="where pictures of regret go")
    options.add_argument("--methods", nargs="+", default=["auto"])
    options.add_argument("--only", nargs="+", help="names of instances")
    options.add_argument("--name", default="competition", help="of the result file")
    options.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    options.add_argument("--stretch", type=float, default=4.0, help="wall clock with --clock cpu")
    options.add_argument("--percentiles", nargs="+", type=int, help="of q: constrained versions")
    options.add_argument("--problems", type=Path, default=Path("problems"), help="where they lie")
    chosen = options.parse_args(arguments)
    instances = [i for i in instances_of(chosen.folder) if not chosen.only or i.name in chosen.only]
    if chosen.percentiles:
        instances = [
            constrained(i, percentile, chosen.problems, chosen.seed)
            for i in instances
            for percentile in chosen.percentiles
        ]
    with Recorder(chosen.name, chosen, f"{len(instances)} instances") as recorder:
        for instance in instances:
            asked = [
                Question(method, limit, chosen.seed, chosen.clock, chosen.stretch)
                for method in chosen.methods
                for limit in chosen.limits
            ]
            runs = [run(instance, question) for question in asked]
            for record in scored(runs, instance.known):
                recorder.add(**record)
                print_table([record], COLUMNS)
            if chosen.figures is not None:
                own = [r for r in recorder.records if r["instance"] == instance.name]
                draw_regret(own, chosen.figures / f"{instance.name}.svg")
    print()
    print_table(recorder.records, COLUMNS)
    print()
    print_table(by_family(recorder.records), ("family", "method", "instances", "proved", "score"))
    return 0


def draw_regret(records: Sequence[Record], path: Path) -> None:
    """How far each method is from the best value known, by time limit."""
    figure, axes = new_figure()
    for method in dict.fromkeys(r["method"] for r in records):
        own = [r for r in records if r["method"] == method and r["value"] is not None]
        limits = [r["limit_s"] for r in own]
        regret = [max(r["known"] - r["value"], LEAST_REGRET) for r in own]
        axes.plot(limits, regret, marker="o", label=method)
    axes.set(xscale="log", yscale="log", xlabel="time limit (s)", ylabel="regret (nats)")
    axes.set_title(records[0]["instance"])
    axes.legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    save(figure, path)


def by_family(records: Sequence[Record]) -> list[Record]:
    """The mean score of every method on every family, and on all instances."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        letters = re.match("[A-Za-z]*", record["instance"])
        for family in (letters.group() if letters else "", "all"):
            groups.setdefault((family, record["method"]), []).append(record)
    return [
        {
            "family": family,
            "method": method,
            "instances": len(own),
            "proved": sum(r["status"] in ("optimal", "infeasible") for r in own),
            "score": float(np.mean([r["score"] for r in own])),
        }
        for (family, method), own in sorted(groups.items())
    ]


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


def constrained(instance: Instance, percentile: int, folder: Path, seed: int) -> Instance:
    """A constrained version of an instance, as a problem directory."""
    name = f"{instance.name}.q{percentile}"
    target = folder / name
    if not holds_problem(target):
        recipe = Recipe(EVIDENCE, 0.1, percentile, SAMPLES, seed, time_limit=GENERATE_SECONDS)
        made = generate(cast("LogLinearModel", read_model(instance.model)), recipe, name=name)
        kept = ProblemDirectory(made.problem, made.train, made.test, made.provenance)
        target.parent.mkdir(parents=True, exist_ok=True)
        write_directory(kept, target)
    return Instance(name, target, None, -np.inf)


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


def run(instance: Instance, asked: Question) -> Record:
    """One method on one instance in a process of its own."""
    told = {
        "model": str(instance.model),
        "evidence": None if instance.evidence is None else str(instance.evidence),
        **asked._asdict(),
    }
    limit = asked.limit_s
    first = {"instance": instance.name, **asked._asdict()}
    nothing = {"value": None, "bound": None, "wall_s": None}
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    clock = asked.clock if asked.method in OURS else "wall"  # the others are watched
    command = [sys.executable, "-c", START[clock], json.dumps(told)]
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
    limit, method = told["limit_s"], told["method"]
    leave_out(told.get("without", ()))
    load(method, limit)
    problem, rows = _read(told)
    is_watched = told["clock"] == "cpu" and method not in OURS
    begin, wall, cpu = time.perf_counter(), time.monotonic(), cpu_seconds()
    if is_watched:
        answer = watched(problem, rows, told)
    else:
        answer = cmpe.solve(problem, rows, method=method, time_limit=limit, seed=told["seed"])
    spent, used = time.monotonic() - wall, cpu_seconds() - cpu
    overrun = (used if is_watched else time.perf_counter() - begin) - limit
    value, bound = float(answer.objective[0]), float(answer.bound[0])
    is_answer = bool(answer.feasible[0])
    constrained_ = {"binds": binds(problem, rows)} if problem.constraints else {}
    return {
        **constrained_,
        "status": answer.labels[0],
        "value": value if is_answer and np.isfinite(value) else None,
        "bound": bound if np.isfinite(bound) else None,
        "wall_s": spent,
        "cpu_s": used,
        "overrun_s": max(0.0, overrun),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "by": str(answer.method[0]),
    }


def binds(problem: cmpe.Problem, rows: np.ndarray | None) -> bool:
    """Whether the best answer that a second of search finds without constraints breaks one."""
    free = cmpe.Problem(problem.objective, (), problem.evidence_variables)
    best = cmpe.solve(free, rows, method="search", time_limit=1.0).assignments
    return not bool(problem.is_feasible(best)[0])


def leave_out(names: Sequence[str]) -> None:
    """Let races of this process do without the contestants of these names."""
    begin = Race.__post_init__

    def others(self: Race) -> None:
        begin(self)
        self.left_out.update(names)

    Race.__post_init__ = others  # type: ignore[method-assign]


def _read(told: Record) -> tuple[cmpe.Problem, np.ndarray | None]:
    """The problem of a run and its one row."""
    path = Path(told["model"])
    if path.is_dir():
        found = read_directory(path)
        return found.problem, found.test[:1]
    problem = cmpe.Problem(read_model(path))
    rows = None if told["evidence"] is None else read_rows(Path(told["evidence"]), problem).states
    return problem, rows


def watched(problem: cmpe.Problem, rows: np.ndarray | None, told: Record) -> cmpe.Solutions:
    """What a method that looks at the wall clock knows after so many seconds of CPU."""
    limit, method = told["limit_s"], told["method"]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
    over = threading.Event()
    watch = threading.Thread(target=_interrupt_at, args=(cpu_seconds() + limit, over), daemon=True)
    watch.start()
    try:
        answer = cmpe.solve(
            problem, rows, method=method, time_limit=told["stretch"] * limit, seed=told["seed"]
        )
    except Interrupted as stop:
        answer = stop.solutions
    finally:
        over.set()
    return answer


def _interrupt_at(moment: float, over: threading.Event) -> None:
    """Ctrl-C when the CPU clock shows `moment`, unless it is over before."""
    while not over.wait(LOOK):
        if cpu_seconds() >= moment:
            os.kill(os.getpid(), signal.SIGINT)
            return


def cpu_seconds() -> float:
    """CPU seconds of this process and of those it started that live still (Linux)."""
    total = time.process_time()
    ticks = os.sysconf("SC_CLK_TCK")
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    for number in children.read_text().split() if children.exists() else []:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()
            total += (int(fields[11]) + int(fields[12])) / ticks
    return total


def load(method: str, limit: float) -> None:
    """Load compiled code, with a wide problem and with a narrow one."""
    for side in (30, 5):
        small = cmpe.Problem(grid(side, side, seed=1))
        cmpe.solve(small, method=method, time_limit=min(1.0, limit))


if __name__ == "__main__":
    sys.exit(main())
