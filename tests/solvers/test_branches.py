"""Problems with cutset networks: every engine leaf by leaf, against enumeration of the whole."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

import cmpe
from cmpe import Constraint, CutsetSettings, Problem, Status, learn_cutset
from cmpe.bounds.lagrangian import dual_bound, lagrangian_dual
from cmpe.bounds.loss import loss_bounds
from cmpe.errors import Interrupted, MethodError
from cmpe.solvers.branches import Branches
from cmpe.solvers.exact.complete import Exact
from cmpe.solvers.exact.trace import trace
from cmpe.solvers.local import improve
from cmpe.solvers.milp import Milp
from tests.models.tractable.test_learning import clusters
from tests.problems import all_assignments, ask, random_network_problem, seeds


def compare(answers, oracle):
    """Proved answers beside the oracle's."""
    assert answers.labels == oracle.labels
    solved = oracle.feasible
    np.testing.assert_allclose(answers.objective[solved], oracle.objective[solved], atol=2e-6)
    assert (answers.bound[solved] >= oracle.objective[solved] - 1e-9).all()


@given(seeds)
@settings(max_examples=150)
def test_exact_agrees_with_enumeration(seed):
    problem, evidence = random_network_problem(seed)
    oracle = cmpe.solve(problem, evidence, method="exhaustive")
    compare(cmpe.solve(problem, evidence, method="exact"), oracle)


@given(seeds)
@settings(max_examples=15)
def test_other_engines_agree_with_enumeration(seed):
    problem, evidence = random_network_problem(seed)
    oracle = cmpe.solve(problem, evidence, method="exhaustive")
    for method in ("auto", "milp", "toulbar2"):
        compare(cmpe.solve(problem, evidence, method=method), oracle)


@given(seeds)
@settings(max_examples=60)
def test_bounds_hold(seed):
    problem, evidence = random_network_problem(seed)
    oracle = cmpe.solve(problem, evidence, method="exhaustive")
    best = np.where(oracle.feasible, oracle.objective, -np.inf)
    slack = 1e-7 * np.maximum(1, np.abs(np.where(oracle.feasible, best, 0)))
    dual = lagrangian_dual(problem.given(evidence))
    assert (dual.bound >= best - slack).all()
    assert not (dual.infeasible & oracle.feasible).any()
    known = (dual.feasible >= 0).all(axis=1)
    if known.any():
        assert problem.is_feasible(dual.feasible[known]).all()
    for method in ("lagrangian", "local"):
        answers = cmpe.solve(problem, evidence, method=method)
        assert (answers.bound >= best - slack).all()
        found = np.where(answers.feasible, answers.objective, -np.inf)
        assert (found <= best + 1e-6).all()
        assert not (answers.feasible & (oracle.status == Status.INFEASIBLE)).any()


@given(seeds)
@settings(max_examples=60)
def test_loss_bounds_hold(seed):
    problem, evidence = random_network_problem(seed)
    instances = problem.given(evidence)
    found = loss_bounds(instances)
    everything = all_assignments(problem.objective.cardinalities)
    f, g = problem.minimisation(everything)
    feasible = problem.is_feasible(everything)
    for row, p_upper, q_lower in zip(instances.full(), found.p_upper, found.q_lower, strict=True):
        here = ((row < 0) | (row == everything)).all(axis=1) & np.isfinite(f)
        allowed = here & feasible
        if allowed.any():
            assert p_upper >= f[allowed].min() - 1e-6
        violating = here & (g > 1e-6 * np.maximum(1, np.abs(problem.limits))).any(axis=1)
        if violating.any():
            total = (f + np.maximum(g, 0).sum(axis=1))[violating].min()
            assert q_lower <= total + 1e-6


def learned_problem(depth: int = 3) -> tuple[Problem, np.ndarray]:
    network = learn_cutset(clusters(0), CutsetSettings(depth=depth, candidates=4))
    made = cmpe.generate(network, cmpe.Recipe(samples=60, percentile=30, evidence_fraction=0.3))
    return made.problem, made.test


def test_a_generated_problem():
    problem, rows = learned_problem()
    assert not problem.is_log_linear
    assert len(problem.branches) == problem.objective.leaves  # M2 has the leaves of M1
    oracle = cmpe.solve(problem, rows, method="exhaustive")
    compare(cmpe.solve(problem, rows), oracle)
    start = np.where(oracle.feasible[:, np.newaxis], oracle.assignments, -1)
    running = cmpe.Running(start=start)
    compare(cmpe.solve(problem, rows, method="exact", running=running), oracle)
    tables = Problem(
        problem.objective.to_model(),
        tuple(Constraint(c.function.to_model(), c.at_most) for c in problem.constraints),
        problem.evidence_variables,
    )
    compare(cmpe.solve(tables, rows), oracle)


