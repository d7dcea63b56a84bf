"""Large-neighbourhood search: passes are exact, answers sound, runs reproducible."""

import numpy as np
import pytest
from hypothesis import given, settings

import cmpe
from cmpe import Running, Status
from cmpe.bounds.lagrangian import lagrangian_dual
from cmpe.errors import Interrupted, MethodError
from cmpe.solvers import search as neighbourhoods
from cmpe.solvers.search import Budget, Search, search
from cmpe.solvers.search.pool import MemberKind
from tests.problems import (
    Shape,
    ask,
    assert_no_worse,
    random_problem,
    random_start,
    seeds,
    worked_example,
)
from tests.solvers.search.cases import many_rows

WIDE = Shape(variables=12, values=2, arity=2, factors=30, constraints=3)
MULTI = Shape(variables=6, values=5, arity=4, factors=10, constraints=2)
SHAPES = [Shape(), WIDE, MULTI]
QUICK = Search(passes=60)


@pytest.fixture
def narrow(monkeypatch):
    """A pool of members that freeze something even in small problems."""
    kinds = (MemberKind(1.0, 0, 4), MemberKind(2.0, 0, 8), MemberKind(2.0, 4, 8))
    monkeypatch.setattr(neighbourhoods, "KINDS", kinds)


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=60)
@given(seeds)
def test_sound_against_enumeration(shape, seed):
    problem, evidence = random_problem(seed, shape)
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    found = ask(QUICK, problem, evidence)
    assert not (found.feasible & (truth.status == Status.INFEASIBLE)).any()
    good = found.feasible
    assert (found.objective[good] <= truth.objective[good] + 1e-9).all()
    assert (found.bound >= np.where(truth.feasible, truth.objective, -np.inf) - 1e-6).all()
    assert set(found.method) <= {"search"}
    observed, answered = list(problem.evidence_variables), found.status != Status.INFEASIBLE
    np.testing.assert_array_equal(found.assignments[answered][:, observed], evidence[answered])
    assert (found.assignments[~answered] == -1).all()


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("shape", SHAPES)
def test_finds_what_exists(shape):
    """Measured with members that freeze variables: every feasible row, 99.5 % or more optimal."""
    feasible = answered = best = 0
    for seed in range(150):
        problem, evidence = random_problem(seed, shape)
        truth = cmpe.solve(problem, evidence, method="exhaustive")
        found = ask(Search(passes=100), problem, evidence)
        feasible += truth.feasible.sum()
        answered += found.feasible.sum()
        best += (found.objective >= truth.objective - 1e-6)[found.feasible].sum()
    assert answered >= 0.99 * feasible
    assert best >= 0.98 * answered


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=50)
@given(seeds)
def test_never_worse_than_a_feasible_start(shape, seed):
    problem, evidence = random_problem(seed, shape)
    start = random_start(problem, len(evidence), seed)
    start[:, list(problem.evidence_variables)] = evidence
    rows = search(problem.given(evidence), start.copy(), budget=Budget(passes=5))
    solved = ask(Search(passes=5), problem, evidence, running=Running(start=start.copy()))
    answers = np.where(solved.assignments < 0, rows, solved.assignments)  # -1: infeasible
    assert_no_worse(problem, start, rows, answers)


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=30)
@given(seeds)
def test_any_multipliers_are_sound(shape, seed):
    problem, evidence = random_problem(seed, shape)
    instances = problem.given(evidence)
    start = random_start(problem, len(evidence), seed)
    start[:, list(problem.evidence_variables)] = instances.evidence
    prices = np.random.default_rng(seed).exponential(2.0, (len(start), len(problem.constraints)))
    rows = search(instances, start.copy(), multipliers=prices, budget=Budget(passes=5))
    assert_no_worse(problem, start, rows)


def test_the_right_multipliers_save_passes():
    problem, evidence = many_rows(side=12, rows=16)
    instances = problem.given(evidence)
    prices = lagrangian_dual(instances).multipliers
    few = Budget(passes=4)
    blind, priced = (
        problem.objective.value(search(instances, multipliers=m, budget=few)).mean()
        for m in (None, prices)
    )
    assert priced > blind


def test_wide_rows_come_close_to_the_optimum():
    """Width 10, members of 2^5 and 2^8: the mean regret measured is 0.02 nats."""
    problem, evidence = many_rows(side=12, rows=16)
    truth = cmpe.solve(problem, evidence, method="exact")
    found = ask(Search(passes=200), problem, evidence)
    assert found.feasible.all()
    assert (truth.objective - found.objective).mean() <= 0.3
    worse = ask(Search(passes=2), problem, evidence)
    assert worse.objective.mean() < found.objective.mean()


