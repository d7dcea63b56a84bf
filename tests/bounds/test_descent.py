import numpy as np
import pytest
from hypothesis import given, settings

import cmpe
from cmpe.bounds import Work
from cmpe.bounds.base import clock, loosened_limits, row_tables
from cmpe.bounds.descent import RelaxedRow, Schedule, minimise
from cmpe.bounds.lagrangian import Lagrangian
from cmpe.bounds.splitting import Cut
from cmpe.generation import grid
from tests.bounds.checks import AWKWARD, check
from tests.problems import random_problem, seeds


@pytest.mark.parametrize("schedule", [Schedule(), Schedule(even=False), Schedule(held=3)])
@settings(max_examples=40)
@given(seeds)
def test_every_schedule_gives_bounds(schedule, seed):
    problem, evidence = random_problem(seed, AWKWARD)
    instances = problem.given(evidence)
    relaxation = Cut("leaves", 1, 0).relaxation(instances.conditioning)
    found = minimise(instances, relaxation, Work(steps=20), schedule)
    check(found, cmpe.solve(problem, evidence, method="exhaustive"))


def test_what_is_not_split_is_eliminated(monkeypatch):
    instances = cmpe.Problem(grid(4, 4, seed=1)).given()
    relaxation = Cut("layers", 12, 0).relaxation(instances.conditioning)
    assert relaxation.copies == 0
    exact = Lagrangian().upper_bound(instances, Work()).upper[0]
    assert minimise(instances, relaxation, Work(steps=1)).upper[0] == exact
    monkeypatch.setattr("cmpe.bounds.lagrangian.MOST_BYTES", 1)  # too wide: descend all the same
    assert minimise(instances, relaxation, Work(steps=1)).upper[0] == pytest.approx(exact)


def test_held_steps_move_the_constraints_multipliers_alone():
    model = grid(5, 5, seed=3)
    second = model.perturb(0.3, 4)
    limit = float(np.median(second.value(np.random.default_rng(0).integers(0, 2, (99, 25)))))
    instances = cmpe.Problem(model, (cmpe.Constraint(second, limit),)).given()
    relaxation = Cut("layers", 2, 0).relaxation(instances.conditioning)
    row = RelaxedRow(relaxation, loosened_limits(instances))
    row.begin(row_tables(instances, slice(0, 1))[0], even=True)
    assert not row.impossible()
    assert row.work(Work(steps=6), held=6, begin=clock()) == 6
    copies, mu, *_ = row.state
    assert not copies.any()
    held = row.certified()
    row.work(Work(steps=60), held=0, begin=clock())
    assert copies.any()
    assert row.certified() < held
    assert (mu >= 0).all()
