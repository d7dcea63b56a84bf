"""The values of functions at many points that are made of nodes, and which points stay.

No table has variables of two components. So a function is a constant and a sum of one part per
component, and a point is made of one node per component. There are few of these nodes, however many
points there are. Each is read once, and its part of every function added up from the tables; nodes
above add two numbers. So values do not depend on the sums that made the points, and a point costs a
few additions. Their rounding errors are kept beside the sums, so that a value does not depend on
the order in which components were joined.
"""

from __future__ import annotations

import numpy as np

from cmpe.core.compiler.functions import njit
from cmpe.core.fronts.columns import falling
from cmpe.core.fronts.reading import (
    ROW,
    STRIDE,
    Lookup,
    TableSlots,
    add_up,
    given_tables,
    padded,
    read_runs,
    written_out,
)
from cmpe.core.states import LEFT, RIGHT

LANES = 64  # nodes that are read together


@njit(cache=True, nogil=True)
def _components(nodes, of_bucket):
    """The component of each node; -1: its parts are of several."""
    out = np.empty(len(nodes), dtype=np.int64)
    for i in range(len(nodes)):
        if nodes[i, RIGHT] < 0:
            out[i] = of_bucket[-1 - nodes[i, RIGHT]]
        else:
            left, right = out[nodes[i, LEFT]], out[nodes[i, RIGHT]]
            out[i] = left if left == right else -1
    return out


@njit(cache=True, nogil=True)
def _by_component(number, count):
    """What has a number from 0 on, in its order, and where each number begins (count + 1,)."""
    starts = np.zeros(count + 1, dtype=np.int64)
    for i in range(len(number)):
        if number[i] >= 0:
            starts[number[i] + 1] += 1
    for c in range(count):
        starts[c + 1] += starts[c]
    order, place = np.empty(starts[count], dtype=np.int64), starts.copy()
    for i in range(len(number)):
        if number[i] >= 0:
            order[place[number[i]]] = i
            place[number[i]] += 1
    return order, starts


@njit(cache=True, nogil=True)
def _topmost(nodes, roots, component):
    """`component` of the nodes that are all of theirs that a point has; -1 of the others."""
    out = np.full(len(nodes), -1, dtype=np.int64)
    for root in roots:
        if root >= 0:
            out[root] = component[root]
    for i in range(len(nodes)):
        if component[i] < 0:
            for part in nodes[i]:
                out[part] = component[part]
    return out


@njit(cache=True, nogil=True)
def _arranged(given, bounds, of_bucket, components):
    """Tables by function and component, those of none last: `given`, and where each begins."""
    first, starts, slots = given.first, given.starts, given.slots
    functions = len(bounds) - 1
    number = np.empty(len(first), dtype=np.int64)
    for j in range(functions):
        for f in range(bounds[j], bounds[j + 1]):
            is_free = starts[f + 1] > starts[f]
            component = of_bucket[slots[starts[f], ROW]] if is_free else components
            number[f] = j * (components + 1) + component
    order, begins = _by_component(number, functions * (components + 1))
    new_first, new_starts = np.empty_like(first), np.zeros_like(starts)
    new_slots = np.empty_like(slots)
    for f in range(len(order)):
        low, count = starts[order[f]], starts[order[f] + 1] - starts[order[f]]
        new_first[f], new_starts[f + 1] = first[order[f]], new_starts[f] + count
        for s in range(count):
            new_slots[new_starts[f] + s, ROW] = slots[low + s, ROW]
            new_slots[new_starts[f] + s, STRIDE] = slots[low + s, STRIDE]
    return TableSlots(new_first, new_starts, new_slots), begins


@njit(cache=True, nogil=True)
def _add_parts(nodes, component, top, values, given, begins, parts):
    """parts (N, 2 F): each function's part of a component, at every node that is on top of it."""
    functions = parts.shape[1] // 2
    components = (len(begins) - 1) // functions - 1
    runs = written_out(nodes, component)
    buckets = 1
    for i in range(len(nodes)):
        buckets = max(buckets, -nodes[i, RIGHT])
    stack = np.zeros(2 * buckets + 2, dtype=np.int64)
    block = np.zeros((buckets, LANES), dtype=np.uint16)
    lookup = Lookup(block, np.zeros(LANES, dtype=np.uint32), np.zeros(LANES))
    order, places = _by_component(top, components)
    for c in range(components):
        for low in range(places[c], places[c + 1], LANES):
            lanes = min(LANES, places[c + 1] - low)
            for lane in range(lanes):
                read_runs(nodes, runs, order[low + lane], stack, block, lane)
            for j in range(functions):
                f = j * (components + 1) + c
                add_up(values, given, begins[f], begins[f + 1], lookup, padded(lanes))
                for lane in range(lanes):
                    parts[order[low + lane], 2 * j] = lookup.total[lane]


@njit(inner=True, nogil=True, counted=False)
def _add_both(parts, left, right, whole):
    """Sums, and beside each what rounding took from it (Knuth's two-sum)."""
    for j in range(0, parts.shape[1], 2):
        a, b = parts[left, j], parts[right, j]
        total = a + b
        second = total - a
        lost = (a - (total - second)) + (b - second)
        parts[whole, j] = total
        parts[whole, j + 1] = parts[left, j + 1] + parts[right, j + 1] + lost


@njit(cache=True, nogil=True)
def point_values(nodes, roots, variables, of_bucket, begun, tables, out):
    """out (P, F): the functions at the points that `roots` stand for.

    `variables` and `of_bucket` have the variable and the component of each bucket; what has none
    is as in `begun` (n,). `tables` are `points.EvaluatedTables`.
    """
    components, functions = 0, out.shape[1]
    for k in range(len(of_bucket)):
        components = max(components, of_bucket[k] + 1)
    given, begins = _arranged(
        given_tables(begun, variables, tables), tables.begins, of_bucket, components
    )
    constants = np.zeros(functions)
    for j in range(functions):
        last = j * (components + 1) + components
        for f in range(begins[last], begins[last + 1]):
            constants[j] += tables.values[given.first[f]]
    component = _components(nodes, of_bucket)
    top = _topmost(nodes, roots, component)
    parts = np.zeros((len(nodes), 2 * functions))
    _add_parts(nodes, component, top, tables.values, given, begins, parts)
    for i in range(len(nodes)):
        if component[i] < 0:
            _add_both(parts, nodes[i, LEFT], nodes[i, RIGHT], i)
    for i in range(len(roots)):
        for j in range(functions):
            out[i, j] = constants[j]
            if roots[i] >= 0:
                whole, lost = parts[roots[i], 2 * j], parts[roots[i], 2 * j + 1]
                out[i, j] += whole + lost if whole > -np.inf else whole


@njit(cache=True, nogil=True)
def one_of_equal(h, t, close_h, close_t):
    """The numbers of the points that stay, by rising t and h.

    Values no farther apart than close_h and close_t, times themselves or 1, count as equal; a t of
    -inf is equal to itself only.
    """
    chosen, count, highest = np.empty(len(h), dtype=np.int64), 0, -np.inf
    for i in falling(-t):
        if count > 0 and h[i] <= highest:
            continue
        highest = h[i]
        if count > 0:
            last = chosen[count - 1]
            if h[i] - h[last] <= close_h * max(1.0, abs(h[i])):
                continue
            if t[i] <= t[last] + (close_t * max(1.0, abs(t[i])) if t[i] > -np.inf else 0.0):
                count -= 1
        chosen[count] = i
        count += 1
    return chosen[:count]
