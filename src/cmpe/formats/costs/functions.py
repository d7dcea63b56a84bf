"""Functions that a cost function network gives by a keyword and parameters, as rules.

`.wcsp` and `.cfn` files hold the same parameters in the same order, the one without and the other
with names: `Parameters` is what takes them one by one. A cost is paid in units for each violation;
where it reaches the bound of the file, the violation is forbidden.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import combinations
from typing import Protocol

import numpy as np

from cmpe.arrays import Floats, Values
from cmpe.errors import TooLarge
from cmpe.formats.costs.rules import Choice, Counted, FileRule, Tabled
from cmpe.models.logic import Automaton, occurrences, outside

MOST_WEIGHT = 1e15  # Whole weights stay below it in all.
MOST_COUNTED = 1 << 24  # weights of the values that a function counts
MOST_PAIRS = 1 << 17  # variables of all-different
LARGE_CLIQUE = 64  # variables of a clique that becomes a linear constraint


class Parameters(Protocol):
    """The parameters of one function, taken in the order of their format."""

    @property
    def where(self) -> str:
        """The file and the function, for errors."""
        ...

    @property
    def scope(self) -> tuple[int, ...]:
        """The variables of the function."""
        ...

    @property
    def cardinalities(self) -> tuple[int, ...]:
        """How many values each variable of the scope has."""
        ...

    def word(self, name: str, choices: Sequence[str]) -> str:
        """One of some words."""
        ...

    def whole(self, name: str) -> int:
        """A whole number."""
        ...

    def cost(self, name: str, *, signed: bool = False) -> float:
        """A cost in units, to be minimised, of at least 0 unless it may have a sign."""
        ...

    def rows(self, name: str, letters: str) -> list[Row]:
        """A counted list of rows: v values, n whole numbers, s places in the scope, c costs."""
        ...

    def each(self, name: str) -> list[int]:
        """One whole number for each variable of the scope."""
        ...

    def lists(self, name: str, letters: str, *, is_counted: bool = False) -> list[list[Row]]:
        """A counted list of rows for each variable of the scope, or a counted number of lists."""
        ...

    def groups(self) -> tuple[list[int], list[int]]:
        """Two lists of places in the scope."""
        ...

    def arithmetic(self) -> None:
        """Make ready for parameters without names, of a function that counts whole costs."""
        ...

    def refuse(self, expected: str, found: str) -> Exception:
        """An error at this function."""
        ...


Row = tuple[float, ...]
Build = Callable[[Parameters], list[FileRule]]
METRICS = ("hard", "lin", "quad", "var")
COMPARATORS = ("==", "!=", "<=", "<", ">=", ">")


def _penalty(metric: str, base: float) -> Callable[[Floats], Floats]:
    if metric == "hard":
        return lambda gap: np.full(len(gap), base)
    if metric == "quad":
        return lambda gap: base * gap**2
    return lambda gap: base * gap


def _values(p: Parameters) -> range:
    return range(max(p.cardinalities, default=0))


def _need_room(p: Parameters, values: int) -> None:
    """Refuse to count so many values one by one."""
    if values * sum(p.cardinalities) > MOST_COUNTED:
        raise TooLarge(f"{p.where}: it counts more values of its variables than fit into memory")


def _is_in(p: Parameters, values: Iterable[float], sign: int = 1) -> list[Floats]:
    """`sign` for each state of each variable that is one of some values, 0 for the others."""
    wanted = list(values)
    return [sign * np.isin(np.arange(k), wanted).astype(float) for k in p.cardinalities]


def _interval(comparator: str, limit: float) -> tuple[float, float]:
    return {
        "==": (limit, limit),
        "<=": (-math.inf, limit),
        "<": (-math.inf, limit - 1),
        ">=": (limit, math.inf),
        ">": (limit + 1, math.inf),
    }[comparator]


def _compared(
    p: Parameters,
    weights: Sequence[Floats],
    how: tuple[str, float],
    penalty: Callable[[Floats], Floats],
) -> list[FileRule]:
    """A sum of weights compared with a number."""
    comparator, limit = how
    if comparator != "!=":
        return [Counted(p.where, p.scope, weights, *_interval(comparator, limit), penalty)]

    def of_equal(rows: Values) -> Floats:
        total = sum(w[column] for w, column in zip(weights, rows.T, strict=True))
        return np.where(total == limit, penalty(np.ones(len(rows))), 0.0)

    return [Tabled(p.where, p.scope, of_equal)]


def _occurring(
    p: Parameters,
    bounds: Iterable[Row],
    penalty: Callable[[Floats], Floats],
) -> list[FileRule]:
    """How often values occur: (value, least, most), each with its penalty."""
    rows = list(bounds)
    if len({value for value, *_ in rows}) < len(rows):
        raise p.refuse("distinct values", "one of them twice")
    _need_room(p, len(rows))
    return [
        Counted(p.where, p.scope, _is_in(p, [value]), low, high, penalty)
        for value, low, high in rows
    ]


def _different_pairs(p: Parameters, base: float, excepted: Sequence[float] = ()) -> list[FileRule]:
    def of_equal(rows: Values) -> Floats:
        is_equal = (rows[:, 0] == rows[:, 1]) & ~np.isin(rows[:, 0], excepted)
        return np.where(is_equal, base, 0.0)

    if len(p.scope) ** 2 > 2 * MOST_PAIRS:
        raise TooLarge(f"{p.where}: expected at most {MOST_PAIRS} pairs of variables, found more")
    return [Tabled(p.where, pair, of_equal) for pair in combinations(p.scope, 2)]


def _all_different(p: Parameters, metric: str, base: float) -> list[FileRule]:
    """One violation for each variable beyond the first that has a value."""
    soft = _occurring(p, [(v, 0, 1) for v in _values(p)], _penalty(metric, base))
    return [Choice(base, _different_pairs(p, math.inf), soft)]


def _salldiff(p: Parameters) -> list[FileRule]:
    metric, base = p.word("metric", ("var", "dec", "decbi")), p.cost("cost")
    return _all_different(p, "lin", base) if metric == "var" else _different_pairs(p, base)


def _walldiff(p: Parameters) -> list[FileRule]:
    metric = p.word("metric", METRICS)
    return _all_different(p, metric, p.cost("cost"))


def _hard_alldiff(p: Parameters) -> list[FileRule]:
    p.word("metric", METRICS[:1])
    p.cost("cost")
    return _different_pairs(p, math.inf)


def _alldiff(p: Parameters) -> list[FileRule]:
    excepted = [row[0] for row in p.rows("exceptedvalues", "v")]
    _no_relaxation(p)
    return _different_pairs(p, math.inf, excepted)


def _no_relaxation(p: Parameters) -> None:
    if found := p.rows("deltacosts", "vc"):
        raise p.refuse("no deltacosts", str(len(found)))


def _wamong(p: Parameters) -> list[FileRule]:
    metric, base = p.word("metric", METRICS), p.cost("cost")
    values = [row[0] for row in p.rows("values", "v")]
    low, high = p.whole("min"), p.whole("max")
    weights = _is_in(p, values)
    return [Counted(p.where, p.scope, weights, low, high, _penalty(metric, base))]


def _samong(p: Parameters) -> list[FileRule]:
    p.word("metric", ("var",))
    base, low, high = p.cost("cost"), p.whole("min"), p.whole("max")
    weights = _is_in(p, [row[0] for row in p.rows("values", "v")])
    return [Counted(p.where, p.scope, weights, low, high, _penalty("lin", base))]


def _wvaramong(p: Parameters) -> list[FileRule]:
    p.word("metric", ("hard",))
    base = p.cost("cost")
    weights = _is_in(p, [row[0] for row in p.rows("values", "v")])
    weights[-1] = -np.arange(float(p.cardinalities[-1]))
    return _compared(p, weights, ("==", 0), _penalty("hard", base))


def _wsum(p: Parameters) -> list[FileRule]:
    metric, base = p.word("metric", METRICS), p.cost("cost")
    comparator, limit = p.word("comparator", COMPARATORS), p.whole("to")
    weights = [np.arange(float(k)) for k in p.cardinalities]
    return _compared(p, weights, (comparator, limit), _penalty(metric, base))


def _wvarsum(p: Parameters) -> list[FileRule]:
    metric, base = p.word("metric", METRICS), p.cost("cost")
    weights = [np.arange(float(k)) for k in p.cardinalities]
    weights[-1] = -weights[-1]
    how = (p.word("comparator", COMPARATORS), 0)
    return _compared(p, weights, how, _penalty(metric, base))


def _woverlap(p: Parameters) -> list[FileRule]:
    metric, base = p.word("metric", METRICS), p.cost("cost")
    comparator, limit = p.word("comparator", COMPARATORS), p.whole("to")
    half, penalty = _half(p), _penalty(metric, base)

    def of_overlap(rows: Values) -> Floats:
        one, two = rows[:, :half], rows[:, half:]
        total = ((one == two) & (one != 0)).sum(axis=1).astype(float)
        if comparator == "!=":
            return np.where(total == limit, base, 0.0)
        gap = outside(total, *_interval(comparator, limit))
        return np.where(gap > 0, penalty(gap), 0.0)

    return [Tabled(p.where, p.scope, of_overlap)]


def _half(p: Parameters) -> int:
    if len(p.scope) % 2:
        raise p.refuse("an even number of variables", str(len(p.scope)))
    return len(p.scope) // 2


def _gcc(p: Parameters) -> list[FileRule]:
    bounds = p.rows("bounds", "vnn")
    _no_relaxation(p)
    return _occurring(p, bounds, _penalty("hard", math.inf))


def _hard_gcc(p: Parameters) -> list[FileRule]:
    p.word("metric", METRICS[:1])
    p.cost("cost")
    return _occurring(p, p.rows("bounds", "vnn"), _penalty("hard", math.inf))


def _wgcc(p: Parameters) -> list[FileRule]:
    metric, base = p.word("metric", METRICS), p.cost("cost")
    return _occurring(p, p.rows("bounds", "vnn"), _penalty(metric, base))


def _sgcc(p: Parameters) -> list[FileRule]:
    metric, base = p.word("metric", ("var", "dec", "wdec")), p.cost("cost")
    bounds = p.rows("bounds", "vnncc" if metric == "wdec" else "vnn")
    if metric == "wdec":
        rules: list[FileRule] = []
        for value, low, high, shortage, excess in bounds:
            rules += _occurring(p, [(value, low, math.inf)], _penalty("lin", shortage))
            rules += _occurring(p, [(value, -math.inf, high)], _penalty("lin", excess))
        return rules
    each = _occurring(p, bounds, _penalty("lin", base))
    if metric == "dec":
        return each

    others = len(p.scope) if set(_values(p)) - {row[0] for row in bounds} else 0
    least, most = (sum(row[k] for row in bounds) for k in (1, 2))
    is_hopeless = least > len(p.scope) or most + others < len(p.scope)

    def of_changes(rows: Values) -> Floats:
        if is_hopeless:
            return np.full(len(rows), math.inf)
        missing, beyond = np.zeros(len(rows)), np.zeros(len(rows))
        for value, low, high in bounds:
            total = occurrences(rows, [int(value)])
            missing += np.maximum(0.0, low - total)
            beyond += np.maximum(0.0, total - high)
        return base * np.maximum(missing, beyond)

    changes = Tabled(p.where, p.scope, of_changes, len(bounds) * len(p.scope))
    return [Choice(base, each, [changes])]


def _sgccdp(p: Parameters) -> list[FileRule]:
    p.word("metric", ("var",))
    base = p.cost("cost")
    return _occurring(p, p.rows("bounds", "vnn"), _penalty("lin", base))


def _balanced(p: Parameters, groups: tuple[Sequence[int], Sequence[int]]) -> list[list[Floats]]:
    """For each value the weights that count it in one group minus the other."""
    _need_room(p, len(_values(p)))
    signs = np.zeros(len(p.scope))
    np.add.at(signs, list(groups[0]), 1)
    np.add.at(signs, list(groups[1]), -1)
    return [
        [sign * counted for sign, counted in zip(signs, _is_in(p, [value]), strict=True)]
        for value in _values(p)
    ]


def _wsame(p: Parameters) -> list[FileRule]:
    metric, base = p.word("metric", METRICS), p.cost("cost")
    return _same(p, _penalty(metric, base))


def _same(p: Parameters, penalty: Callable[[Floats], Floats]) -> list[FileRule]:
    half = _half(p)
    groups = (range(half), range(half, 2 * half))
    return [Counted(p.where, p.scope, weights, 0, 0, penalty) for weights in _balanced(p, groups)]


def _wsamegcc(p: Parameters) -> list[FileRule]:
    metric, base = p.word("metric", METRICS[:3]), p.cost("cost")
    half, penalty = _half(p), _penalty(metric, base)
    rules = _same(p, penalty)
    bounds = p.rows("bounds", "vnn")
    _need_room(p, len(bounds))
    for value, low, high in bounds:
        counted = _is_in(p, [value])
        for part in (slice(half), slice(half, None)):
            rules.append(Counted(p.where, p.scope[part], counted[part], low, high, penalty))
    return rules


def _ssame(p: Parameters) -> list[FileRule]:
    """The variables of the first group that must change: those beyond the second's, per value."""
    base = p.cost("cost")
    one, two = p.groups()
    if len(one) != len(two):
        raise p.refuse("two lists of one length", f"{len(one)} and {len(two)} variables")
    penalty = _penalty("lin", base)
    return [
        Counted(p.where, p.scope, weights, -math.inf, 0, penalty)
        for weights in _balanced(p, (one, two))
    ]


