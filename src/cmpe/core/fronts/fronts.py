"""The complete front of one row, or as much of it as the space for states allows.

Let F be the points so far, by falling h, and a *corner* a pair (h of one, t of the one before). A
point that F lacks lies above some corner: its h is higher and its t lower. At a reference

    loss < W - w h_corner + mu t_corner + sum lambda_j q_j,

so if every assignment whose loss is within that budget at the corner's best reference has been
collected, F is complete. The first budgets are guesses. The points that they give determine how
large the budgets must be, so that the next round completes F, if the first did not.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cmpe.arrays import Floats
from cmpe.core.compiler.functions import njit
from cmpe.core.dual import rounding, satisfy
from cmpe.core.elimination import eliminate_max
from cmpe.core.fronts.columns import falling
from cmpe.core.fronts.guesses import guess_budgets, learn_budgets
from cmpe.core.fronts.lists import H, T
from cmpe.core.fronts.references import LANES, descend, find_hull, load_weighted, slopes_of
from cmpe.core.fronts.settings import FRONTS
from cmpe.core.fronts.trees import References, row_list
from cmpe.core.proof import find_losses
from cmpe.core.states import LEFT, RIGHT, SUM_COUNT, SUM_LIMIT

COMPLETE, OVERFLOW, IMPOSSIBLE = range(3)
ROOT = 2  # column of a point, after h and t_1: its node


class FrontResult(NamedTuple):
    """The front of one row. What is missing has a loss above `covered` at every reference."""

    kind: int
    points: Floats  # (P, 3) h, t_1 and node, by falling h
    nodes: Any  # (N, 2)
    weight: Floats  # (K,) of the references
    price: Floats  # (K, m)
    totals: Floats  # (K,)
    covered: Floats  # (K,)


@njit(cache=True, nogil=True, counted=False)
def _cost(weight, price, totals, k, h, t):
    """W_k - weight_k h + price_k t; inf where one of them is not finite."""
    if (weight[k] > 0.0 and h == -np.inf) or (price[k, 0] > 0.0 and t == np.inf):
        return np.inf
    value = totals[k]
    if weight[k] > 0.0:
        value -= weight[k] * h
    if price[k, 0] > 0.0:
        value += price[k, 0] * t
    return value


@njit(inner=True, nogil=True, counted=False)
def uncovered(known, window, references, covered, settled, out):
    """The losses that references must cover so that `known` (h, t), by falling h, is complete.

    A corner whose cost is covered at some reference is settled; the others go to the reference
    at which they cost least. -inf: nothing. Returns how many are not settled; settled[i] is about
    the corner below and before point i.
    """
    weight, price, totals = references.weight, references.price, references.totals
    out[:] = -np.inf
    settled[:] = True
    count, left, best = len(known), 0, 0
    for i in range(count + 1):
        corner_t = window.high if i == 0 else min(window.high, known[i - 1, T])
        corner_h = known[i, H] if i < count else -np.inf
        if i == count and count > 0 and corner_t <= window.low:
            continue  # the front ends at the window
        if _cost(weight, price, totals, best, corner_h, corner_t) <= covered[best]:
            continue  # as the corner before
        if price.shape[1] > 1 or corner_t == np.inf or corner_h == -np.inf:
            best = _cheapest(weight, price, totals, covered, corner_h, corner_t)
        else:  # W is convex in mu: from where the corner before costs least, downhill
            best = _downhill(weight, price, totals, best, corner_h, corner_t)
        least = _cost(weight, price, totals, best, corner_h, corner_t)
        if least > covered[best] or least == np.inf:
            left += 1
            settled[i] = False
            if least < np.inf:
                out[best] = max(out[best], least)
    return left


@njit(cache=True, nogil=True, counted=False)
def _cheapest(weight, price, totals, covered, h, t):
    """A reference that has covered a corner, else one at which it costs least."""
    best, least = 0, np.inf
    for k in range(len(weight)):
        cost = _cost(weight, price, totals, k, h, t)
        if cost <= covered[k]:
            return k
        if cost < least:
            best, least = k, cost
    return best


@njit(cache=True, nogil=True, counted=False)
def _downhill(weight, price, totals, start, h, t):
    """The reference, of those by rising mu, at which a corner costs least."""
    best, cost = start, _cost(weight, price, totals, start, h, t)
    for step in (1, -1):
        k = best + step
        while 0 <= k < len(weight) - 1:  # the last one is of t alone
            other = _cost(weight, price, totals, k, h, t)
            if other > cost:
                break
            best, cost = k, other
            k += step
    return best


@njit(cache=True, nogil=True, counted=False)
def _front_of(values, low, high, limits, window, out):
    """Points (h, t_1) and state numbers of the front of states low..high within the limits.

    States come by falling h. Of those at or below the window's lower end the first is kept.
    """
    count = 0
    least = np.inf
    for i in range(low, high):
        fits = values[i, T] <= window.high
        for j in range(1, values.shape[1] - T):
            fits = fits and values[i, T + j] <= limits[j]
        if not fits or values[i, T] >= least:
            continue
        if count > 0 and values[out[count - 1], H] == values[i, H]:
            count -= 1
        out[count] = i
        count += 1
        least = values[i, T]
        if least <= window.low:
            break
    return count


@njit(inner=True, nogil=True)
def prepare(h, t, limits, finite, offsets):
    """An assignment with t_1 = -inf is left out; other -inf in t satisfy their limits."""
    for e in range(len(h)):
        if t[0, e] == -np.inf:
            h[e], t[0, e] = -np.inf, 0.0
    if not finite:
        for j in range(1, t.shape[0]):
            column = t[j].copy().reshape((-1, 1))
            satisfy(column, offsets, limits[j])
            t[j] = column[:, 0]


@njit(inner=True, nogil=True)
def make_references(row, most):
    """The hull's points, and at most so many references."""
    plan, h, t = row.plan, row.h, row.t
    constraints = t.shape[0]
    values, carried = np.zeros((plan.total, LANES)), np.zeros((plan.total, LANES))
    hull = find_hull(plan, h, t[:1], row.window, most - 2, values, carried)
    weight, price = slopes_of(hull, row.window, constraints)
    count = len(weight)
    values, carried = np.zeros((plan.total, count)), np.zeros((plan.total, count))
    if constraints > 1:
        descend(row, weight, price, values, carried)
    totals, slack = np.zeros(count), np.zeros(count)
    load_weighted(h, t, weight, price, values)
    eliminate_max(plan, values, carried, totals, slack)
    losses = np.zeros((plan.pairs, count))
    reach = np.zeros((len(values) - plan.entries, count))
    find_losses(plan, values, losses, reach, np.zeros((len(plan.component_start) - 1, count)))
    for k in range(count):
        slack[k] = 4.0 * rounding(values, k, len(plan.buckets))
        for j in range(1, constraints):
            totals[k] += price[k, j] * row.limits[j]
            slack[k] += 1e-14 * abs(price[k, j] * row.limits[j])
    return hull, References(weight, price, values, losses, reach, totals, slack)


