"""The complete front of one row, or as much of it as the space for states allows.

Let F be points that are known, by falling h, and a *corner* a pair (h of one, t of the one before).
A point that F lacks lies above some corner: its h is higher and its t lower. At a reference

    loss < W - w h_corner + mu t_corner + sum lambda_j q_j,

so if every assignment whose loss is within that budget at the corner's best reference has been
collected, F is complete. The budgets are guessed, the points found say what they should have been,
and the next round, at the latest, is conclusive.
"""

from __future__ import annotations

import numpy as np

from cmpe.core.compiler.functions import njit
from cmpe.core.dual import rounding, satisfy
from cmpe.core.elimination import eliminate_max
from cmpe.core.fronts.columns import falling
from cmpe.core.fronts.guesses import guess_budgets, learn_budgets
from cmpe.core.fronts.lists import H, T
from cmpe.core.fronts.references import LANES, descend, find_hull, load_weighted, slopes_of
from cmpe.core.fronts.trees import row_list
from cmpe.core.proof import find_losses

MOST_ROUNDS = 12
SHARES = (0.002, 0.01, 0.05)  # of what the first corners cost: the budgets of the first rounds
COMPLETE, OVERFLOW, IMPOSSIBLE = range(3)


@njit(cache=True, nogil=True)
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


@njit(inner=True, nogil=True)
def uncovered(known, window, weight, price, totals, covered, settled, out):
    """What references must cover so that `known` (h, t), by falling h, lacks nothing.

    A corner whose cost is covered at some reference is settled; the others go to the reference
    at which they cost least. -inf: nothing. Returns how many are not settled; settled[i] says so of
    the corner below and before point i. `totals` = W + lambda . q.
    """
    out[:] = -np.inf
    settled[:] = True
    count, left, best = len(known), 0, 0
    for i in range(count + 1):
        corner_t = window[1] if i == 0 else min(window[1], known[i - 1, 1])
        corner_h = known[i, 0] if i < count else -np.inf
        if i == count and count > 0 and corner_t <= window[0]:
            continue  # nothing below the window is asked for
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def _front_of(points, low, high, limits, window, out):
    """Points (h, t_1) and state numbers of the front of states low..high within the limits.

    States come by falling h. Of those at or below the window's lower end the first is kept.
    """
    count = 0
    least = np.inf
    for i in range(low, high):
        fits = points[i, T] <= window[1]
        for j in range(1, points.shape[1] - T):
            fits = fits and points[i, T + j] <= limits[j]
        if not fits or points[i, T] >= least:
            continue
        if count > 0 and points[out[count - 1], H] == points[i, H]:
            count -= 1
        out[count] = i
        count += 1
        least = points[i, T]
        if least <= window[0]:
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
def make_references(plan, h, t, limits, window, most):
    """The hull's points, then (weight, price), (values, loss, reach), W + lambda . q, rounding."""
    constraints = t.shape[0]
    few = np.zeros((2, plan.total, LANES))
    hull = find_hull(plan, h, t[:1], window, most - 2, few[0], few[1])
    weight, price = slopes_of(hull, window, constraints)
    references = len(weight)
    values, carried = np.zeros((plan.total, references)), np.zeros((plan.total, references))
    if constraints > 1:
        descend(plan, h, t, limits, weight, price, values, carried)
    totals, slack = np.zeros(references), np.zeros(references)
    load_weighted(h, t, weight, price, values)
    eliminate_max(plan, values, carried, totals, slack)
    loss = np.zeros((plan.pairs, references))
    reach = np.zeros((len(values) - plan.entries, references))
    find_losses(plan, values, loss, reach, np.zeros((len(plan.component_start) - 1, references)))
    for k in range(references):
        slack[k] = 4.0 * rounding(values, k, len(plan.buckets))
        for j in range(1, constraints):
            totals[k] += price[k, j] * limits[j]
            slack[k] += 1e-14 * abs(price[k, j] * limits[j])
    return hull, (weight, price), (values, loss, reach), totals, slack


