"""SCIP (PySCIPOpt) as a back-end of `milp`; extra `scip`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cmpe.arrays import Floats
from cmpe.errors import BackendError, MissingExtra
from cmpe.execution.threads import Ending, interruptible
from cmpe.solvers.base import Limits
from cmpe.solvers.milp import ProgramAnswer

if TYPE_CHECKING:
    from cmpe.bounds.linearization import LinearProgram
    from cmpe.solvers.milp import Backend

_OPTIONS = {
    "limits/gap": 0.0,
    "limits/absgap": 0.0,
    "numerics/feastol": 1e-9,
    "numerics/dualfeastol": 1e-9,
    "misc/allowweakdualreds": False,  # SCIP 10 loses optima that tie at a limit by them
    "display/verblevel": 0,
    "misc/catchctrlc": False,
}
_ABANDONED: list[Any] = []  # models that a thread still uses
_FINISHED = ("optimal", "timelimit", "memlimit", "gaplimit", "userinterrupt")


def load() -> Backend:
    """The back-end, or MissingExtra."""
    try:
        import pyscipopt  # noqa: F401
    except ImportError:
        raise MissingExtra.named("SCIP (pyscipopt)", "scip") from None
    return maximise


def maximise(program: LinearProgram, limits: Limits, start: Floats | None) -> ProgramAnswer:
    """Solve to a gap of 0, or to the time limit."""
    if _is_contradictory(program):
        return ProgramAnswer(None, infeasible=True)
    model, variables = model_of(program, limits)
    if start is not None:
        solution = model.createSol()
        for variable, value in zip(variables, start.tolist(), strict=True):
            model.setSolVal(solution, variable, value)
        model.addSol(solution)
    ending = interruptible(model.optimizeNogil, model.interruptSolve)
    if ending is Ending.ABANDONED:
        _ABANDONED.append(model)
        return ProgramAnswer(None, interrupted=True)
    status = model.getStatus()
    if status in ("infeasible", "inforunbd"):
        return ProgramAnswer(None, infeasible=True)
    if status not in _FINISHED:
        raise BackendError(f"SCIP stopped with status {status}")
    bound = float(model.getDualbound())
    bound = bound if abs(bound) < model.infinity() else np.inf
    nodes = int(model.getNTotalNodes())
    best = model.getBestSol() if model.getNSols() else None
    columns = None if best is None else np.array([best[v] for v in variables])
    return ProgramAnswer(columns, bound, nodes=nodes, interrupted=ending is Ending.CANCELLED)


def _is_contradictory(program: LinearProgram) -> bool:
    """Whether a row without columns, which SCIP is not given, rules out every point."""
    empty = np.diff(program.rows.indptr) == 0
    tolerance = _OPTIONS["numerics/feastol"]
    return bool((empty & ((program.lower > tolerance) | (program.upper < -tolerance))).any())


def model_of(program: LinearProgram, limits: Limits) -> tuple[Any, list[Any]]:
    """The program as SCIP has it, and its variables."""
    from pyscipopt import Model

    model = Model()
    for name, value in _OPTIONS.items():
        model.setParam(name, value)
    model.setParam("randomization/randomseedshift", limits.seed % 2**31)
    model.setParam("lp/threads", limits.threads)
    model.setParam("limits/memory", limits.bytes / 1e6)
    if limits.seconds is not None:
        model.setParam("limits/time", float(limits.seconds))
    variables = [
        model.addVar(vtype="I" if integer else "C", lb=low, ub=high, obj=cost)
        for integer, low, high, cost in zip(
            program.integer.tolist(),
            program.column_lower.tolist(),
            program.column_upper.tolist(),
            program.cost.tolist(),
            strict=True,
        )
    ]
    model.addObjoffset(program.offset)
    model.setMaximize()
    _add_rows(model, variables, program)
    return model, variables


def _add_rows(model: Any, variables: list[Any], program: LinearProgram) -> None:
    from pyscipopt import quicksum

    start, index, data = (
        a.tolist() for a in (program.rows.indptr, program.rows.indices, program.rows.data)
    )
    limits = zip(program.lower.tolist(), program.upper.tolist(), strict=True)
    for row, (low, high) in enumerate(limits):
        own = range(start[row], start[row + 1])
        if not own:
            continue
        expression = quicksum(data[k] * variables[index[k]] for k in own)
        if low == high:
            model.addCons(expression == low)
            continue
        if high < np.inf:
            model.addCons(expression <= high)
        if low > -np.inf:
            model.addCons(expression >= low)