def _wregular(p: Parameters) -> list[FileRule]:
    states = p.whole("nb_states")
    starts = dict(_states(p, states, p.rows("starts", "nC")))
    ends = dict(_states(p, states, p.rows("ends", "nC")))
    steps = {
        _step(p, states, (int(start), int(value), int(end))): cost
        for start, value, end, cost in p.rows("transitions", "nvnC")
    }
    automaton = Automaton(states, starts, ends, steps)
    of_ends = sum(min(costs.values(), default=0.0) for costs in (starts, ends))
    least = of_ends + len(p.scope) * min(steps.values(), default=0.0)
    return [Tabled(p.where, p.scope, automaton.cost, _steps(p, automaton), least)]


def _steps(p: Parameters, automaton: Automaton) -> int:
    """About how many passes it takes to read words; states are kept for each word."""
    return len(p.scope) * (len(automaton.transitions) + automaton.states)


def _states(p: Parameters, states: int, rows: Iterable[Row]) -> Iterator[tuple[int, float]]:
    for state, *cost in rows:
        if not 0 <= state < states:
            raise p.refuse(f"states from 0 to {states - 1}", f"{state:g}")
        yield int(state), cost[0] if cost else 0.0


def _step(p: Parameters, states: int, step: tuple[int, int, int]) -> tuple[int, int, int]:
    """A transition as toulbar2 keeps it: its place in a table of states x values x states.

    One file of its validation set has transitions to a state beyond the last. They reach into the
    next value there, and the published optimum depends on that.
    """
    start, value, end = step
    if 0 <= start < states and 0 <= end < states:
        return step
    values = set(p.cardinalities)
    most = max(values)
    place = (start * most + value) * states + end
    if len(values) > 1 or not (start >= 0 <= end and value < most and place < states**2 * most):
        raise p.refuse(f"states from 0 to {states - 1}", f"{start} to {end}")
    return place // (most * states), place // states % most, place % states


