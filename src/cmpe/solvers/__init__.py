"""The registry: one row per method. Everything that lists methods reads it.

An engine's module is imported when its method is first used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from cmpe.errors import MethodError
from cmpe.problem import Form
from cmpe.solvers.base import Engine, Method


def _engine(module: str, name: str, **settings: object) -> Callable[[], Engine]:
    """A loader of the engine `name` in one of this room's modules."""

    def load() -> Engine:
        engine: Engine = getattr(import_module(f"{__name__}.{module}"), name)(**settings)
        return engine

    return load


def _beyond_tables(name: str, **settings: object) -> dict[Form, Callable[[], Engine]]:
    """The same engine of `flips` for both forms of problem that have no tables to read."""
    return dict.fromkeys((Form.CONTINUOUS, Form.OTHER), _engine("flips", name, **settings))


def _milp(name: str, about: str, backend: str, needs: str | None = None) -> Method:
    tables = _engine("milp", "Milp", backend=backend)
    engines = {Form.TABLES: tables, **_beyond_tables("ProvedFlips", backend=backend)}
    return Method(name, about, engines, proves=True, needs=needs)


def _toulbar2(name: str, about: str, configuration: str) -> Method:
    engine = _engine("toulbar2", "Toulbar2", configuration=configuration)
    proves = configuration != "vns"
    return Method(name, about, {Form.TABLES: engine}, proves=proves, needs="toulbar2")


_ROWS = (
    Method(
        "auto",
        "the cheapest method that proves the gap asked for",
        {Form.TABLES: _engine("auto", "Auto"), **_beyond_tables("ProvedFlips", or_local=True)},
        proves=True,
        takes_gap=True,
        eliminates=True,
        shares=True,
        recognises=True,
    ),
    Method(
        "exact",
        "elimination with multipliers; wide rows by search and bounds in turns",
        {Form.TABLES: _engine("exact.complete", "Exact")},
        proves=True,
        eliminates=True,
        shares=True,
        recognises=True,
    ),
    Method(
        "exhaustive",
        "every assignment in turn, for small problems and for checking others",
        dict.fromkeys(Form, _engine("exhaustive", "Exhaustive")),
        proves=True,
    ),
    Method(
        "lagrangian",
        "the dual's bound and its best answer, improved by single moves",
        {Form.TABLES: _engine("lagrangian", "DualAnswers")},
        takes_device=True,
        eliminates=True,
    ),
    Method(
        "local",
        "repair and local moves from a start; gradients where there are no tables",
        {Form.TABLES: _engine("local", "Local"), **_beyond_tables("LocalFlips")},
        eliminates=True,
    ),
    Method(
        "search",
        "large-neighbourhood search for problems too wide to eliminate",
        {Form.TABLES: _engine("search", "Search")},
    ),
    _milp("milp", "the same as milp:highs", "highs"),
    _milp("milp:highs", "mixed-integer linear programming with HiGHS", "highs"),
    _milp("milp:scip", "mixed-integer linear programming with SCIP", "scip", "scip"),
    _milp(
        "milp:gurobi",
        "mixed-integer linear programming with Gurobi, where it is licensed",
        "gurobi",
        "gurobi",
    ),
    Method(
        "cpsat",
        "OR-tools' CP-SAT, with weights as integers",
        {Form.TABLES: _engine("milp", "Milp", backend="cpsat")},
        proves=True,
        needs="cpsat",
    ),
    _toulbar2("toulbar2", "branch and bound with soft local consistency", "default"),
    _toulbar2("toulbar2:vac", "the same with virtual arc consistency and RASPS", "vac"),
    _toulbar2("toulbar2:vns", "variable neighbourhood search by toulbar2", "vns"),
    Method(
        "toulbar2:priced",
        "toulbar2 without constraints, which are priced in the objective",
        {Form.TABLES: _engine("toulbar2.priced", "PricedToulbar2")},
        needs="toulbar2",
    ),
)
METHODS: Mapping[str, Method] = {row.name: row for row in _ROWS}


def method_named(name: str) -> Method:
    """The registry's row of that name; an unknown name is refused with the list of all."""
    if name not in METHODS:
        raise MethodError(f"a method is one of {', '.join(METHODS)}; found {name!r}")
    return METHODS[name]
