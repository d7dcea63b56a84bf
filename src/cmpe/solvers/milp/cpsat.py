"""OR-tools' CP-SAT as a back-end of `milp`; extra `cpsat`.

It runs in a process of its own, one for each thread, because OR-tools and highspy each bring a
HiGHS and cannot share one. CP-SAT counts in integers, so the program becomes

    maximise ceil(s c) x   subject to   floor(s a) x <= floor(s b)   for each row a x <= b,

with 0/1 columns x and a power of two s for each row and for the objective. Multiplying by s is
exact, and every rounding goes outwards, after b, a sum of floating-point numbers, is raised by the
tolerance that other back-ends have. No point of the program is lost, and the maximum never falls.
So what CP-SAT proves of its program holds for this one, that nothing is feasible included.
What rounding lets through is tested and cut off by the caller.
"""

from __future__ import annotations

import importlib
import signal
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from cmpe.arrays import Floats
from cmpe.errors import BackendError, MissingExtra, OutOfTime
from cmpe.execution.isolated import allow_memory, isolated_process
from cmpe.solvers.base import Deadline, Limits
from cmpe.solvers.milp import ProgramAnswer

if TYPE_CHECKING:
    from cmpe.bounds.linearization import LinearProgram
    from cmpe.solvers.milp import Backend

LARGEST = 2.0**50  # the weights of a row, or of the objective, add up to this at most
FINEST = 2.0**30  # the largest s
TOLERANCE = 1e-9  # of a row
LATE = 0.2  # seconds: CP-SAT is interrupted when it exceeds its limit by so much
LISTEN = 0.02  # seconds between two looks for a signal
PROCESS = "cpsat"
MODULE = "ortools.sat.python.cp_model"


def load() -> Backend:
    """The back-end, with a process that has loaded OR-tools, or MissingExtra."""
    if find_spec("ortools") is None:
        raise MissingExtra.named("CP-SAT (ortools)", "cpsat")
    isolated_process(PROCESS).call(_loaded)
    return maximise


def _loaded() -> None:
    importlib.import_module(MODULE)


def maximise(program: LinearProgram, limits: Limits, start: Floats | None) -> ProgramAnswer:
    """Solve to the optimum, or to the time limit."""
    seconds = None if limits.seconds is None else limits.seconds + LATE
    reply = isolated_process(PROCESS).call(run, program, limits, start, seconds=seconds)
    if reply.error is not None:
        raise BackendError(f"CP-SAT failed: {reply.error}")
    answer = ProgramAnswer(None) if reply.value is None else reply.value
    return replace(answer, interrupted=reply.interrupted)


def run(program: LinearProgram, limits: Limits, start: Floats | None) -> ProgramAnswer:
    """Build the model in integers and solve it; this happens in the process of its own."""
    if (program.column_lower > program.column_upper).any():
        return ProgramAnswer(None, infeasible=True)
    sat, clock = importlib.import_module(MODULE), Deadline(limits)
    allow_memory(limits.bytes)
    try:
        model, columns = _model_of(program, sat, clock)
    except OutOfTime:
        return ProgramAnswer(None)
    unit = _unit(program.cost)
    weights = np.ceil(program.cost * unit).astype(np.int64)
    # CP-SAT reports a bound of 0 while it has none. The objective is shifted by the sum of its
    # positive weights, which makes 0 a valid bound.
    most = int(np.maximum(weights, 0).sum())
    model.maximize(sat.LinearExpr.weighted_sum(columns, weights.tolist()) - most)
    if start is not None:
        for column, value in zip(columns, start.tolist(), strict=True):
            model.add_hint(column, round(value))
    solver = sat.CpSolver()
    solver.parameters.num_workers = limits.threads
    solver.parameters.linearization_level = 2  # far better than 1 on the local polytope
    # OR-tools 9.15 adds weights up in 32 bits in this part of presolve (its issue 5293) and then
    # loses answers.
    solver.parameters.presolve_inclusion_work_limit = 0
    solver.parameters.random_seed = limits.seed % 2**31
    if limits.seconds is not None:
        solver.parameters.max_time_in_seconds = clock.left().seconds
    status = _solved(solver, model)
    if status == sat.MODEL_INVALID:
        raise BackendError(f"CP-SAT refuses the program: {model.validate()}")
    if status == sat.INFEASIBLE:
        return ProgramAnswer(None, infeasible=True)
    bound = (solver.best_objective_bound + most) / unit + program.offset
    if status == sat.UNKNOWN:
        return ProgramAnswer(None, bound)
    values = np.array(solver.values(columns), dtype=np.float64)
    return ProgramAnswer(values, bound, nodes=solver.num_branches)


def _solved(solver: Any, model: Any) -> Any:
    """The status at the end, or when SIGINT comes: CP-SAT's own handler ends the process."""
    solver.parameters.catch_sigint_signal = False
    signal.signal(signal.SIGINT, lambda *_: solver.stop_search())
    with ThreadPoolExecutor(1) as pool:  # the main thread must be free to hear the signal
        search = pool.submit(solver.solve, model)
        while not search.done():
            wait([search], LISTEN)
        return search.result()


def _model_of(program: LinearProgram, sat: Any, clock: Deadline) -> tuple[Any, list[Any]]:
    """The columns and rows in integers."""
    model, rows = sat.CpModel(), program.rows
    ends = zip(program.column_lower.tolist(), program.column_upper.tolist(), strict=True)
    columns = [model.new_int_var(int(low), int(high), "") for low, high in ends]
    starts = rows.indptr.tolist()
    sides = zip(program.lower.tolist(), program.upper.tolist(), strict=True)
    for row, (low, high) in enumerate(sides):
        clock.check()
        here = slice(starts[row], starts[row + 1])
        weights, numbers = rows.data[here], rows.indices[here].tolist()
        unit = 1.0 if (weights == np.rint(weights)).all() else _unit(weights)
        for side, rounded, sign in ((high, np.floor, 1), (low, np.ceil, -1)):
            if np.isinf(side):
                continue
            whole = sign * rounded(weights * unit).astype(np.int64)
            terms = sat.LinearExpr.weighted_sum([columns[k] for k in numbers], whole.tolist())
            model.add(terms <= sign * int(rounded((side + sign * TOLERANCE) * unit)))
    return model, columns


def _unit(weights: Floats) -> float:
    """The power of two that weights are multiplied by before they are rounded."""
    total = float(np.abs(weights).sum())
    return FINEST if total == 0.0 else min(FINEST, 2.0 ** np.floor(np.log2(LARGEST / total)))