def test_threads_and_batches_change_nothing():
    problem, evidence = many_rows()
    one = ask(QUICK, problem, evidence, seed=5)
    four = ask(Search(passes=60), problem, evidence, seed=5, running=Running(threads=4))
    np.testing.assert_array_equal(one.assignments, four.assignments)
    assert (one.seconds > 0).all()
    head = ask(QUICK, problem, evidence[:7], seed=5)
    np.testing.assert_array_equal(head.assignments, one.assignments[:7])
    instances = problem.given(evidence)
    few = Budget(passes=3)
    whole = search(instances, random_start(problem, len(evidence), 1), budget=few)
    again = search(instances, random_start(problem, len(evidence), 1), budget=few, threads=3)
    np.testing.assert_array_equal(whole, again)


def test_seeds_matter():
    problem, evidence = many_rows(side=12, rows=3)
    little = Search(passes=1)
    answers = [ask(little, problem, evidence, seed=s).assignments.tobytes() for s in range(8)]
    assert len(set(answers)) > 1


def test_a_time_limit_is_spent_and_gives_an_answer():
    problem, evidence = many_rows(rows=3)
    for limit in (1e-4, 0.02):
        found = ask(Search(), problem, evidence, time_limit=limit)
        assert found.feasible.all()


def test_no_passes_is_repair_and_polish():
    problem, evidence = many_rows(rows=4)
    assert problem.is_feasible(search(problem.given(evidence), budget=Budget(passes=0))).all()


def test_nothing_free_and_no_rows():
    problem = worked_example().observing((0, 1, 2, 3))
    answer = ask(QUICK, problem, [[1, 1, 0, 1], [1, 1, 0, 0]])
    assert answer.assignments.tolist() == [[1, 1, 0, 1], [-1] * 4]
    assert answer.status.tolist() == [Status.OPTIMAL, Status.INFEASIBLE]
    assert len(ask(QUICK, worked_example(), np.zeros((0, 2), dtype=int))) == 0


def test_the_worked_example():
    answer = cmpe.solve(worked_example(), {0: 1, 1: 1}, method="search")
    assert answer.assignments.tolist() == [[1, 1, 0, 1]]
    assert answer.objective.tolist() == [11]


def test_inputs_are_left_alone():
    problem, evidence = many_rows(rows=5)
    start = random_start(problem, 5, 3)
    copy = start.copy()
    search(problem.given(evidence), start, budget=Budget(passes=3))
    np.testing.assert_array_equal(start, copy)


def test_bad_input_is_refused():
    with pytest.raises(MethodError, match="shape"):
        ask(Search(), worked_example(), [[1, 1]], running=Running(start=[[0, 0]]))
    with pytest.raises(MethodError, match="time limit"):
        ask(Search(), worked_example(), [[1, 1]], time_limit=-1.0)
    with pytest.raises(MethodError, match="begins with"):
        search(worked_example().given([[1, 1]]), begin="middle")
    with pytest.raises(MethodError, match="passes"):
        ask(Search(passes=-1), worked_example(), [[1, 1]])
    for wrong in ([[1.0, 1.0]], [[-1.0]], [[np.nan]]):
        with pytest.raises(MethodError, match="multipliers"):
            search(worked_example().given([[1, 1]]), multipliers=wrong)


def test_interruption_keeps_what_is_finished():
    problem, evidence = many_rows()

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(Interrupted) as caught:
        ask(Search(passes=3), problem, evidence, running=Running(progress=stop))
    done = caught.value.finished
    assert 0 < done < len(evidence)
    assert caught.value.solutions.feasible[:done].all()
    assert set(caught.value.solutions.labels[done:]) <= {"feasible", "unknown"}


def test_exact_answers_wide_rows_however_little_time_there_is(monkeypatch):
    from cmpe.solvers import exact

    monkeypatch.setattr(exact, "MOST_BYTES", 0)
    problem, evidence = many_rows(rows=2)
    answer = cmpe.solve(problem, evidence, method="exact", time_limit=0.05)
    assert set(answer.method) == {"race"}
    assert answer.feasible.all()


@pytest.mark.parametrize("begin", neighbourhoods.BEGINNINGS)
@settings(max_examples=25)
@given(seeds)
def test_every_beginning_is_sound(begin, seed):
    problem, evidence = random_problem(seed, MULTI)
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    rows = search(problem.given(evidence), budget=Budget(passes=1), begin=begin)
    feasible = problem.is_feasible(rows)
    assert (feasible <= truth.feasible).all()
    values = problem.objective.value(rows)
    assert (values[feasible] <= truth.objective[feasible] + 1e-9).all()
