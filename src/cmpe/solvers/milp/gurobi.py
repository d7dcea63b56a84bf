"""Gurobi as a back-end of `milp`; extra `gurobi` and a licence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cmpe.arrays import Floats
from cmpe.errors import BackendError, MissingExtra, how_to_install
from cmpe.execution.threads import Ending, interruptible
from cmpe.solvers.base import Limits
from cmpe.solvers.milp import ProgramAnswer

if TYPE_CHECKING:
    from cmpe.bounds.linearization import LinearProgram
    from cmpe.solvers.milp import Backend

_OPTIONS = {
    "OutputFlag": 0,
    "MIPGap": 0.0,
    "MIPGapAbs": 1e-7,
    "FeasibilityTol": 1e-9,
    "IntFeasTol": 1e-9,
}
_LICENCE_ERRORS = (10009, 10010, 10030, 10032)  # none, too large for the free one, expired


def load() -> Backend:
    """The back-end, or MissingExtra."""
    try:
        import gurobipy  # noqa: F401
    except ImportError:
        raise MissingExtra(
            f"Gurobi (gurobipy) is not installed; {how_to_install('gurobi')} "
            "and obtain a Gurobi licence"
        ) from None
    return maximise


def maximise(program: LinearProgram, limits: Limits, start: Floats | None) -> ProgramAnswer:
    """Solve to a gap of 1e-7, or to the time limit."""
    import gurobipy

    try:
        with (
            gurobipy.Env(params={"OutputFlag": 0}) as environment,
            gurobipy.Model(env=environment) as model,
        ):
            return _solve(model, program, limits, start)
    except gurobipy.GurobiError as error:
        if error.errno in _LICENCE_ERRORS:
            raise MissingExtra(
                f"Gurobi needs a licence for this problem ({error}); extra 'gurobi' installs "
                "gurobipy with a licence for small models only"
            ) from None
        raise BackendError(f"Gurobi failed: {error}") from None


def _solve(
    model: Any, program: LinearProgram, limits: Limits, start: Floats | None
) -> ProgramAnswer:
    from gurobipy import GRB

    for name, value in _OPTIONS.items():
        model.setParam(name, value)
    model.setParam("Threads", limits.threads)
    model.setParam("SoftMemLimit", limits.bytes / 1e9)
    model.setParam("Seed", limits.seed % 2_000_000_000)
    if limits.seconds is not None:
        model.setParam("TimeLimit", limits.seconds)
    kinds = np.where(program.integer, GRB.INTEGER, GRB.CONTINUOUS)
    z = model.addMVar(len(kinds), program.column_lower, program.column_upper, vtype=kinds)
    model.setObjective(program.cost @ z + program.offset, GRB.MAXIMIZE)
    for limit, sense in ((program.upper, "<"), (program.lower, ">")):
        chosen = np.flatnonzero(np.isfinite(limit))
        if len(chosen):
            model.addMConstr(program.rows[chosen], z, sense, limit[chosen])
    if start is not None:
        z.Start = start
    ending = interruptible(model.optimize, model.terminate)
    if ending is Ending.ABANDONED:
        return ProgramAnswer(None, interrupted=True)
    if model.Status in (GRB.INFEASIBLE, GRB.INF_OR_UNBD):
        return ProgramAnswer(None, infeasible=True)
    if model.Status not in (GRB.OPTIMAL, GRB.TIME_LIMIT, GRB.MEM_LIMIT, GRB.INTERRUPTED):
        raise BackendError(f"Gurobi stopped with status {model.Status}")
    columns = z.X if model.SolCount else None
    nodes, interrupted = int(model.NodeCount), ending is Ending.CANCELLED
    return ProgramAnswer(columns, float(model.ObjBound), nodes=nodes, interrupted=interrupted)