@njit(cache=True, nogil=True)
def _collect(states, chosen, count):
    """Points (h, t_1, node) of the first `count` states in `chosen`, and their nodes."""
    nodes, roots = reachable(states.nodes, states.node, chosen[:count])
    points = np.empty((count, 3))
    for i in range(count):
        state = chosen[i]
        points[i, H], points[i, T] = states.values[state, H], states.values[state, T]
        points[i, ROOT] = roots[i]
    return points, nodes


@njit(cache=True, nogil=True)
def _first_budgets(weight, need, rounds, guess):
    """What the first corners cost, the budgets of the first round, and how many shares are used."""
    dear, budget, is_dear = np.full(len(weight), np.inf), need.copy(), False
    for k in range(len(weight)):
        if weight[k] > 0.0:
            dear[k] = max(0.0, need[k])
            budget[k] = FRONTS.shares[rounds] * dear[k]
            is_dear = is_dear or dear[k] > 0.0
    if guess[0, 0] >= 0.0:
        guess_budgets(guess, weight, dear, budget)
        return dear, budget, len(FRONTS.shares)
    return dear, budget, rounds + 1 if is_dear else len(FRONTS.shares)


@njit(cache=True, nogil=True, counted=False)
def _next_budgets(budget, covered, need, dear, rounds):
    """What the corners found cost; of few points they cost too much, so only a share at first."""
    for k in range(len(budget)):
        wanted = (
            min(need[k], FRONTS.shares[rounds] * dear[k])
            if rounds < len(FRONTS.shares)
            else need[k]
        )
        budget[k] = max(covered[k], wanted)


@njit(cache=True, nogil=True, counted=False)
def _smaller_budgets(budget, covered):
    for k in range(len(budget)):
        if budget[k] > covered[k]:
            start = max(0.0, covered[k])
            budget[k] = start + (budget[k] - start) / 4.0


