"""CP-SAT as a back-end: its program in integers loses nothing, and what it proves is true."""

import math
import os
import signal
import sys
import threading

import numpy as np
import pytest
from benchmarks.campaign.rules import random_rule
from hypothesis import given, settings
from hypothesis import strategies as st

import cmpe
from cmpe import Constraint, Factor, Limits, LogLinearModel, Problem, Running
from cmpe.errors import BackendError, MissingExtra
from cmpe.execution.isolated import IsolatedProcess, Reply
from cmpe.solvers.milp import ProgramAnswer
from cmpe.solvers.milp.cpsat import load, maximise
from tests.problems import Shape, random_model, random_problem, seeds, worked_example
from tests.solvers.milp import programs
from tests.solvers.test_own_numbers import check, own_numbers

pytest.importorskip("ortools")


@pytest.mark.parametrize(
    "checked", [programs.check_optimum, programs.check_infeasible, programs.check_time_limit]
)
def test_programs_with_known_answers(checked):
    assert load() is maximise
    checked(maximise)


@settings(max_examples=200)
@given(seeds)
def test_against_enumeration(seed):
    """Zeros, ties at q, several constraints, nothing feasible, several rows of evidence."""
    problem, evidence = random_problem(seed, Shape(variables=5, factors=6, constraints=3))
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    found = cmpe.solve(problem, evidence, method="cpsat")
    assert found.labels == truth.labels
    np.testing.assert_allclose(found.objective, truth.objective, rtol=1e-9, atol=1e-9)
    room = 1e-9 * np.maximum(1.0, np.abs(truth.objective))
    assert (found.bound >= truth.objective - room)[truth.feasible].all()


@pytest.mark.parametrize("seed", [10263, 10629, 11487, 11567, 13274, 13974])
def test_sums_beyond_32_bits_and_limits_met_but_for_rounding(seed):
    """OR-tools 9.15 lost answers of some; limits without room for float64 lost those of others."""
    problem, evidence = random_problem(seed, Shape(variables=6, factors=8, constraints=3))
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    found = cmpe.solve(problem, evidence, method="cpsat")
    assert found.labels == truth.labels
    np.testing.assert_allclose(found.objective, truth.objective, rtol=1e-9, atol=1e-9)


@settings(max_examples=60)
@given(seeds)
def test_rules_against_enumeration(seed):
    rng = np.random.default_rng(seed)
    cards = rng.integers(2, 4, 5).tolist()
    model = random_model(rng, cards, Shape())
    problem = Problem(model, [random_rule(rng, cards)[0] for _ in range(3)])
    truth = cmpe.solve(problem, method="exhaustive")
    found = cmpe.solve(problem, method="cpsat")
    assert found.labels == truth.labels
    np.testing.assert_allclose(found.objective, truth.objective, rtol=1e-9, atol=1e-9)


@settings(max_examples=40)
@given(seeds)
def test_rows_with_numbers_of_their_own(seed):
    check("cpsat", *own_numbers(seed), proves=True)


@settings(max_examples=100)
@given(
    st.lists(st.tuples(st.floats(-9, 9), st.floats(-9, 9)), min_size=1, max_size=7),
    st.floats(-9, 9),
)
def test_rounding_is_outwards(items, limit):
    """The bound is at least the exact optimum, and an infeasible program has no point at all."""
    worth, weight = (np.array(column) for column in zip(*items, strict=True))
    found = maximise(programs.program(worth, [weight], [-np.inf], [limit]), Limits(), None)
    points = np.array(np.meshgrid(*[[0.0, 1.0]] * len(items))).reshape(len(items), -1).T
    fits = [math.fsum(weight[point > 0]) <= limit for point in points]
    best = max(
        (math.fsum(worth[p > 0]) for p, ok in zip(points, fits, strict=True) if ok), default=-np.inf
    )
    assert found.infeasible <= (best == -np.inf)
    assert found.infeasible or found.bound >= best


def test_what_rounding_lets_through_is_cut_off():
    """The better value exceeds q by more than its tolerance, and by less than any integer unit."""
    h = LogLinearModel.from_tables([3], [((0,), [0.0, 2.0, 1.0])])
    t = LogLinearModel.from_tables([3], [((0,), [0.0, 1.0 + 1.00000001e-6, 0.5])])
    found = cmpe.solve(Problem(h, (Constraint(t, 1.0),)), method="cpsat")
    assert (found.labels, found.assignments.tolist()) == (["optimal"], [[2]])


def frustrated(count=60):
    """Pairs of all variables at random: too hard for a second."""
    rng = np.random.default_rng(0)
    pairs = [(i, j) for i in range(count) for j in range(i)]
    return Problem(
        LogLinearModel((2,) * count, tuple(Factor(p, rng.normal(size=(2, 2))) for p in pairs))
    )


@pytest.mark.parametrize("seconds", [1e-3, 0.2, 1.0])
def test_a_time_limit_leaves_a_true_bound(seconds):
    problem = frustrated()
    found = cmpe.solve(problem, method="cpsat", time_limit=seconds)
    reached = cmpe.solve(problem, method="search", time_limit=0.5)
    assert found.labels[0] in ("feasible", "unknown")
    assert found.bound[0] >= reached.objective[0]


def test_ctrl_c_keeps_the_incumbent():
    cmpe.solve(worked_example(), [[1, 1]], method="cpsat")  # the process is there
    threading.Timer(6.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(cmpe.Interrupted, match="after 0 of 1 rows") as caught:
        cmpe.solve(frustrated(), method="cpsat")
    known = caught.value.solutions
    assert np.isfinite(known.bound[0])
    again = cmpe.solve(worked_example(), [[1, 1]], method="cpsat")
    assert again.labels == ["optimal"]


def test_rows_over_processes_are_those_of_one():
    rows = [[0, 0], [0, 1], [1, 0], [1, 1]]
    alone = cmpe.solve(worked_example(), rows, method="cpsat")
    both = cmpe.solve(worked_example(), rows, method="cpsat", running=Running(workers=2))
    np.testing.assert_array_equal(alone.objective, both.objective)
    truth = cmpe.solve(worked_example(), rows, method="exhaustive")
    assert both.labels == alone.labels == truth.labels
    assert set(both.method) == {"cpsat"}


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Reply(stopped=True), ProgramAnswer(None)),  # it had to be killed
        (Reply(interrupted=True), ProgramAnswer(None, interrupted=True)),
    ],
)
def test_the_end_of_a_run(monkeypatch, reply, expected):
    monkeypatch.setattr(IsolatedProcess, "call", lambda *_, **__: reply)
    assert maximise(programs.program([1], [], [], []), Limits(), None) == expected


def test_a_crash_leaves_its_row_unknown(monkeypatch):
    crash = Reply(error="its process crashed (SIGSEGV)")
    monkeypatch.setattr(IsolatedProcess, "call", lambda *_, **__: crash)
    with pytest.raises(BackendError, match=r"CP-SAT failed: .* crashed \(SIGSEGV\)"):
        maximise(programs.program([1], [], [], []), Limits(), None)
    with pytest.warns(RuntimeWarning, match="row 0: CP-SAT failed"):
        assert cmpe.solve(worked_example(), [[1, 1]], method="cpsat").labels == ["unknown"]


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ortools", None)
    with pytest.raises(MissingExtra, match=r"CP-SAT \(ortools\) .* 'cmpe\[cpsat\]'"):
        load()
