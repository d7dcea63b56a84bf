"""The interface of objectives and of the functions of constraints.

To add a kind of function
-------------------------
Write a frozen dataclass with what `Function` asks for, in a file of its own under `models/`;
inherit from `FiniteFunction` if no value is -inf. `Problem`, `Solutions` and `exhaustive` need no
more. Everything else is a table by kind, and a kind that is not in it is refused in one sentence.
Add a row to those that the new kind should have:

    models/tractable/branching.py   simplest, contexts_of, leaf_model: functions made of tables,
                                    for `exact`, `search`, `lagrangian` and all other methods
    tensor/functions.py             values and gradients on tensors, for `local` and training
    solvers/milp/mixed/kinds.py     readable: columns and rows of a mixed-integer program
    sampling/__init__.py            _sample: assignments with probability exp h
    formats/labels.py               _arrays: the numbers that identify it, for kept labels and runs
    formats/registry.py             FORMATS: files that hold it
    formats/directory.py            _file_format: its file in a problem directory
    inspection.py                   describe: what `cmpe info` says of it

The tables are `functools.singledispatch` functions, so a subclass takes the row of its parent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from cmpe.arrays import FREE, Floats, Values, numbers_of
from cmpe.domain import Domain
from cmpe.errors import ModelError
from cmpe.models.constraint import Bounded

# One assignment or many: by number, or by the names of variables and states.
Assigned = ArrayLike | Mapping[Any, Any] | Sequence[Mapping[Any, Any]]


class Function(Protocol):
    """A function of assignments, batch-first: a log-linear model, a cutset network, ..."""

    @property
    def domain(self) -> Domain:
        """Names, states and cardinalities of the variables."""
        ...

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """How many values each variable has."""
        ...

    @property
    def variables(self) -> int:
        """How many variables there are."""
        ...

    @property
    def is_finite(self) -> bool:
        """Whether no value is -inf."""
        ...

    def value(self, assignments: ArrayLike) -> Floats:
        """The value at each row of `assignments` (B, n): (B,)."""
        ...

    def ceiling(self) -> float:
        """An upper bound of every finite value."""
        ...


class FiniteFunction(Bounded):
    """What functions without tables share: no value of theirs is -inf."""

    @property
    def variables(self) -> int:
        """How many variables there are, whether or not a value depends on them."""
        return len(self.cardinalities)

    @property
    def is_finite(self) -> bool:
        """Always."""
        return True

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.variables} variables)"


def as_rows(assignments: Any, domain: Domain) -> Values:
    """Assignments (B, n), one (n,), {variable: state} or a list or frame of such; or answers."""
    if isinstance(assignments, Mapping):
        return _named_rows([assignments], domain)
    if isinstance(assignments, list | tuple) and assignments:
        if all(isinstance(row, Mapping) for row in assignments):
            return _named_rows(assignments, domain)
    elif hasattr(assignments, "columns"):  # a frame
        return _named_rows(assignments.to_dict("records"), domain)
    rows = numbers_of(getattr(assignments, "assignments", assignments))
    rows = rows[np.newaxis, :] if rows.ndim == 1 else rows
    if rows.ndim != 2 or rows.shape[1] != domain.variables:
        raise ModelError(
            f"assignments must be (B, {domain.variables}), found {rows.shape}; by name write "
            "{variable: state, ...}"
        )
    return rows


def _named_rows(rows: Sequence[Mapping[Any, Any]], domain: Domain) -> Values:
    """The state of every variable in every row; whatever is no variable is refused."""
    out = np.full((len(rows), domain.variables), FREE)
    for number, row in enumerate(rows):
        for key, state in row.items():
            variable = domain.variable(key)
            out[number, variable] = domain.state(variable, state)
        missing = np.flatnonzero(out[number] == FREE)
        if len(missing):
            raise ModelError(
                f"row {number} needs a state of {domain.called(int(missing[0]))}: an assignment "
                "is of all variables"
            )
    return out