def _sregular(p: Parameters) -> list[FileRule]:
    p.word("metric", ("var",))
    base, states = p.cost("cost"), p.whole("nb_states")
    starts = dict(_states(p, states, p.rows("starts", "n")))
    ends = dict(_states(p, states, p.rows("ends", "n")))
    steps = {}
    for start, value, end in p.rows("transitions", "nvn"):
        [*_states(p, states, [(start,), (end,)])]
        steps[int(start), int(value), int(end)] = 0.0
    automaton = Automaton(states, starts, ends, steps)

    def of_changes(rows: Values) -> Floats:
        changes = automaton.changes(rows)
        is_finite = np.isfinite(changes)
        return np.where(is_finite, base * np.where(is_finite, changes, 0.0), math.inf)

    return [Tabled(p.where, p.scope, of_changes, _steps(p, automaton))]


def _max(p: Parameters) -> list[FileRule]:
    default, listed = p.cost("defaultcost"), p.rows("tuples", "svc")
    tables = [np.full(k, default) for k in p.cardinalities]
    for place, value, cost in listed:
        tables[int(place)][_state(p, int(place), value)] = cost

    def of_largest(rows: Values) -> Floats:
        columns = [table[column] for table, column in zip(tables, rows.T, strict=True)]
        return np.asarray(np.max(columns, axis=0))

    return [Tabled(p.where, p.scope, of_largest)]