def test_rows_that_observe_different_variables():
    problem, _ = learned_problem()
    rows = np.full((3, problem.variables), -1)
    rows[0, :4], rows[1, 2:7] = 1, 0
    compare(cmpe.solve(problem, rows), cmpe.solve(problem, rows, method="exhaustive"))


class Watched:
    """`exact`, with the sizes of the batches it was asked; stops after some of them."""

    def __init__(self, stop_after=None):
        self.sizes, self.stop_after = [], stop_after

    def answer(self, instances, limits):
        self.sizes.append(len(instances))
        found = Exact().answer(instances, limits)
        if len(self.sizes) == self.stop_after:
            raise Interrupted(found, len(found))
        return found


def test_branches_that_cannot_win_are_left_out():
    problem, rows = learned_problem()
    mpe = Problem(problem.objective, (), problem.evidence_variables)
    watched = Watched()
    answers = ask(Branches(watched), mpe, rows)
    assert (answers.status == Status.OPTIMAL).all()
    assert sum(watched.sizes) == len(rows)  # the bound of a leaf is exact without a constraint
    best, values = problem.objective.mpe(mpe.given(rows).full())
    np.testing.assert_allclose(answers.objective, values, atol=1e-9)
    np.testing.assert_allclose(problem.objective.value(best), values, atol=1e-9)


def test_interruption_keeps_valid_bounds():
    problem, rows = learned_problem()
    with pytest.raises(Interrupted) as stop:
        ask(Branches(Watched(stop_after=2)), problem, rows)
    oracle = cmpe.solve(problem, rows, method="exhaustive")
    partial = stop.value.solutions
    best = np.where(oracle.feasible, oracle.objective, -np.inf)
    assert (partial.bound >= best - 1e-9).all()
    assert stop.value.finished < len(rows)


def test_time_limits_and_progress():
    problem, rows = learned_problem()
    seen: list[tuple[int, int]] = []
    running = cmpe.Running(progress=lambda done, total: seen.append((done, total)))
    answers = ask(Branches(Milp()), problem, rows, time_limit=20.0, running=running)
    assert seen[-1] == (len(rows), len(rows))
    assert (answers.seconds > 0).all()
    oracle = cmpe.solve(problem, rows, method="exhaustive")
    compare(answers, oracle)
    hurried = cmpe.solve(problem, rows, method="milp", time_limit=1e-4)
    best = np.where(oracle.feasible, oracle.objective, -np.inf)
    assert (hurried.bound >= best - 1e-9).all()


def test_what_needs_tables_says_so():
    problem, rows = learned_problem()
    with pytest.raises(MethodError, match="log-linear"):
        _ = problem.conditioning
    with pytest.raises(MethodError, match=r"CutsetNetwork\.to_model"):
        trace(problem, rows)


def test_one_leaf_is_a_log_linear_model():
    network = learn_cutset(clusters(0), CutsetSettings(depth=0))
    problem = Problem(network, (Constraint(network, 0.0),))
    assert problem.is_log_linear
    assert len(problem.branches) == 1


@given(seeds)
@settings(max_examples=40)
def test_repair_stays_in_the_leaf_and_never_gets_worse(seed):
    problem, evidence = random_network_problem(seed)
    instances = problem.given(evidence)
    rng = np.random.default_rng(seed)
    cards = np.array(problem.objective.cardinalities)[list(problem.free)]
    free = (rng.random((len(evidence), len(cards))) * cards).astype(int)
    start = instances.complete(free)
    found = improve(instances, start)
    assert (found >= 0).all()
    assert ((instances.full() < 0) | (instances.full() == found)).all()
    before, after = problem.is_feasible(start), problem.is_feasible(found)
    assert (after | ~before).all()
    h = problem.objective.value
    assert (h(found)[before] >= h(start)[before] - 1e-6).all()
    for branch in problem.branches:
        assert (branch.agrees(start) == branch.agrees(found)).all()
    nothing = improve(instances, np.full_like(start, -1))
    assert (nothing >= 0).all()


@given(seeds)
@settings(max_examples=40)
def test_any_multipliers_bound_the_whole(seed):
    problem, evidence = random_network_problem(seed)
    oracle = cmpe.solve(problem, evidence, method="exhaustive")
    mu = np.random.default_rng(seed).exponential(size=(len(evidence), len(problem.constraints)))
    bound = dual_bound(problem.given(evidence), mu)
    solved = oracle.feasible
    assert (bound[solved] >= oracle.objective[solved] - 1e-6).all()
