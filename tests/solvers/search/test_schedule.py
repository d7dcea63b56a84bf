"""What search does when: passes, noise, multiplier steps, and time kept for the last polish."""

from itertools import count

import numpy as np
import pytest

from cmpe import Problem
from cmpe.core.search.settings import SETTINGS
from cmpe.generation import grid
from cmpe.solvers.search import schedule as schedules
from cmpe.solvers.search.pool import MemberKind, subgraphs
from cmpe.solvers.search.schedule import Budget, BudgetClock, schedule


@pytest.fixture(scope="module")
def pool():
    """Members of one vertex, of two and of up to three, of a grid of nine."""
    kinds = (MemberKind(0.5, 0, 4), MemberKind(1.0, 0, 6), MemberKind(1.0, 3, 8))
    return subgraphs(Problem(grid(3, 3)).conditioning, kinds)


def passes_of(pool, clock, seed=0, first=SETTINGS.quick):
    """All calls laid end to end: members, noise, steps."""
    parts = list(schedule(pool, clock, seed, first))
    return [np.concatenate(column) for column in zip(*parts, strict=True)], parts


def test_so_many_passes_and_no_more(pool):
    for wanted in (1, 64, 65, 200):
        (members, heat, steps), parts = passes_of(pool, BudgetClock(Budget(wanted), 0.0, 3))
        assert len(members) == len(heat) == len(steps) == wanted
        assert max(len(p[0]) for p in parts) <= SETTINGS.call
    assert list(schedule(pool, BudgetClock(Budget(0), 0.0, 3), 0)) == []


def test_kinds_of_members_follow_one_another(pool):
    (members, _, _), _ = passes_of(pool, BudgetClock(Budget(500), 0.0, 1))
    quick, globally, locally = (set(group.tolist()) for group in pool.groups)
    assert set(members[:8].tolist()) <= quick
    assert set(members[8:75].tolist()) <= globally  # 15 % of the passes
    rest = members[75:].tolist()
    assert set(rest) <= globally | locally
    share = sum(m in globally for m in rest) / len(rest)
    assert 0.1 < share < 0.3  # 20 % in the mean
    (known, _, _), _ = passes_of(pool, BudgetClock(Budget(40), 0.0, 1), first=0)
    assert set(known[:20].tolist()) <= globally


def test_noise_begins_after_the_multipliers_and_ends_before_the_end(pool):
    (_, heat, _), _ = passes_of(pool, BudgetClock(Budget(100), 0.0, 1))
    assert (heat[:10] == 0.0).all()
    assert heat[10] == pytest.approx(0.7 * (1.0 - 0.1 / 0.9))
    assert (np.diff(heat[10:90]) < 0.0).all()
    assert heat[90:].max() == pytest.approx(0.0, abs=1e-12)
    (_, twice, _), _ = passes_of(pool, BudgetClock(Budget(100, heat=2.0), 0.0, 1))
    np.testing.assert_allclose(twice, 2.0 * heat)


def test_steps_are_shorter_for_small_members(pool):
    (members, _, steps), _ = passes_of(pool, BudgetClock(Budget(300), 0.0, 1))
    sizes = np.diff(pool.pool.members[:, :2], axis=1)[members, 0]
    np.testing.assert_allclose(steps, np.maximum(0.02, sizes / 9.0))


def test_seeds_choose_other_members(pool):
    clock = BudgetClock(Budget(100), 0.0, 1)
    (one, _, _), _ = passes_of(pool, clock, seed=1)
    (again, _, _), _ = passes_of(pool, clock, seed=1)
    (two, _, _), _ = passes_of(pool, clock, seed=2)
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, two)


def test_nothing_to_pass_over():
    """Without a free variable there is no member."""
    empty = subgraphs(Problem(grid(1, 2), (), (0, 1)).conditioning, schedules.KINDS)
    assert list(schedule(empty, BudgetClock(Budget(), 0.0, 1), 0)) == []


def test_a_timed_run_ends_with_its_time(pool):
    """A clock that moves by a thousandth of the budget at each look."""
    ticks = count(0.0, 1e-3)
    clock = BudgetClock(Budget(500, 0.5, lambda: next(ticks)), 0.0, 2)
    parts = list(schedule(pool, clock, 0))
    assert 1 < len(parts) <= 1001
    assert len(parts[0][0]) >= 1
    assert clock.spent() >= 0.99
    late = BudgetClock(Budget(500, 0.5, lambda: 7.0), 0.0, 1)
    assert list(schedule(pool, late, 0)) == []


def test_a_budget_of_passes_has_kicks_by_their_number():
    clock = BudgetClock(Budget(500), 0.0, 4)
    assert (clock.is_timed, clock.thorough, clock.kicks) == (False, True, 20)
    assert clock.spent() == 0.0
    assert BudgetClock(Budget(24), 0.0, 4).kicks == 0


@pytest.mark.parametrize(
    ("ready", "thorough", "kicks", "total"),
    [
        (0.001, True, 20, 10.0 - 0.005),  # a reserve of 5 times the time to take up rows
        (0.1, True, 0, 10.0 - 0.5),
        (1.0, False, 0, 10.0 - 0.5),  # too dear: a tenth of it, for single moves
    ],
)
def test_time_is_kept_for_the_last_polish(ready, thorough, kicks, total):
    now = [ready]
    clock = BudgetClock(Budget(500, 2.0, lambda: now[0]), 0.0, 5)
    assert (clock.is_timed, clock.thorough, clock.kicks) == (True, thorough, kicks)
    now[0] = total / 2
    assert clock.spent() == pytest.approx(0.5)


def test_no_time_at_all_is_spent():
    clock = BudgetClock(Budget(500, 1e-9, lambda: 5.0), 0.0, 1)
    assert clock.spent() == 1.0
