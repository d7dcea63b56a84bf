"""The registry: one row per method. Everything that lists methods reads it.

An engine is imported when its method is first used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cmpe.errors import MethodError
from cmpe.problem import Form
from cmpe.solvers.base import Engine, Method

Loader = Callable[[], Engine]


def _auto() -> Engine:
    from cmpe.solvers.auto import Auto

    return Auto()


def _auto_otherwise() -> Engine:
    from cmpe.solvers.flips import ProvedFlips

    return ProvedFlips(or_local=True)


def _exact() -> Engine:
    from cmpe.solvers.exact.complete import Exact

    return Exact()


def _exhaustive() -> Engine:
    from cmpe.solvers.exhaustive import Exhaustive

    return Exhaustive()


def _lagrangian() -> Engine:
    from cmpe.solvers.lagrangian import DualAnswers

    return DualAnswers()


def _local() -> Engine:
    from cmpe.solvers.local import Local

    return Local()


def _local_otherwise() -> Engine:
    from cmpe.solvers.flips import LocalFlips

    return LocalFlips()


def _search() -> Engine:
    from cmpe.solvers.search import Search

    return Search()


def _toulbar2() -> Engine:
    from cmpe.solvers.toulbar2 import Toulbar2

    return Toulbar2()


def _milp(backend: str) -> Mapping[Form, Loader]:
    def tables() -> Engine:
        from cmpe.solvers.milp import Milp

        return Milp(backend)

    def otherwise() -> Engine:
        from cmpe.solvers.flips import ProvedFlips

        return ProvedFlips(backend)

    return {Form.TABLES: tables, Form.OTHER: otherwise}


_ROWS = (
    Method(
        "auto",
        "the cheapest method that proves the gap asked for",
        {Form.TABLES: _auto, Form.OTHER: _auto_otherwise},
        proves=True,
        takes_gap=True,
    ),
    Method(
        "exact",
        "elimination with multipliers; wide rows by search, reduction and MILP",
        {Form.TABLES: _exact},
        proves=True,
    ),
    Method(
        "exhaustive",
        "every assignment in turn, for small problems and for checking others",
        dict.fromkeys(Form, _exhaustive),
        proves=True,
    ),
    Method(
        "lagrangian",
        "the dual's bound and its best answer, improved by single moves",
        {Form.TABLES: _lagrangian},
        takes_device=True,
    ),
    Method(
        "local",
        "repair and local moves from a start; gradients where there are no tables",
        {Form.TABLES: _local, Form.OTHER: _local_otherwise},
        takes_device=True,
    ),
    Method(
        "search",
        "large-neighbourhood search for problems too wide to eliminate",
        {Form.TABLES: _search},
    ),
    Method("milp", "the same as milp:highs", _milp("highs"), proves=True),
    Method(
        "milp:highs",
        "mixed-integer linear programming with HiGHS",
        _milp("highs"),
        proves=True,
    ),
    Method(
        "milp:scip",
        "mixed-integer linear programming with SCIP",
        _milp("scip"),
        proves=True,
        needs="scip",
    ),
    Method(
        "milp:gurobi",
        "mixed-integer linear programming with Gurobi, where it is licensed",
        _milp("gurobi"),
        proves=True,
        needs="gurobi",
    ),
    Method(
        "toulbar2",
        "branch and bound with soft local consistency",
        {Form.TABLES: _toulbar2},
        proves=True,
        needs="toulbar2",
    ),
)
METHODS: Mapping[str, Method] = {row.name: row for row in _ROWS}


def method_named(name: str) -> Method:
    """The registry's row of that name; an unknown name is refused with the list of all."""
    if name not in METHODS:
        raise MethodError(f"a method is one of {', '.join(METHODS)}; found {name!r}")
    return METHODS[name]
