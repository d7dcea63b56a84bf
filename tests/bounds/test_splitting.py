import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cmpe
from cmpe.bounds import Work
from cmpe.bounds.descent import minimise
from cmpe.bounds.lagrangian import Lagrangian
from cmpe.bounds.messages import Messages
from cmpe.bounds.settings import SETTINGS
from cmpe.bounds.splitting import Cut, Splitting, by_size
from cmpe.errors import TooLarge
from cmpe.generation import grid
from tests.bounds.checks import AWKWARD, check, most
from tests.problems import random_problem, seeds


@pytest.mark.parametrize("kind", ["layers", "leaves"])
@settings(max_examples=150)
@given(seeds, st.integers(1, 3), st.integers(1, 3), st.sampled_from([0, 3, 60]))
def test_narrow_cuts_hold_and_more_work_is_never_worse(kind, seed, size, tied, steps):
    problem, evidence = random_problem(seed, AWKWARD)
    instances = problem.given(evidence)
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    relaxation = Cut(kind, size, seed % 5, tied).relaxation(instances.conditioning)
    less = minimise(instances, relaxation, Work(steps=steps))
    more = minimise(instances, relaxation, Work(steps=steps + 20))
    check(less, truth)
    check(more, truth)
    assert (more.upper <= less.upper + 1e-9).all()


def test_splitting_approaches_elimination_on_a_grid():
    model = grid(8, 8, seed=3)
    second = model.perturb(0.1, 4)
    problem = cmpe.Problem(model, (cmpe.Constraint(second, 0.9 * most(second)),))
    instances = problem.given()
    exact = Lagrangian().upper_bound(instances, Work()).upper[0]
    narrow, tied = (
        minimise(
            instances, Cut("layers", 3, 0, t).relaxation(instances.conditioning), Work(steps=400)
        ).upper[0]
        for t in (1, 2)
    )
    messages = Messages().upper_bound(instances, Work(steps=200)).upper[0]
    assert exact <= tied + 1e-6
    assert tied <= narrow + 1e-3
    assert tied < messages


def test_the_split_is_chosen_on_training_rows():
    problem = cmpe.Problem(grid(7, 7, seed=2), evidence_variables=(0, 24))
    rows = problem.given([[0, 0], [1, 0], [0, 1], [1, 1]])
    work = Work(steps=60)
    fitted = Splitting(attempts=1).fitted([rows], work)
    assert fitted.relaxation is not None
    other = Cut("leaves", 4, 0).relaxation(rows.conditioning)
    chosen = fitted.upper_bound(rows, work).upper.mean()
    assert chosen <= minimise(rows, other, work).upper.mean() + 1e-9
    assert Splitting().fitted([], work).relaxation is None


def test_a_split_of_another_structure_is_not_used():
    wide = cmpe.Problem(grid(6, 6, seed=2)).given()
    fitted = Splitting(Cut("layers", 3, 0).relaxation(wide.conditioning))
    other = cmpe.Problem(grid(4, 4, seed=1)).given()
    assert fitted.upper_bound(other, Work(steps=5)).upper[0] >= most(grid(4, 4, seed=1)) - 1e-9


def test_a_time_limit_stops_and_more_time_is_no_worse():
    instances = cmpe.Problem(grid(9, 9, seed=5)).given()
    split = Splitting(Cut("layers", 3, 0).relaxation(instances.conditioning))
    short, longer = (split.upper_bound(instances, Work(time_limit=s)) for s in (0.0, 0.05))
    assert short.steps[0] <= 1 < longer.steps[0]
    assert longer.upper[0] <= short.upper[0] + 1e-9


def test_splits_that_are_too_large_are_passed_over(monkeypatch):
    instances = cmpe.Problem(grid(9, 9, seed=5)).given()
    monkeypatch.setattr("cmpe.bounds.relaxation.SETTINGS", SETTINGS._replace(bucket_entries=6000))
    assert by_size(instances.conditioning, Work()).plan.operations <= 6000
    monkeypatch.setattr("cmpe.bounds.relaxation.SETTINGS", SETTINGS._replace(bucket_entries=1))
    with pytest.raises(TooLarge, match="try a smaller width"):
        by_size(instances.conditioning, Work())
