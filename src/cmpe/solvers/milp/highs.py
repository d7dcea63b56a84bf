"""HiGHS as a back-end of `milp`."""

from __future__ import annotations

import math
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from cmpe.arrays import Floats
from cmpe.bounds.linearization import highs_model
from cmpe.errors import BackendError
from cmpe.execution.threads import Ending, interruptible
from cmpe.solvers.base import Deadline, Limits
from cmpe.solvers.milp import ProgramAnswer

if TYPE_CHECKING:
    from cmpe.bounds.linearization import LinearProgram
    from cmpe.solvers.milp import Backend

_OPTIONS = {
    "output_flag": False,
    "mip_rel_gap": 0.0,
    "mip_abs_gap": 1e-7,
    "mip_feasibility_tolerance": 1e-9,
    "primal_feasibility_tolerance": 1e-9,
    "dual_feasibility_tolerance": 1e-9,
}
_threads = 0  # HiGHS keeps one thread pool per process; it must be reset to change its size


def load() -> Backend:
    """The back-end; highspy is a core dependency."""
    return maximise


def maximise(program: LinearProgram, limits: Limits, start: Floats | None) -> ProgramAnswer:
    """Solve to a gap of 1e-7, or to the time limit."""
    import highspy

    answered = highspy.HighsModelStatus
    none = (answered.kInfeasible, answered.kUnboundedOrInfeasible)
    clock = Deadline(limits)
    for presolve in ("choose", "off"):  # HiGHS 1.15 presolves some feasible programs to nothing
        solver, ending = _run(program, clock, start, presolve)
        if ending is Ending.ABANDONED:
            return ProgramAnswer(None, interrupted=True)
        status = solver.getModelStatus()
        if status not in none:
            break
    else:
        return ProgramAnswer(None, infeasible=True)
    if status not in (answered.kOptimal, answered.kTimeLimit, answered.kInterrupt):
        raise BackendError(f"HiGHS stopped with status {solver.modelStatusToString(status)}")
    info = solver.getInfo()
    # Without integer columns there is no dual bound of the search; an optimal LP is its own.
    bound = info.mip_dual_bound if program.integer.any() else info.objective_function_value
    known = math.isfinite(bound) and (program.integer.any() or status == answered.kOptimal)
    bound = float(bound) if known else math.inf
    has_solution = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    columns = np.array(solver.getSolution().col_value) if has_solution else None
    nodes, interrupted = max(0, int(info.mip_node_count)), ending is Ending.CANCELLED
    return ProgramAnswer(columns, bound, nodes=nodes, interrupted=interrupted)


def _run(
    program: LinearProgram, clock: Deadline, start: Floats | None, presolve: str
) -> tuple[Any, Ending]:
    import highspy

    solver = highspy.Highs()
    configure(solver, clock.left())
    solver.setOptionValue("presolve", presolve)
    solver.passModel(highs_model(program))
    limit_time(solver, clock.left())  # a large model takes long to pass
    if start is not None:
        solution = highspy.HighsSolution()
        solution.col_value = start.tolist()
        solver.setSolution(solution)
    solver.cbMipInterrupt += partial(_stop_if_set, stop := threading.Event())
    return solver, interruptible(solver.run, stop.set)


def _stop_if_set(stop: threading.Event, event: Any) -> None:
    if stop.is_set():
        event.interrupt()


def configure(solver: Any, limits: Limits) -> None:
    """Tolerances, threads, seed and time limit of a new solver."""
    global _threads
    if _threads != limits.threads:
        type(solver).resetGlobalScheduler(True)
        _threads = limits.threads
    for name, value in _OPTIONS.items():
        solver.setOptionValue(name, value)
    solver.setOptionValue("threads", limits.threads)
    solver.setOptionValue("random_seed", limits.seed % 2**31)
    limit_time(solver, limits)


def limit_time(solver: Any, limits: Limits) -> None:
    """No longer than the limits say."""
    if limits.seconds is not None:
        solver.setOptionValue("time_limit", float(limits.seconds))
