"""Programs of moderate numbers, for back-ends whose tolerances are absolute.

HiGHS, SCIP and Gurobi keep a row to within 1e-9 and take columns within 1e-9 of whole numbers for
whole. With coefficients of 3e7 that is more than double precision can tell, and they call wrong
answers optimal. So a row whose largest coefficient exceeds LARGE is divided by a power of two that
brings it to about 1, and each side of the row is moved outwards by SLACK: nothing that satisfies
the row is lost to the back-end's tolerance. What only the slack lets through is tested and cut off
by the caller, as ties are. An objective is divided likewise, to about LARGEST_COST, and its bound
is raised by SHORTFALL. Coefficients below TINY, which back-ends take for 0, are left out; sides and
bound are moved by what they could have contributed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from cmpe.arrays import Floats
from cmpe.bounds.linearization import LinearProgram
from cmpe.solvers.settings import PROGRAMS

SLACK = 1e-8
SHORTFALL = 1e-7
TINY = 1e-9


@dataclass(frozen=True)
class ScaledProgram:
    """A program whose large rows were divided and widened; so was its objective."""

    program: LinearProgram
    unit: float = 1.0  # what 1 of its objective stands for
    error: float = 0.0  # by how much its maximum, in its own units, may be too low


def scaled(program: LinearProgram) -> ScaledProgram:
    """The program with moderate numbers; itself, if they are."""
    return _scaled_objective(_scaled_rows(program))


def _factors(sizes: Floats) -> Floats:
    """The power of two that brings each size to between 1/2 and 1."""
    return np.asarray(2.0 ** -np.ceil(np.log2(sizes)))


def _scaled_rows(program: LinearProgram) -> LinearProgram:
    rows = program.rows
    count, columns = rows.shape
    number = np.repeat(np.arange(count), np.diff(rows.indptr))
    largest = np.zeros(count)
    np.maximum.at(largest, number, np.abs(rows.data))
    large = largest > PROGRAMS.large
    if not large.any():
        return program
    factor = _factors(np.where(large, largest, 1.0))
    data = rows.data * factor[number]
    low, high, tiny = _left_out(program, data, rows.indices)
    tiny &= large[number]
    least, most = (np.bincount(number[tiny], part[tiny], count) for part in (low, high))
    kept = csr_array((data[~tiny], (number[~tiny], rows.indices[~tiny])), shape=(count, columns))
    widened = np.where(large, SLACK, 0.0)
    return replace(
        program,
        rows=kept,
        lower=program.lower * factor - most - widened,
        upper=program.upper * factor - least + widened,
    )


def _scaled_objective(program: LinearProgram) -> ScaledProgram:
    largest = np.abs(program.cost).max(initial=0.0)
    if largest <= PROGRAMS.largest_cost:
        return ScaledProgram(program)
    factor = float(_factors(largest / PROGRAMS.largest_cost))
    cost = program.cost * factor
    _, high, tiny = _left_out(program, cost, np.arange(len(cost)))
    moderate = replace(program, cost=np.where(tiny, 0.0, cost), offset=program.offset * factor)
    return ScaledProgram(moderate, 1.0 / factor, SHORTFALL + float(high[tiny].sum()))


def _left_out(
    program: LinearProgram, weights: Floats, columns: NDArray[np.integer]
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """The least and the most that weighted columns can be, and which weights are tiny."""
    ends = [
        np.where(weights == 0.0, 0.0, weights * end[columns])
        for end in (program.column_lower, program.column_upper)
    ]
    low, high = np.minimum(*ends), np.maximum(*ends)
    return low, high, (np.abs(weights) < TINY) & np.isfinite(low) & np.isfinite(high)
