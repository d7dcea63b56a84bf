"""Methods on the command line: names of the registry, or the directory of a trained run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cmpe.errors import MethodError
from cmpe.solvers import METHODS, method_named
from cmpe.solvers.base import Limits
from cmpe.solvers.dispatch import Chosen, refuse_options

if TYPE_CHECKING:
    from cmpe.learning.solver import NeuralSolver
    from cmpe.problem import Problem

METHOD_HELP = f"One of {', '.join(METHODS)}; or the directory of a trained run."
WORKERS_HELP = (
    "Rows answered at the same time: processes for milp and toulbar2, threads for the others."
)
THREADS_HELP = (
    "Threads of each worker: within a row for milp, more rows at the same time for the others."
)
DEVICE_HELP = "cpu, or cuda for lagrangian, local and trained runs."


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


def method_or_run(method: str, problem: Problem) -> Chosen:
    """The method's name, or the trained solver in that directory."""
    return method if method in METHODS else load_run(Path(method), problem)


def load_run(run: Path, problem: Problem) -> NeuralSolver:
    """The trained solver in directory `run`, for the problem it was trained for."""
    from cmpe.learning.solver import NeuralSolver

    return NeuralSolver.load(run, problem)
