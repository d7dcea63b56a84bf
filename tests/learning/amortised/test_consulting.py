"""Several schedules and questions that follow: never worse than each schedule alone."""

from __future__ import annotations

import numpy as np
import pytest

import cmpe
from cmpe.core.schedules import Passed
from cmpe.learning.amortised.config import QuestionRange
from cmpe.learning.amortised.consulting import consulted
from cmpe.learning.amortised.training import fit_amortised
from cmpe.learning.improvement import moved
from cmpe.solvers.base import Limits
from tests.learning.amortised.cases import config, posed, solver


def block_of(problem, rows=6):
    """A corner observed, q in the middle of its range."""
    samples = cmpe.sample(problem.objective, rows, 4).assignments
    t = problem.constraints[0].function
    limited = cmpe.Problem(problem.objective, [t <= float(np.median(t.value(samples)))])
    return limited.observing([0, 1]).given(samples[:, :2])


def worth(block, rows):
    fits = block.problem.is_feasible(rows)
    return np.where(fits, block.problem.objective.value(rows), -np.inf)


def test_the_mixture_is_worth_what_its_best_part_is_and_more_where_questions_follow():
    block, network = block_of(posed(6)), solver_of(posed(6))
    q = block.problem.limits

    def ask(given, number):
        return network.predict(given, q, number)

    alone = [worth(block, moved(block, ask(block.full(), k).values, 1)) for k in range(8)]
    mixed, first = consulted(block, ask, (8, 0))
    more, _ = consulted(block, ask, (8, 4), seed=3)
    assert (worth(block, mixed) >= np.max(alone, axis=0) - 1e-9).all()
    assert (worth(block, more) >= worth(block, mixed) - 1e-9).all()
    np.testing.assert_array_equal(first.multipliers, ask(block.full(), 0).multipliers)


def solver_of(problem):
    return fit_amortised(problem, config(generations=2))


def test_questions_that_follow_observe_a_part_of_the_answer():
    block, asked = block_of(posed(6)), []

    def ask(given, number):
        asked.append((number, given.copy()))
        return Passed(np.maximum(given, 0), np.zeros((len(given), 1)), np.zeros((len(given), 1)))

    consulted(block, ask, (2, 3))
    assert [number for number, _ in asked] == [0, 1, 0, 1, 0]
    for _, given in asked[2:]:
        seen = given >= 0
        assert (seen == seen[0]).all()
        assert 2 < seen[0].sum() < 36
        np.testing.assert_array_equal(given[:, :2], block.full()[:, :2])


@pytest.mark.filterwarnings("ignore::cmpe.learning.amortised.solver.QuestionWarning")
def test_all_schedules_answer_where_time_does_not_press():
    network = solver()
    assert network.method == "network x 16 + search + optimal bound"
    assert network.stages_run(posed(), 1.0) == "network + search + optimal bound"
    assert network.with_stages(repair=False, certificate="none").method == "network"
    block = block_of(posed())
    once, first = network.passes(block, Limits(seconds=1.0))
    mixed, price = network.passes(block, Limits())
    np.testing.assert_array_equal(first, price)
    assert (worth(block, mixed) >= worth(block, moved(block, once, 1)) - 1e-9).all()


def test_a_network_for_one_mask_asks_no_questions_that_follow():
    """It was not tuned for their masks."""
    one = config(generations=1, questions=QuestionRange(observed=(0, 5)))
    assert fit_amortised(posed(3), one).method == "network x 8 + search + optimal bound"