@njit(cache=True, nogil=True)
def _collect(work, found, count):
    """Points (h, t_1, node) of the states in `found`, and the nodes they are made of."""
    nodes, roots = reachable(work[3], work[1], found[:count])
    points = np.empty((count, 3))
    for i in range(count):
        points[i, 0], points[i, 1] = work[0][found[i], H], work[0][found[i], T]
        points[i, 2] = roots[i]
    return points, nodes


@njit(cache=True, nogil=True)
def _first_budgets(weight, need, rounds, guess):
    """What the first corners cost, the budgets of the first round, and how many shares are used."""
    dear, budget, is_dear = np.full(len(weight), np.inf), need.copy(), False
    for k in range(len(weight)):
        if weight[k] > 0.0:
            dear[k] = max(0.0, need[k])
            budget[k] = SHARES[rounds] * dear[k]
            is_dear = is_dear or dear[k] > 0.0
    if guess[0, 0] >= 0.0:
        guess_budgets(guess, weight, dear, budget)
        return dear, budget, len(SHARES)
    return dear, budget, rounds + 1 if is_dear else len(SHARES)


@njit(cache=True, nogil=True)
def _next_budgets(budget, covered, need, dear, rounds):
    """What the corners found cost; of few points they cost too much, so only a share at first."""
    for k in range(len(budget)):
        wanted = min(need[k], SHARES[rounds] * dear[k]) if rounds < len(SHARES) else need[k]
        budget[k] = max(covered[k], wanted)


@njit(cache=True, nogil=True)
def _smaller_budgets(budget, covered):
    for k in range(len(budget)):
        if budget[k] > covered[k]:
            start = max(0.0, covered[k])
            budget[k] = start + (budget[k] - start) / 4.0


@njit(cache=True, nogil=True)
def front_row(plan, offsets, h, t, limits, finite, window, known, most, patience, guess, work):
    """The front of one row: (kind, points, nodes, weight, price, totals, covered).

    h (E,), t (m, E): the front is over t_1, within the window of its values; `known` (h, t) are
    points that exist (needed where there are several constraints). `most` references are used, and
    no more than `patience` times a smaller budget where the space is too small. `guess` is what
    rows before taught (`guesses`). A point is h, t_1 and its node. What is missing has a loss above
    `covered` at every reference.
    """
    prepare(h, t, limits, finite, offsets)
    hull, (weight, price), tables, totals, slack = make_references(plan, h, t, limits, window, most)
    nothing, need = np.full(len(weight), -np.inf), np.zeros(len(weight))
    covered, wider = nothing.copy(), need.copy()
    points, nodes = np.zeros((0, 3)), np.zeros((0, 2), dtype=np.int32)
    if len(hull) == 0:
        return IMPOSSIBLE, points, nodes, weight, price, totals, covered
    supported = hull[: len(hull) if t.shape[0] == 1 else 0]
    begun = _front_of_both(known[falling(known[:, 0])], supported, window)
    settled = np.zeros(len(begun) + 1, dtype=np.bool_)
    uncovered(begun, window, weight, price, totals, covered, settled, need)
    rounds = 0 if len(hull) + 2 >= most else 1  # a first small round pays where there are many
    dear, budget, rounds = _first_budgets(weight, need, rounds, guess)
    found = np.empty(len(work[0]), dtype=np.int64)
    for _ in range(MOST_ROUNDS):
        asked = np.full(len(weight), -np.inf)
        for k in range(len(weight)):
            if budget[k] > covered[k]:
                asked[k] = budget[k] + slack[k]
        low, high = row_list(
            plan, h, t, tables, weight, price, asked, limits, points[:, :2], settled, work
        )
        if low < 0:
            patience -= 1
            if work[4][2] > work[4][3] or patience < 0:
                break
            _smaller_budgets(budget, covered)
            continue
        count = _front_of(work[0], low, high, limits, window, found)
        points, nodes = _together(points, nodes, _collect(work, found, count), window)
        for k in range(len(weight)):
            covered[k] = max(covered[k], budget[k])
            asked[k] = covered[k] + slack[k]
        both = _front_of_both(points, begun, window)
        settled = np.zeros(max(len(points), len(both)) + 1, dtype=np.bool_)
        if uncovered(both, window, weight, price, totals, asked, settled, need) == 0:
            uncovered(both, window, weight, price, totals, nothing, settled, need)
            learn_budgets(guess, need)
            return COMPLETE, points, nodes, weight, price, totals, covered
        uncovered(points, window, weight, price, totals, asked, settled, wider)
        _next_budgets(budget, covered, need, dear, rounds)
        rounds += 1
    if len(points) == 0:  # at least the supported ones
        looked, work[4][2] = work[4][2], -(1 << 40)
        low, high = row_list(
            plan, h, t, tables, weight, price, slack, limits, begun[:0], settled, work
        )
        count = _front_of(work[0], max(low, 0), max(high, 0), limits, window, found)
        points, nodes = _collect(work, found, count)
        work[4][2] = looked
    return OVERFLOW, points, nodes, weight, price, totals, covered


