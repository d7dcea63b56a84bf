"""Numbers from 1e-9 to 1e9: nothing is claimed that enumeration in float64 does not confirm."""

from functools import cache

import numpy as np
import pytest

import cmpe
from cmpe import Constraint, Limits, LogLinearModel, Problem
from cmpe.solvers import METHODS
from cmpe.solvers.reduction import Reduction
from tests.problems import problem_of_magnitudes

# After the first twenty: HiGHS without scaling called wrong answers optimal, or all infeasible.
SEEDS = (*range(20), 413, 527, 543, 765, 802, 1394, 2041, 2242, 2319, 2626, 2833)
ENDLESS = {"toulbar2:vac", "toulbar2:vns"}  # on some of these problems
PROVERS = [m for m, row in METHODS.items() if row.proves and m not in {"milp", *ENDLESS}]
OPTIMAL = 0.9  # of the rows are proved by who proves


@cache
def case(seed):
    problem = problem_of_magnitudes(seed)
    return problem, cmpe.solve(problem, method="exhaustive")


def is_true(label, objective, bound, truth):
    """Whether nothing that is said of a row is wrong."""
    if not truth.feasible[0]:
        return label not in ("optimal", "feasible")
    best = float(truth.objective[0])
    allowed = 1e-6 * max(1.0, abs(best))
    wrong = label == "infeasible" or (label == "optimal" and objective < best - allowed)
    return not wrong and bound >= best - allowed


def check(answer):
    proved = 0
    for seed in SEEDS:
        problem, truth = case(seed)
        found = answer(problem)
        label, objective, bound = found.labels[0], found.objective[0], found.bound[0]
        assert is_true(label, objective, bound, truth), (seed, label, objective, bound, truth)
        proved += found.labels == truth.labels
    return proved / len(SEEDS)


@pytest.mark.parametrize("method", PROVERS)
def test_every_prover(method):
    pytest.importorskip({"milp:gurobi": "gurobipy"}.get(method, "numpy"))
    assert check(lambda problem: cmpe.solve(problem, method=method)) >= OPTIMAL


def test_lagrangian_and_search():
    check(lambda problem: cmpe.solve(problem, method="lagrangian"))
    check(lambda problem: cmpe.solve(problem, method="search"))


def test_reduction():
    assert check(lambda p: Reduction(nodes=50).answer(p.given(), Limits())) >= OPTIMAL


@pytest.mark.parametrize("method", [name for name in cmpe.BOUNDS if name not in ("rlt", "spans")])
def test_every_bound(method):
    for seed in SEEDS:
        problem, truth = case(seed)
        found = cmpe.bound(problem, method=method)
        label = "infeasible" if found.infeasible[0] else "unknown"
        assert is_true(label, -np.inf, found.upper[0], truth), (seed, found, truth)


@pytest.mark.parametrize("method", PROVERS)
def test_the_case_that_highs_got_wrong(method):
    """It said -1."""
    t = LogLinearModel.from_tables(
        [2, 3],
        [((0,), [466321.124, -31749320.987]), ((1,), [0.964, -9377686.624, 1214875.813])],
    )
    for h in ([[-1.0, 0.0, 1.0], [2.0, -2.0, 0.0]], [[0.0, 1.0, -1.0], [2.0, 1.0, -1.0]]):
        objective = LogLinearModel.from_tables([2, 3], [((0, 1), h)])
        problem = Problem(objective, (Constraint(t, -31749320.023),))
        found = cmpe.solve(problem, method=method)
        assert (found.labels, found.objective.tolist()) == (["optimal"], [2.0])


@pytest.mark.parametrize("method", PROVERS)
@pytest.mark.parametrize("scale", [1e-9, 1e-4, 1e4, 1e9])
def test_a_problem_of_any_size_is_proved(method, scale):
    """h and t multiplied by the same number, q with them: the same optimum."""
    rng = np.random.default_rng(3)
    pairs = [(0, 1), (1, 2), (2, 3), (0, 3)]
    h, t = (
        LogLinearModel.from_tables([2] * 4, [(p, scale * rng.normal(size=(2, 2))) for p in pairs])
        for _ in range(2)
    )
    limit = float(np.sort(t.value(rng.integers(0, 2, (30, 4))))[8])
    problem = Problem(h, (Constraint(t, limit),))
    truth = cmpe.solve(problem, method="exhaustive")
    found = cmpe.solve(problem, method=method)
    assert found.labels == truth.labels == ["optimal"]
    assert found.objective[0] == pytest.approx(truth.objective[0], rel=1e-6, abs=1e-6)
