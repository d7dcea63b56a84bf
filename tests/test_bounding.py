"""The door of all bounds, and every bound at every amount of work against brute force."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cmpe
from cmpe.bounding import AUTO, BOUNDS, ON_DEVICE, chosen, suitable
from cmpe.bounds import Bounds, Work
from cmpe.bounds.knapsack import Knapsack
from cmpe.bounds.messages import Messages
from cmpe.bounds.minibucket import MiniBucket
from cmpe.bounds.settings import SETTINGS
from cmpe.bounds.splitting import Cut, Splitting
from cmpe.errors import MethodError
from cmpe.generation import grid
from cmpe.problem import Form
from tests.bounds.checks import AWKWARD, check, most
from tests.problems import (
    WORKED_H,
    WORKED_T,
    Shape,
    random_network_problem,
    random_problem,
    seeds,
    worked_example,
)

OF_TABLES = [name for name, row in BOUNDS.items() if Form.TABLES in row.takes]
PAGE = Path(__file__).parents[1] / "docs" / "wide.md"


def continuous() -> cmpe.Problem:
    """The worked example over [0, 1]."""
    limited = (cmpe.Constraint(WORKED_T.to_model(), 20.0),)
    return cmpe.Problem(WORKED_H.to_model(), limited, (0, 1), continuous=(0, 1, 2, 3))


@pytest.mark.parametrize("method", OF_TABLES)
@settings(max_examples=120)
@given(seeds, st.sampled_from([0, 1, 5, 40]))
def test_no_bound_lies_below_the_optimum(method, seed, steps):
    problem, evidence = random_problem(seed, AWKWARD)
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    work = Work(steps=steps, seed=seed % 7)
    check(cmpe.bound(problem, evidence, method=method, work=work), truth)


@pytest.mark.parametrize("method", OF_TABLES)
def test_rows_do_not_depend_on_threads_or_on_each_other(method):
    problem, _ = random_problem(7, Shape(variables=6, factors=9, constraints=1))
    problem = problem.observing([0])
    evidence = np.zeros((150, 1), dtype=int)
    evidence[::2] = problem.objective.cardinalities[0] - 1
    alone = cmpe.bound(problem, evidence[:2], method=method, work=Work(steps=15)).upper
    both = cmpe.bound(problem, evidence, method=method, work=Work(steps=15, threads=2)).upper
    np.testing.assert_allclose(both, np.tile(alone, 75), rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", OF_TABLES)
def test_infeasible_rows_are_proved_where_the_relaxation_can(method):
    h = cmpe.LogLinearModel.from_tables([2, 2], [((0, 1), [[0, 1], [2, 3]])])
    t = cmpe.LogLinearModel.from_tables([2, 2], [((0,), [5, 6]), ((1,), [1, 2])])
    problem = cmpe.Problem(h, (cmpe.Constraint(t, 1.0),))
    found = cmpe.bound(problem, method=method, work=Work(steps=300))
    assert found.infeasible[0]
    assert found.upper[0] == -np.inf


@pytest.mark.parametrize("method", OF_TABLES)
def test_no_rows_are_no_bounds(method):
    problem = cmpe.Problem(grid(4, 4, seed=2), evidence_variables=(0,))
    none = np.zeros((0, 1), dtype=int)
    assert cmpe.bound(problem, none, method=method, work=Work(steps=3)).upper.shape == (0,)


def test_rows_may_observe_different_variables():
    problem = worked_example()
    rows = np.array([[1, 1, -1, -1], [-1, 0, -1, 1], [1, 1, -1, -1]])
    found = cmpe.bound(problem, rows)
    best = cmpe.solve(problem, rows, method="exhaustive")
    check(found, best)
    assert found.upper[0] == found.upper[2]
    np.testing.assert_allclose(cmpe.bound(problem, {0: 1, 1: 1}).upper, found.upper[:1])


def test_auto_takes_what_the_problem_allows(monkeypatch):
    assert chosen(worked_example()) == "lagrangian"
    assert chosen(continuous()) == "rlt"
    assert chosen(random_network_problem(1)[0]) == "lagrangian"
    monkeypatch.setattr("cmpe.bounding.SETTINGS", SETTINGS._replace(cheap_bytes=10))
    assert chosen(worked_example()) == "splitting"


def test_continuous_problems_are_bounded_by_rlt():
    problem = continuous()
    assert suitable(problem) == ["rlt"]
    evidence = [[1.0, 1.0], [0.5, 0.75]]
    found = cmpe.bound(problem, evidence)
    same = cmpe.bound(problem, evidence, method="rlt")
    np.testing.assert_array_equal(found.upper, same.upper)
    assert np.isfinite(found.upper).all()


def test_cutset_networks_are_bounded_leaf_by_leaf():
    problem, evidence = random_network_problem(1)
    assert suitable(problem) == ["lagrangian"] == suitable(problem, "cuda")
    check(cmpe.bound(problem, evidence), cmpe.solve(problem, evidence, method="exhaustive"))
    message = r"splitting bounds .*; found cutset networks, which lagrangian bounds"
    with pytest.raises(MethodError, match=message):
        cmpe.bound(problem, evidence, method="splitting")


def test_splits_are_chosen_on_training_rows_that_observe_the_same(monkeypatch):
    seen: list[int] = []

    def fitted(self, training, work):
        seen.append(sum(len(part) for part in training))
        return self

    monkeypatch.setattr("cmpe.bounds.splitting.Splitting.fitted", fitted)
    problem = cmpe.Problem(grid(3, 3, seed=2), evidence_variables=(0, 4))
    training = [[0, 0], [1, 0], [1, 1]]
    options = {"method": "splitting", "work": Work(steps=2), "training": training}
    cmpe.bound(problem, [[0, 1]], **options)
    cmpe.bound(problem, {3: 1}, **options)
    assert seen == [3, 0]


def test_unknown_names_are_refused():
    with pytest.raises(MethodError, match=r"one of lagrangian, .*, spans, auto; found 'best'"):
        cmpe.bound(worked_example(), [[1, 1]], method="best")


@pytest.mark.parametrize("method", [name for name in BOUNDS if name not in ON_DEVICE])
def test_a_bound_without_a_device_says_which_have_one(method):
    message = f"only lagrangian, splitting take a device, found '{method}' on 'cuda'"
    with pytest.raises(MethodError, match=message):
        cmpe.bound(worked_example(), [[1, 1]], method=method, device="cuda")


@pytest.mark.parametrize("method", [*ON_DEVICE, AUTO])
def test_devices_that_torch_lacks_and_threads_are_refused(method):
    with pytest.raises(MethodError, match=r"^device 'cuda:99' cannot be used: "):
        cmpe.bound(worked_example(), [[1, 1]], method=method, device="cuda:99")
    with pytest.raises(MethodError, match="threads are for device cpu, found 2 with 'cuda'"):
        cmpe.bound(worked_example(), [[1, 1]], method=method, device="cuda", work=Work(threads=2))


def test_auto_refuses_a_device_for_what_has_none():
    with pytest.raises(MethodError, match="take a device, found 'rlt' on 'cuda'"):
        cmpe.bound(continuous(), [[1.0, 1.0]], device="cuda")


@pytest.mark.parametrize("method", BOUNDS)
def test_the_page_lists_every_bound_and_its_devices(method):
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines()
            if line.startswith(f"| `{method}` |")]  # fmt: skip
    assert rows, f"{method} is missing from the table of {PAGE.name}"
    assert ("cpu, cuda" in rows[0]) == (method in ON_DEVICE)


@pytest.mark.parametrize("scale", [1e-3, 1e3])
@pytest.mark.parametrize(
    "bounder", [Splitting(), MiniBucket(), Messages(), Knapsack()], ids=lambda b: type(b).__name__
)
def test_the_scale_of_the_constraint_hardly_matters(bounder, scale):
    model = grid(8, 8, seed=6)
    second = model.perturb(0.3, 7)
    limit = 0.8 * most(second)
    one, other = (
        cmpe.Problem(model, (cmpe.Constraint(second.scale(s), s * limit),)).given()
        for s in (1.0, scale)
    )
    if isinstance(bounder, Splitting):
        bounder = Splitting(Cut("layers", 3, 0).relaxation(one.conditioning))
    values = [bounder.upper_bound(i, Work(steps=100)).upper[0] for i in (one, other)]
    assert values[1] == pytest.approx(values[0], abs=0.02)


def test_parts_are_put_in_place():
    whole, part = Bounds.empty(3, 1), Bounds.empty(1, 1)
    part.upper[:] = 4.0
    whole.put(np.array([1]), part)
    assert whole.upper.tolist() == [np.inf, 4.0, np.inf]