def _state(p: Parameters, place: int, value: float) -> int:
    if not 0 <= value < p.cardinalities[place]:
        raise p.refuse(f"a value below {p.cardinalities[place]}", f"{value:g}")
    return int(value)


def _diverse(p: Parameters) -> list[FileRule]:
    distance = p.whole("distance")
    kept = [
        (np.arange(k) != _state(p, i, value)).astype(float)
        for i, (k, value) in enumerate(zip(p.cardinalities, p.each("values"), strict=True))
    ]
    return [Counted(p.where, p.scope, kept, distance, math.inf, _penalty("hard", math.inf))]


def _clique(p: Parameters) -> list[FileRule]:
    if (most := p.whole("rhs")) != 1:
        raise p.refuse("a clique of at most 1", str(most))
    chosen = [{int(row[0]) for row in rows} for rows in p.lists("values", "v")]
    if len(chosen) > LARGE_CLIQUE:
        kept = zip(p.cardinalities, chosen, strict=True)
        weights = [np.isin(np.arange(k), list(values)).astype(float) for k, values in kept]
        penalty = _penalty("hard", math.inf)
        return [Counted(p.where, p.scope, weights, -math.inf, 1, penalty, is_linear=True)]
    rules: list[FileRule] = []
    for (i, one), (j, two) in combinations(enumerate(chosen), 2):
        of_both = partial(_both, list(one), list(two))
        rules.append(Tabled(p.where, (p.scope[i], p.scope[j]), of_both))
    return rules


