"""What methods ask of the torch back-end: numpy in, numpy out, computed on a device.

Both functions take every problem made of tables; cutset networks go leaf by leaf. Numbers are
float64 on every device.
"""

from __future__ import annotations

from numpy.typing import ArrayLike

from cmpe.arrays import FREE, Assignments
from cmpe.bounds.lagrangian import Dual, dual_by_branch
from cmpe.problem import Instances
from cmpe.problem.starts import by_leaf, checked, not_worse
from cmpe.tensor.device import scalar_on
from cmpe.tensor.dual import minimised
from cmpe.tensor.max_product import max_product
from cmpe.tensor.moves import walked
from cmpe.tensor.settings import TENSOR
from cmpe.tensor.tables import WideTables


def dual(instances: Instances, device: str) -> Dual:
    """`bounds.lagrangian.lagrangian_dual` of every row, computed on `device`.

    With at most one constraint the bounds equal the compiled ones to 1e-9 of 1 + their size. With
    several both take the same subgradient steps: bounds are equal to 1e-6, except where several
    maximisers tie exactly; rounding may choose another of them, and the bound, valid as any, may
    then end elsewhere. Infeasible rows are the same. Extreme answers may differ where they tie.
    """
    if not instances.problem.is_log_linear:
        scalar_on(device)  # refuses an unknown device even where no branch is left
        return dual_by_branch(instances, lambda part: dual(part, device))
    return minimised(instances, device)


def improved(
    instances: Instances, assignments: ArrayLike = FREE, *, device: str, steps: int = TENSOR.moves
) -> Assignments:
    """Repair and climb one assignment per row (B, n) by single moves, computed on `device`.

    Evidence is put in. -1 anywhere in a row means that it has no start: it begins where damped
    max-product points. A row makes at most
    `steps` moves per free variable and its answer does not depend on the other rows. Answers are
    judged by the problem's own functions in float64: a feasible start is never made worse. The
    compiled `local` also makes chains, exchanges and kicks, so that its answers differ.
    """
    rows = checked(instances, assignments)
    scalar_on(device)
    if instances.problem.is_log_linear:
        return _improved(instances, rows, device, steps)
    out = rows.copy()
    for numbers, part, inside in by_leaf(instances, rows):
        out[numbers] = _improved(part, inside, device, steps)
    return out


def _improved(instances: Instances, rows: Assignments, device: str, steps: int) -> Assignments:
    blank = (rows == FREE).any(axis=1)
    start = rows.copy()
    if blank.any():
        part = Instances(instances.problem, instances.evidence[blank])
        start[blank] = max_product(part, device)
    found = walked(WideTables(instances, device), start, steps)
    return not_worse(instances.problem, found, start)
