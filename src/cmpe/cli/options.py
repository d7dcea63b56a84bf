"""Words that several commands share, and how they become a problem."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from cmpe.errors import InputError, MethodError
from cmpe.solvers import METHODS, method_named
from cmpe.solvers.base import Limits
from cmpe.solvers.dispatch import Chosen, refuse_options

if TYPE_CHECKING:
    from cmpe.formats.directory import ProblemDirectory
    from cmpe.learning.solver import NeuralSolver
    from cmpe.models.loglinear import LogLinearModel
    from cmpe.models.tractable.cutset import CutsetNetwork
    from cmpe.problem import Problem
    from cmpe.solvers.base import Progress


SMALL_EXPANSION = 1 << 16  # A cutset network of at most so many entries becomes tables.

METHOD_HELP = f"One of {', '.join(METHODS)}; or the directory of a trained run."
WORKERS_HELP = (
    "Rows answered at the same time: in processes by milp, toulbar2, exhaustive and the reduction "
    "of wide rows, in threads by the others."
)
THREADS_HELP = (
    "Threads of each worker: within a row for milp, more rows at the same time for the others."
)
STAGES_HELP = (
    "For a trained run: what follows its pass, as in repair=no or sweeps=2,levels=yes. Names: "
    "margins (as in 0:1.2), repair, certificate, search_passes, sweeps, levels."
)
_ON_DEVICE = ", ".join(row.name for row in METHODS.values() if row.takes_device)
DEVICE_HELP = f"cpu, or cuda for {_ON_DEVICE} and trained runs."


def read_tables(path: Path) -> LogLinearModel | CutsetNetwork:
    """A model file of any kind, as tables unless it is a cutset network that is not small."""
    from cmpe.formats.registry import read_model
    from cmpe.models.tractable.branching import simplest

    function = simplest(read_model(path), SMALL_EXPANSION)
    return cast("LogLinearModel | CutsetNetwork", function)


class Format(StrEnum):
    """How answers are written."""

    json = "json"
    uai = "uai"
    table = "table"


def read_problem(
    directory: Path | None,
    objective: Path | None,
    constraints: Sequence[Path],
    limits: Sequence[float],
) -> tuple[Problem, ProblemDirectory | None]:
    """The problem of a directory, or of model files."""
    from cmpe.formats.directory import read_directory
    from cmpe.formats.text import stem_of
    from cmpe.problem import Constraint, Problem

    if (directory is None) == (objective is None):
        raise InputError("give either a problem directory or --objective FILE.uai")
    if directory is not None:
        if constraints or limits:
            raise InputError("--constraint and --at-most go with --objective, not with a directory")
        content = read_directory(directory)
        return content.problem, content
    if len(constraints) != len(limits):
        raise InputError(
            f"every --constraint needs one --at-most: found {len(constraints)} and {len(limits)}"
        )
    assert objective is not None
    model = read_tables(objective)
    pairs = zip(constraints, limits, strict=True)
    bounded = tuple(Constraint(read_tables(file), limit) for file, limit in pairs)
    for file, constraint in zip(constraints, bounded, strict=True):
        if constraint.function.cardinalities != model.cardinalities:
            raise InputError(f"{file}: expected the variables and cardinalities of {objective}")
    return Problem(model, bounded, name=stem_of(objective)), None


@contextmanager
def progress_bar(label: str) -> Iterator[Progress | None]:
    """A progress callback that draws to stderr, or None when stderr is not a terminal."""
    import sys

    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (label, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def check_device(device: str) -> None:
    """Refuse a device that is not there."""
    import torch

    if device != "cpu" and not device.startswith("cuda"):
        raise InputError(f"--device must be cpu or cuda, found {device!r}")
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise InputError(f"--device {device}: torch finds no GPU here; use cpu")


def refuse_unknown(method: str, limits: Limits) -> None:
    """Fail before any file is read: names of methods win, then run directories."""
    if method in METHODS or not Path(method).is_dir():
        refuse_options(method_named(method), limits)
        return
    from cmpe.learning.runs import is_run

    if not is_run(method):
        raise MethodError(
            f"a method is one of {', '.join(METHODS)}, or the directory of a trained run; found "
            f"the directory {method!r}, which holds no run"
        )


def read_stages(text: str | None, method: str) -> dict[str, Any] | None:
    """The stages that a trained run is asked for; None: its own."""
    if text is None:
        return None
    from dataclasses import fields

    from cmpe.learning.pipeline import Pipeline, parse_stages

    if method in METHODS:
        names = ", ".join(stage.name for stage in fields(Pipeline))
        raise MethodError(f"--stages ({names}) goes with a trained run, found method {method}")
    return parse_stages(text)


def method_or_run(method: str, problem: Problem, stages: Mapping[str, Any] | None = None) -> Chosen:
    """The method's name, or the trained solver in that directory with these stages."""
    if method in METHODS:
        return method
    solver = load_run(Path(method), problem)
    return solver if stages is None else solver.with_stages(**stages)


def load_run(run: Path, problem: Problem) -> NeuralSolver:
    """The trained solver in directory `run`, for the problem it was trained for."""
    from cmpe.learning.solver import NeuralSolver

    return NeuralSolver.load(run, problem)
