"""Choices among components of two answers: a knapsack, against enumeration."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given

from cmpe.core.compiler.functions import njit
from cmpe.core.settings import LOCAL
from cmpe.core.trades import Mixing, Sums, choose, sorted_trades
from cmpe.solvers.local.graph import Rules
from tests.core.cases import examples
from tests.problems import seeds


@njit(cache=False)
def chosen(count, selling, rules, mix):
    trades = sorted_trades(count, rules, mix)
    choose(count, trades, selling, rules, mix)
    return trades


def mixing(change, total):
    """Two answers of which only the sums matter."""
    count, channels = change.shape
    none, longest = np.zeros(0, dtype=np.uint64), 1 << LOCAL.half
    return Mixing(
        values=np.zeros((0, channels)), own=none, other=none, near=none, far=none,
        part=np.zeros(0, dtype=np.int64), stack=none, counted=np.zeros(0, dtype=np.bool_),
        change=change, order=np.zeros(count, dtype=np.int64), steep=np.zeros(count),
        flipped=np.zeros(count, dtype=np.bool_), chosen=np.zeros(count, dtype=np.bool_),
        total=total, tried=np.zeros(channels), nothing=np.zeros((1, channels)),
        sums=Sums(np.zeros((3, longest)), np.zeros((3, longest)), np.zeros((3, longest), np.int64)),
    )  # fmt: skip


def case_of(seed, most):
    """Components of random sums, and rules that the first answer satisfies."""
    rng = np.random.default_rng(seed)
    count, limits = int(rng.integers(0, most + 1)), int(rng.integers(1, 3))
    if rng.random() < 0.5:
        change = rng.integers(-3, 4, (count, 4)).astype(float)
    else:
        change = rng.normal(size=(count, 4))
    change[:, limits + 1 :] = 0.0
    has_zeros = rng.random() < 0.3 and limits == 1
    if has_zeros:
        change[:, 3] = rng.random(count) < 0.3
    total = np.zeros(4)
    zeros = np.full(limits + 1, -1)
    zeros[0] = 3 if has_zeros else -1
    room = np.where(rng.random(limits) < 0.3, 0.0, rng.exponential(2.0, limits))
    return Rules(room, rng.uniform(0.5, 2.0, limits), zeros, 1e-9), mixing(change, total)


@given(seeds)
@examples(800)
def test_choices_are_the_best_where_the_core_holds_all_trades(seed):
    rules, mix = case_of(seed, 7)
    best, limits = -np.inf, len(rules.limits)
    for selling in (True, False):
        trades = chosen(len(mix.change), selling, rules, mix)
        assert np.allclose(mix.tried, mix.change[mix.flipped].sum(axis=0), atol=1e-12)
        steep = mix.steep[mix.order[:trades]]
        assert (np.diff(steep) <= 0).all()
        if (mix.tried[1 : limits + 1] <= rules.limits + 1e-12).all() and mix.tried[3] < 0.5:
            best = max(best, mix.tried[0])
    if limits > 1:
        return
    wanted = -np.inf
    for flags in itertools.product((False, True), repeat=len(mix.change)):
        total = mix.change[np.array(flags, dtype=bool)].sum(axis=0)
        if total[1] <= rules.limits[0] + 1e-12 and total[3] < 0.5:
            wanted = max(wanted, total[0])
    assert np.isclose(best, wanted, atol=1e-9)


@given(seeds)
@examples(100)
def test_choices_fit_where_there_are_many_trades(seed):
    rules, mix = case_of(seed, 60)
    free = (mix.change[:, 0] >= 0) & (mix.change[:, 1] <= 0)
    worth = []
    for selling in (True, False):
        chosen(len(mix.change), selling, rules, mix)
        if len(rules.limits) == 1:
            assert mix.tried[1] <= rules.limits[0] + 1e-9
            worth.append(mix.tried[0])
    if worth:
        allowed = free & (mix.change[:, 3] < 0.5)
        assert max(worth) >= mix.change[allowed, 0].sum() - 1e-9