@njit(cache=True, nogil=True)
def _together(points, nodes, more, window):
    """The front of two sets of points (h, t, node), and the nodes of both."""
    count, own = len(points), len(nodes)
    both = np.empty((count + len(more[0]), 3))
    both[:count] = points
    both[count:] = more[0]
    for i in range(count, len(both)):
        if both[i, 2] >= 0.0:
            both[i, 2] += own
    parts = np.empty((own + len(more[1]), 2), dtype=np.int32)
    parts[:own] = nodes
    for i in range(len(more[1])):
        is_leaf = more[1][i, 1] < 0
        for side in range(2):
            parts[own + i, side] = more[1][i, side] + (0 if is_leaf else own)
    return _front_of_both(both[:count], both[count:], window), parts


@njit(cache=True, nogil=True)
def _front_of_both(some, others, window):
    """The front of two sets of points (h, t, ..) by falling h, within the window."""
    columns = min(some.shape[1], others.shape[1])
    out = np.empty((len(some) + len(others), columns))
    count, i, j = 0, 0, 0
    while i < len(some) or j < len(others):
        is_first = j == len(others) or (i < len(some) and some[i, 0] >= others[j, 0])
        own, place = (some, i) if is_first else (others, j)
        i, j = (i + 1, j) if is_first else (i, j + 1)
        if own[place, 1] > window[1] or (count > 0 and own[place, 1] >= out[count - 1, 1]):
            continue
        for column in range(columns):
            out[count, column] = own[place, column]
        count += 1
        if own[place, 1] <= window[0]:
            break
    return out[:count]


@njit(inner=True, nogil=True)
def reachable(nodes, node, found):
    """The nodes that the states in `found` are made of, renumbered, and the root of each."""
    most = 0
    for state in found:
        most = max(most, node[state] + 1)
    number = np.full(most, -1, dtype=np.int64)
    for state in found:
        if node[state] >= 0:
            number[node[state]] = 0
    count = 0
    for i in range(most - 1, -1, -1):  # parts come before wholes
        if number[i] >= 0:
            count += 1
            if nodes[i, 1] >= 0:
                number[nodes[i, 0]] = 0
                number[nodes[i, 1]] = 0
    out = np.empty((count, 2), dtype=np.int32)
    place = 0
    for i in range(most):
        if number[i] >= 0:
            number[i] = place
            if nodes[i, 1] >= 0:
                out[place, 0], out[place, 1] = number[nodes[i, 0]], number[nodes[i, 1]]
            else:
                out[place] = nodes[i]
            place += 1
    roots = np.empty(len(found), dtype=np.int64)
    for i in range(len(found)):
        roots[i] = number[node[found[i]]] if node[found[i]] >= 0 else -1
    return out, roots