@njit(cache=True, nogil=True)
def front_row(row, most, patience, guess, space):
    """The front of one row, over t_1 within the window of its values: a `FrontResult`.

    Where there are several constraints, `row.known` must have points. At most `most` references are
    used, and the budgets are cut at most `patience` times where the space is too small. `guess` has
    the budgets of earlier rows (`guesses`).
    """
    prepare(row.h, row.t, row.limits, row.finite, row.offsets)
    window, states, counts = row.window, space.states, space.states.counts
    hull, references = make_references(row, most)
    weight, slack = references.weight, references.slack
    nothing, need = np.full(len(weight), -np.inf), np.zeros(len(weight))
    covered, wider = nothing.copy(), need.copy()
    points, nodes = np.zeros((0, 3)), np.zeros((0, 2), dtype=np.int32)
    if len(hull) == 0:
        return _result(IMPOSSIBLE, points, nodes, references, covered)
    supported = hull[: len(hull) if row.t.shape[0] == 1 else 0]
    begun = _front_of_both(row.known[falling(row.known[:, H])], supported, window)
    settled = np.zeros(len(begun) + 1, dtype=np.bool_)
    uncovered(begun, window, references, covered, settled, need)
    rounds = 0 if len(hull) + 2 >= most else 1  # a first small round pays where there are many
    dear, budget, rounds = _first_budgets(weight, need, rounds, guess)
    chosen = np.empty(len(states.values), dtype=np.int64)
    for _ in range(FRONTS.rounds):
        wanted = np.full(len(weight), -np.inf)
        for k in range(len(weight)):
            if budget[k] > covered[k]:
                wanted[k] = budget[k] + slack[k]
        low, high = row_list(row, references, wanted, points[:, :ROOT], settled, space)
        if low < 0:
            patience -= 1
            if counts[SUM_COUNT] > counts[SUM_LIMIT] or patience < 0:
                break
            _smaller_budgets(budget, covered)
            continue
        count = _front_of(states.values, low, high, row.limits, window, chosen)
        more, more_nodes = _collect(states, chosen, count)
        points, nodes = _together(points, nodes, more, more_nodes, window)
        for k in range(len(weight)):
            covered[k] = max(covered[k], budget[k])
            wanted[k] = covered[k] + slack[k]
        both = _front_of_both(points, begun, window)
        settled = np.zeros(max(len(points), len(both)) + 1, dtype=np.bool_)
        if uncovered(both, window, references, wanted, settled, need) == 0:
            uncovered(both, window, references, nothing, settled, need)
            learn_budgets(guess, need)
            return _result(COMPLETE, points, nodes, references, covered)
        uncovered(points, window, references, wanted, settled, wider)
        _next_budgets(budget, covered, need, dear, rounds)
        rounds += 1
    if len(points) == 0:  # at least the supported ones
        looked, counts[SUM_COUNT] = counts[SUM_COUNT], -(1 << 40)
        low, high = row_list(row, references, slack, begun[:0], settled, space)
        count = _front_of(states.values, max(low, 0), max(high, 0), row.limits, window, chosen)
        points, nodes = _collect(states, chosen, count)
        counts[SUM_COUNT] = looked
    return _result(OVERFLOW, points, nodes, references, covered)


@njit(cache=True, nogil=True)
def _result(kind, points, nodes, references, covered):
    weight, price, totals = references.weight, references.price, references.totals
    return FrontResult(kind, points, nodes, weight, price, totals, covered)


@njit(cache=True, nogil=True)
def _together(points, nodes, more, more_nodes, window):
    """The front of two sets of points (h, t, node), and the nodes of both."""
    count, first = len(points), len(nodes)
    both = np.empty((count + len(more), 3))
    both[:count] = points
    both[count:] = more
    for i in range(count, len(both)):
        if both[i, ROOT] >= 0.0:
            both[i, ROOT] += first
    parts = np.empty((first + len(more_nodes), 2), dtype=np.int32)
    parts[:first] = nodes
    for i in range(len(more_nodes)):
        is_leaf = more_nodes[i, RIGHT] < 0
        for side in range(2):
            parts[first + i, side] = more_nodes[i, side] + (0 if is_leaf else first)
    return _front_of_both(both[:count], both[count:], window), parts


@njit(cache=True, nogil=True)
def _front_of_both(some, others, window):
    """The front of two sets of points (h, t, ..) by falling h, within the window."""
    columns = min(some.shape[1], others.shape[1])
    out = np.empty((len(some) + len(others), columns))
    count, i, j = 0, 0, 0
    while i < len(some) or j < len(others):
        is_first = j == len(others) or (i < len(some) and some[i, H] >= others[j, H])
        points, place = (some, i) if is_first else (others, j)
        i, j = (i + 1, j) if is_first else (i, j + 1)
        t = points[place, T]
        if t > window.high or (count > 0 and t >= out[count - 1, T]):
            continue
        for column in range(columns):
            out[count, column] = points[place, column]
        count += 1
        if t <= window.low:
            break
    return out[:count]


@njit(inner=True, nogil=True)
def reachable(nodes, node, states):
    """The nodes that the `states` are made of, renumbered, and the root of each."""
    most = 0
    for state in states:
        most = max(most, node[state] + 1)
    number = np.full(most, -1, dtype=np.int64)
    for state in states:
        if node[state] >= 0:
            number[node[state]] = 0
    count = 0
    for i in range(most - 1, -1, -1):  # parts come before wholes
        if number[i] >= 0:
            count += 1
            if nodes[i, RIGHT] >= 0:
                number[nodes[i, LEFT]] = 0
                number[nodes[i, RIGHT]] = 0
    out = np.empty((count, 2), dtype=np.int32)
    place = 0
    for i in range(most):
        if number[i] >= 0:
            number[i] = place
            if nodes[i, RIGHT] >= 0:
                out[place, 0], out[place, 1] = number[nodes[i, LEFT]], number[nodes[i, RIGHT]]
            else:
                out[place] = nodes[i]
            place += 1
    roots = np.empty(len(states), dtype=np.int64)
    for i in range(len(states)):
        roots[i] = number[node[states[i]]] if node[states[i]] >= 0 else -1
    return out, roots