def _both(one: Sequence[int], two: Sequence[int], rows: Values) -> Floats:
    is_both = np.isin(rows[:, 0], one) & np.isin(rows[:, 1], two)
    return np.where(is_both, math.inf, 0.0)


def _at_least(p: Parameters, capacity: int, weights: Sequence[Floats]) -> list[FileRule]:
    """The linear constraint of the knapsacks: the sum of weights reaches the capacity."""
    largest = abs(capacity) + sum(float(np.abs(w).max()) for w in weights)
    if largest > MOST_WEIGHT:
        raise p.refuse(f"weights up to {MOST_WEIGHT:g} in all", f"{largest:g}")
    penalty = _penalty("hard", math.inf)
    return [Counted(p.where, p.scope, weights, capacity, math.inf, penalty, is_linear=True)]


def _knapsack(p: Parameters) -> list[FileRule]:
    capacity = p.whole("capacity")
    return _at_least(p, capacity, _of_ones(p, p.each("weights")))


def _of_ones(p: Parameters, weights: Sequence[int]) -> list[Floats]:
    """Weights of value 1 of each variable."""
    return [float(w) * (np.arange(k) == 1) for k, w in zip(p.cardinalities, weights, strict=True)]


def _knapsackc(p: Parameters) -> list[FileRule]:
    """A knapsack, and lists of (variable, value) of which at most one holds."""
    rules = _knapsack(p)
    for listed in p.lists("amo", "sv", is_counted=True):
        weights = [np.zeros(k) for k in p.cardinalities]
        for place, value in listed:
            weights[int(place)][_state(p, int(place), value)] += 1
        penalty = _penalty("hard", math.inf)
        rules.append(Counted(p.where, p.scope, weights, -math.inf, 1, penalty))
    return rules


