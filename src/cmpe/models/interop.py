"""Networks of pgmpy and pyAgrum as named log-tables, and back (extra `interop`).

Their tables hold potentials, ours hold logarithms: a potential of 0 is an entry of -inf.
`LogLinearModel.from_pgmpy`, `to_pgmpy` and `from_pyagrum` are the way in.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from cmpe.arrays import Floats
from cmpe.domain import Domain
from cmpe.errors import MissingExtra, ModelError

States = list[Hashable]
ScopedTable = tuple[tuple[int, ...], Floats]  # axis k of the log-table belongs to scope[k]


class NamedTables(NamedTuple):
    """Log-tables over the variables of a domain."""

    domain: Domain
    tables: tuple[ScopedTable, ...]


def read_pgmpy(network: Any) -> NamedTables:
    """The tables of a pgmpy DiscreteMarkovNetwork or DiscreteBayesianNetwork."""
    with _importing("pgmpy"):
        import pgmpy  # noqa: F401 - a submodule may still be loaded when the package is not
        from pgmpy.models import DiscreteBayesianNetwork, DiscreteMarkovNetwork
    if isinstance(network, DiscreteMarkovNetwork):
        tables = list(network.get_factors())
    elif isinstance(network, DiscreteBayesianNetwork):
        tables = _cpds(network)
    else:
        raise _wrong_type("pgmpy DiscreteMarkovNetwork or DiscreteBayesianNetwork", network)
    _check_tables(tables, set(network.nodes()))
    listings = _listings(tables)
    orders = {node: _order(node, listings.get(node, [])) for node in network.nodes()}
    numbers = {node: number for number, node in enumerate(orders)}
    domain = Domain.of({str(node): list(map(str, states)) for node, states in orders.items()})
    if len(domain.names) != len(orders):
        raise ModelError("nodes must differ as texts: found two that are written alike")
    return NamedTables(domain, tuple(_from_pgmpy_table(table, numbers, orders) for table in tables))


def make_pgmpy(model: NamedTables) -> Any:
    """A pgmpy DiscreteMarkovNetwork whose product of factors is exp of the sum of the tables."""
    with _importing("pgmpy"):
        import pgmpy  # noqa: F401 - as above
        from pgmpy.models import DiscreteMarkovNetwork
    domain = model.domain
    names = [domain.name(v) for v in range(domain.variables)]
    network = DiscreteMarkovNetwork()
    network.add_nodes_from(names)
    for scope, log_table in _covering(model):
        nodes = [names[v] for v in scope]
        network.add_edges_from(combinations(nodes, 2))
        states = {names[v]: list(domain.states_of(v)) for v in scope} if domain.states else {}
        network.add_factors(_to_pgmpy_table(nodes, log_table, states))
    return network


def read_pyagrum(network: Any) -> NamedTables:
    """The tables of a pyAgrum MarkovRandomField or BayesNet."""
    with _importing("pyagrum"):
        from pyagrum import BayesNet, MarkovRandomField
    if isinstance(network, MarkovRandomField):
        tensors = [network.factor(scope) for scope in network.factors()]
    elif isinstance(network, BayesNet):
        tensors = [network.cpt(node) for node in sorted(network.nodes())]
    else:
        raise _wrong_type("pyAgrum MarkovRandomField or BayesNet", network)
    variables = [network.variable(node) for node in sorted(network.nodes())]
    numbers = {variable.name(): number for number, variable in enumerate(variables)}
    domain = Domain.of({variable.name(): list(variable.labels()) for variable in variables})
    return NamedTables(domain, tuple(_from_tensor(tensor, numbers) for tensor in tensors))


@contextmanager
def _importing(package: str) -> Iterator[None]:
    # pyAgrum's import warns, and crashes the interpreter where warnings are errors.
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except ImportError:
        raise MissingExtra.named(package, "interop") from None


def _wrong_type(expected: str, found: Any) -> ModelError:
    kind = type(found)
    return ModelError(f"expected a {expected}, found {kind.__module__}.{kind.__qualname__}")


def _cpds(network: Any) -> list[Any]:
    cpds = list(network.get_cpds())
    missing = set(network.nodes()) - {cpd.variable for cpd in cpds}
    if missing:
        raise ModelError(f"every node needs a CPD, found none for {min(map(str, missing))!r}")
    return cpds


def _check_tables(tables: Sequence[Any], nodes: set[Hashable]) -> None:
    from pgmpy.factors.discrete import DiscreteFactor

    for table in tables:
        if not isinstance(table, DiscreteFactor):
            raise _wrong_type("pgmpy DiscreteFactor or TabularCPD as every factor", table)
        for node in table.variables:
            if node not in nodes:
                raise ModelError(f"{_where(table)}: {str(node)!r} is no node of the network")


def _where(table: Any) -> str:
    return f"factor over ({', '.join(str(node) for node in table.variables)})"


def _listings(tables: Sequence[Any]) -> dict[Hashable, list[States]]:
    """Every list of states of each node, in the order of the tables."""
    found: dict[Hashable, list[States]] = {}
    for table in tables:
        # A table may name states of variables outside its scope, and leave out some inside.
        for node in {*table.variables, *table.state_names}:
            found.setdefault(node, []).append(_states(table, node))
        for node, size in zip(table.variables, table.values.shape, strict=True):
            if len(found[node][-1]) != size:
                raise ModelError(
                    f"{_where(table)}: {str(node)!r} needs {size} state names, "
                    f"found {len(found[node][-1])}"
                )
    return found


def _states(table: Any, node: Hashable) -> States:
    if node in table.state_names:
        return list(table.state_names[node])
    return list(range(table.values.shape[table.variables.index(node)]))


def _order(node: Hashable, listings: Sequence[States]) -> States:
    """One order for the node's states: that of the last list, as in pgmpy's `network.states`.

    A list 0, 1, ... beside lists of other names is pgmpy's default: it follows their order.
    """
    if not listings:
        raise ModelError(f"node {str(node)!r} is in no factor: its cardinality is unknown")
    sizes = sorted({len(states) for states in listings})
    if len(sizes) > 1:
        raise ModelError(
            f"node {str(node)!r} needs one cardinality, found {' and '.join(map(str, sizes))}"
        )
    named = [states for states in listings if set(states) != set(range(sizes[0]))]
    unnamed = len(named) < len(listings)
    if named and unnamed and any(states != named[0] for states in named):
        raise ModelError(
            f"node {str(node)!r}: some factors name its states in different orders and others "
            f"do not name them"
        )
    return named[-1] if named else listings[-1]


def _positions(table: Any, node: Hashable, order: States) -> list[int]:
    """Where the table holds each state of `order`."""
    states = _states(table, node)
    if set(states) == set(order):
        return [states.index(state) for state in order]
    if states == list(range(len(order))):
        return list(range(len(order)))
    raise ModelError(f"{_where(table)}: states of {str(node)!r} must be {order}, found {states}")


def _from_pgmpy_table(
    table: Any, numbers: dict[Hashable, int], orders: dict[Hashable, States]
) -> ScopedTable:
    from pgmpy.utils.compat_fns import to_numpy

    index = np.ix_(*(_positions(table, node, orders[node]) for node in table.variables))
    log_table = _logarithm(to_numpy(table.values), _where(table))[index]
    return tuple(numbers[node] for node in table.variables), log_table


def _from_tensor(tensor: Any, numbers: dict[str, int]) -> ScopedTable:
    names = tensor.names
    # pyAgrum's arrays have the axis of its first variable last. Not toarray(): of an aggregator
    # or a noisy-or, which hold no table, it gives whatever was in memory (pyAgrum 3.3.1).
    potentials = np.asarray(tensor[{}]).transpose()
    where = f"factor over ({', '.join(names)})"
    return tuple(numbers[name] for name in names), _logarithm(potentials, where)


def _logarithm(potentials: Any, where: str) -> Floats:
    values = np.asarray(potentials, dtype=np.float64)
    wrong = values[~(np.isfinite(values) & (values >= 0))]
    if wrong.size:
        raise ModelError(f"{where}: potentials must be finite and at least 0, found {wrong[0]}")
    with np.errstate(divide="ignore"):
        logarithms: Floats = np.log(values)
    return logarithms


def _covering(model: NamedTables) -> list[ScopedTable]:
    """The model's tables, none without variables, and constant ones for variables in none."""
    count = model.domain.variables
    if not count and model.tables:
        raise ModelError("pgmpy cannot hold a constant without variables, found no variables")
    tables = [
        (scope, table) if scope else _constant(model, 0, float(table))
        for scope, table in model.tables
    ]
    covered = {v for scope, _ in tables for v in scope}
    free = (v for v in range(count) if v not in covered)
    return tables + [_constant(model, v, 0.0) for v in free]


def _constant(model: NamedTables, variable: int, log_value: float) -> ScopedTable:
    return (variable,), np.full(model.domain.cardinalities[variable], log_value)


def _to_pgmpy_table(nodes: Sequence[str], log_table: Floats, states: dict[str, list[str]]) -> Any:
    from pgmpy.factors.discrete import DiscreteFactor
    from pgmpy.utils.compat_fns import to_numpy

    with np.errstate(over="ignore", under="ignore"):
        factor = DiscreteFactor(nodes, log_table.shape, np.exp(log_table), states)
    # Read back, because pgmpy may be set to a narrower type; a subnormal has lost digits.
    held = to_numpy(factor.values)
    wrong = np.isfinite(log_table) & ~(np.isfinite(held) & (held >= np.finfo(held.dtype).tiny))
    if wrong.any():
        raise ModelError(
            f"{_where(factor)}: exp of every finite log-table entry must be a normal "
            f"{held.dtype}, found entry {log_table[wrong][0]}"
        )
    return factor
