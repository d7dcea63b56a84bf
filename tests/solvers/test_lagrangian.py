"""`lagrangian`: a bound above the optimum, a feasible answer below it, tightened where loose."""

import numpy as np
import pytest
from hypothesis import given, settings

import cmpe
from cmpe import Constraint, Factor, LogLinearModel, Problem, Running, Status
from cmpe.bounds.lagrangian import Dual
from cmpe.solvers import lagrangian
from cmpe.solvers.lagrangian import DualAnswers
from tests.problems import Shape, ask, random_network_problem, random_problem, seeds, worked_example

ON_TORCH = Running(device="cpu:0")  # the back-end of devices, without one


@pytest.mark.parametrize("running", [Running(), ON_TORCH], ids=["compiled", "torch"])
@settings(max_examples=15)
@given(seeds)
def test_sound_against_enumeration(running, seed):
    problem, evidence = random_problem(seed, Shape(constraints=2))
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    found = ask(DualAnswers(), problem, evidence, running=running)
    answered = truth.feasible
    assert (found.bound[answered] >= truth.objective[answered] - 1e-9).all()
    assert (found.feasible <= answered).all()
    assert not answered[found.status == Status.INFEASIBLE].any()
    assert (found.objective[found.feasible] <= truth.objective[found.feasible] + 1e-9).all()
    assert set(found.method) == {"lagrangian"}


@settings(max_examples=15)
@given(seeds)
def test_leaves_of_cutset_networks(seed):
    problem, evidence = random_network_problem(seed)
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    found = cmpe.solve(problem, evidence, method="lagrangian")
    answered = truth.feasible
    assert (found.bound[answered] >= truth.objective[answered] - 1e-9).all()
    assert (found.feasible <= answered).all()


@pytest.mark.parametrize("running", [Running(), ON_TORCH], ids=["compiled", "torch"])
def test_the_worked_example(running):
    found = ask(DualAnswers(), worked_example(), [[1, 1], [0, 0]], running=running)
    assert found.labels == ["optimal", "infeasible"]
    assert found.assignments[0].tolist() == [1, 1, 0, 1]
    assert found.assignments[1].tolist() == [-1, -1, -1, -1]


def gapped():
    """Three items of worth 2, weight 1, within 2.5: two fit, and half of the third in the dual."""
    items = range(3)
    h = LogLinearModel((2,) * 3, tuple(Factor((i,), [0.0, 2.0]) for i in items))
    t = LogLinearModel((2,) * 3, tuple(Factor((i,), [0.0, 1.0]) for i in items))
    return Problem(h, (Constraint(t, 2.5),))


def test_a_loose_bound_is_tightened_unless_time_is_over():
    """The dual says 2 * 2.5 = 5; no answer is worth more than 4, which a round of search finds."""
    quick = ask(DualAnswers(), gapped(), time_limit=1e-9)
    assert quick.objective.tolist() == [4.0]
    assert quick.bound[0] == pytest.approx(5.0, abs=1e-5)
    assert quick.labels == ["feasible"]
    tight = ask(DualAnswers(), gapped())
    assert tight.objective.tolist() == [4.0]
    assert tight.labels == ["optimal"]
    assert tight.seconds[0] > 0.0


def test_a_tight_bound_is_left_alone(monkeypatch):
    monkeypatch.setattr(lagrangian, "eliminate", None)  # would fail if it were called
    problem = Problem(gapped().objective)
    assert ask(DualAnswers(), problem).labels == ["optimal"]


def test_rows_without_a_feasible_extreme_begin_at_the_other():
    none, some = np.array([-1, -1]), np.array([0, 1])
    dual = Dual(
        multipliers=np.zeros((2, 1)),
        bound=np.zeros(2),
        infeasible=np.zeros(2, dtype=bool),
        feasible=np.stack([none, some]),
        violating=np.array([[1, 1], [1, 0]]),
    )
    assert lagrangian.extremes(dual).tolist() == [[1, 1], [0, 1]]


def test_progress_is_told_once_and_no_rows_are_no_error():
    seen = []
    running = Running(progress=lambda *now: seen.append(now))
    ask(DualAnswers(), worked_example(), [[1, 1], [0, 0]], running=running)
    assert seen == [(2, 2)]
    assert len(ask(DualAnswers(), worked_example(), np.zeros((0, 2), dtype=int))) == 0


def test_no_free_variable():
    problem = worked_example().observing((0, 1, 2, 3))
    found = ask(DualAnswers(), problem, [[1, 1, 0, 1], [1, 1, 0, 0]])
    assert found.labels == ["optimal", "infeasible"]