def _knapsackp(p: Parameters) -> list[FileRule]:
    capacity = p.whole("capacity")
    weights = [np.zeros(k) for k in p.cardinalities]
    for place, rows in enumerate(p.lists("weightedvalues", "vn")):
        for value, weight in rows:
            weights[place][_state(p, place, value)] += weight
    return _at_least(p, capacity, weights)


def _knapsackv(p: Parameters) -> list[FileRule]:
    capacity = p.whole("capacity")
    weights = [np.zeros(k) for k in p.cardinalities]
    for place, value, weight in p.rows("weightedvalues", "svn"):
        weights[int(place)][_state(p, int(place), value)] += weight
    return _at_least(p, capacity, weights)


def _arithmetic(keyword: str, p: Parameters) -> list[FileRule]:
    """x >= y + c and its kin: what is missing is the cost, up to `delta`; more is forbidden."""
    p.arithmetic()
    constant, delta = p.whole("the constant"), p.whole("delta")

    def of_gap(rows: Values) -> Floats:
        gap = rows[:, 1].astype(float) + constant - rows[:, 0]
        if keyword == "=":
            gap = np.abs(gap)
        elif keyword in (">", "<="):
            gap = gap + 1 if keyword == ">" else -gap
        elif keyword == "<":
            gap = 1 - gap
        return np.where(gap <= delta, np.maximum(gap, 0.0), math.inf)

    return [Tabled(p.where, _two(p), of_gap)]


def _two(p: Parameters) -> tuple[int, ...]:
    if len(p.scope) != 2:
        raise p.refuse("two variables", str(len(p.scope)))
    return p.scope


def _disj(p: Parameters) -> list[FileRule]:
    p.arithmetic()
    one, two, cost = p.whole("cstx"), p.whole("csty"), p.cost("penalty")

    def of_overlap(rows: Values) -> Floats:
        x, y = rows.T.astype(float)
        return np.where((x >= y + two) | (y >= x + one), 0.0, cost)

    return [Tabled(p.where, _two(p), of_overlap)]


def _sdisj(p: Parameters) -> list[FileRule]:
    p.arithmetic()
    one, two, most_x, most_y = (p.whole(n) for n in ("cstx", "csty", "xinfty", "yinfty"))
    cost_x, cost_y = p.cost("costx"), p.cost("costy")

    def of_overlap(rows: Values) -> Floats:
        x, y = rows.T.astype(float)
        is_apart = (x == most_x) | (y == most_y) | (x >= y + two) | (y >= x + one)
        holds = (x <= most_x) & (y <= most_y) & is_apart
        return np.where(holds, cost_x * (x == most_x) + cost_y * (y == most_y), math.inf)

    return [Tabled(p.where, _two(p), of_overlap)]


KINDS: dict[str, Build] = {
    "salldiff": _salldiff,
    "salldiffdp": _salldiff,
    "salldiffkp": _hard_alldiff,
    "walldiff": _walldiff,
    "walldifferent": _walldiff,
    "alldiff": _alldiff,
    "alldifferent": _alldiff,
    "samong": _samong,
    "samongdp": _samong,
    "wamong": _wamong,
    "wvaramong": _wvaramong,
    "wsum": _wsum,
    "wvarsum": _wvarsum,
    "woverlap": _woverlap,
    "sgcc": _sgcc,
    "sgccdp": _sgccdp,
    "sgcckp": _hard_gcc,
    "wgcc": _wgcc,
    "gcc": _gcc,
    "ssame": _ssame,
    "wsame": _wsame,
    "wsamegcc": _wsamegcc,
    "sregular": _sregular,
    "sregulardp": _sregular,
    "wregular": _wregular,
    "max": _max,
    "smaxdp": _max,
    "wdiverse": _diverse,
    "whdiverse": _diverse,
    "wtdiverse": _diverse,
    "clique": _clique,
    "knapsack": _knapsack,
    "knapsackc": _knapsackc,
    "knapsackp": _knapsackp,
    "knapsackv": _knapsackv,
    "disj": _disj,
    "sdisj": _sdisj,
    **{keyword: partial(_arithmetic, keyword) for keyword in (">=", ">", "<=", "<", "=")},
}
