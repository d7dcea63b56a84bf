"""`cmpe.best` against enumeration; ties, long lists, too little room; what `Ranked` shows."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

import cmpe
from cmpe import Constraint, LogLinearModel, Problem, Running
from cmpe.errors import TooLarge
from cmpe.generation import grid
from cmpe.problem import FEASIBILITY_TOLERANCE
from cmpe.tradeoffs import best as module
from cmpe.tradeoffs.best import ranked_of
from cmpe.tradeoffs.points import h_tolerance
from tests.problems import Shape, random_network_problem, random_problem, seeds, worked_example
from tests.refusals import refused
from tests.tradeoffs.truth import enumerated


def assert_ranked(problem, evidence, k):
    for ranked, truth in zip(
        cmpe.best(problem, evidence, k), enumerated(problem, evidence), strict=True
    ):
        rows, h = truth.ranked()
        assert ranked.complete
        np.testing.assert_array_equal(ranked.assignments, rows[:k])
        np.testing.assert_array_equal(ranked.objective, h[:k])
        missing = h[k] if len(h) > k else -np.inf
        assert ranked.bound == pytest.approx(missing, abs=1e-9)


@pytest.mark.parametrize("constraints", [0, 1, 2])
@pytest.mark.parametrize("k", [1, 5, 100])
@settings(max_examples=12)
@given(seeds)
def test_small_problems_of_every_kind(constraints, k, seed):
    assert_ranked(*random_problem(seed, Shape(constraints=constraints, variables=6)), k)


@settings(max_examples=20)
@given(seeds)
def test_cutset_networks(seed):
    assert_ranked(*random_network_problem(seed), 4)


def test_no_answer_and_no_row():
    problem = worked_example()
    low = Problem(problem.objective, [Constraint(problem.constraints[0].function, -90.0)], (0, 1))
    ranked = cmpe.best(low, [[1, 1]])[0]
    assert ranked.infeasible
    assert "no feasible assignment" in repr(ranked)
    assert cmpe.best(problem, np.zeros((0, 2), dtype=int)) == []


@settings(max_examples=15)
@given(seeds)
def test_answers_at_a_distance_are_greedy(seed):
    problem, evidence = random_problem(seed, Shape(constraints=1, variables=5, values=3))
    for ranked, truth in zip(
        cmpe.best(problem, evidence, 3, distance=2), enumerated(problem, evidence), strict=True
    ):
        rows, h = truth.ranked()
        left = np.ones(len(rows), dtype=bool)
        for answer in ranked:
            best = h[left].max()
            assert answer.objective == pytest.approx(best, abs=1e-6)
            left &= (rows != answer.assignment).sum(axis=1) >= 2
        assert ranked.complete
        assert len(ranked) == 3 or not left.any()


def test_wide_rows_get_what_a_search_finds():
    model = grid(24, 24, seed=2)
    ranked = cmpe.best(Problem(model), k=3, time_limit=0.5)[0]
    assert len(ranked) == 3
    assert (np.diff(ranked.objective) <= 0).all()
    last, near = ranked.objective[-1], h_tolerance(ranked.objective[-1:])[0]
    assert ranked.bound >= last - near
    assert ranked.complete == (ranked.bound <= last + near)


def test_more_answers_than_there_are():
    ranked = cmpe.best(worked_example(), [[1, 1]], k=10**9)[0]
    assert (len(ranked), ranked.complete, ranked.bound) == (2, True, -np.inf)
    running = Running(memory=1.0)
    with pytest.raises(TooLarge, match="the 1000000000 best of a row need about"):
        cmpe.best(Problem(grid(6, 6, seed=1)), k=10**9, running=running)


def test_refusals():
    refused(lambda: cmpe.best(worked_example(), [[1, 1]], 0), "k must be")
    refused(lambda: cmpe.best(worked_example(), [[1, 1]], distance=0), "distance must be")
    refused(lambda: cmpe.best(worked_example().objective), "best needs a Problem")


@pytest.mark.parametrize("constraints", [0, 1])
def test_wide_rows_are_proved_where_every_search_is(constraints, monkeypatch):
    problem, evidence = random_problem(7, Shape(constraints=constraints, variables=5))
    known = cmpe.best(problem, evidence, 4)
    monkeypatch.setattr(module, "too_wide", lambda *_: True)
    for ranked, truth in zip(cmpe.best(problem, evidence, 4), known, strict=True):
        assert ranked.complete
        np.testing.assert_allclose(ranked.objective, truth.objective)


def test_equal_rows_are_ranked_once():
    ranked = cmpe.best(worked_example(), [[1, 1], [0, 1], [1, 1]], 2)
    assert ranked[0] is ranked[2]
    assert ranked[0] is not ranked[1]


def test_the_first_is_optimal_and_the_others_say_how_far_off_they_are():
    ranked = cmpe.best(worked_example(), [[1, 1]], 3)[0]
    assert ranked.objective.tolist() == [11.0, 8.0]
    assert ranked.answers.labels == ["optimal", "feasible"]
    assert ranked[1].gap == 3.0
    assert ranked[1].free == {2: 1, 3: 1}
    assert "2 answers, proved to be all there are" in repr(ranked)
    assert "rank" in ranked._repr_html_()
    assert ranked.to_frame()["objective"].tolist() == [11.0, 8.0]


def test_a_shorter_list_says_what_it_left_out():
    problem = worked_example()
    rows = cmpe.best(problem, [[1, 1]], 3)[0].assignments
    whole = ranked_of(problem, rows[::-1].copy(), complete=True, bound=-np.inf)
    assert whole.objective.tolist() == [11.0, 8.0]
    first = ranked_of(problem, rows[::-1].copy(), 1, complete=True, bound=-np.inf)
    assert first.bound == 8.0
    assert first.objective.tolist() == [11.0]


def test_ties_are_broken_by_the_assignment():
    flat = LogLinearModel.from_tables([2] * 6, [((0, 1), np.zeros((2, 2)))])
    ranked = cmpe.best(Problem(flat), k=5)[0]
    assert ranked.assignments[:, 3:].tolist() == [
        [0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1], [1, 0, 0]
    ]  # fmt: skip
    assert ranked[4].status is cmpe.Status.OPTIMAL


def test_a_cut_search_leaves_a_bound(monkeypatch):
    made = cmpe.generate(grid(6, 6, seed=1), cmpe.Recipe(samples=40, percentile=30))
    whole = cmpe.best(made.problem, made.test[:1], 51)[0]
    monkeypatch.setattr(module, "TRADEOFFS", module.TRADEOFFS._replace(best_spaces=(1 << 7,)))
    ranked = cmpe.best(made.problem, made.test[:1], 50)[0]
    assert not ranked.complete
    assert ranked.bound >= whole.objective[len(ranked)]
    assert "a missing one" in repr(ranked)


def test_ten_answers_begin_a_hundred():
    made = cmpe.generate(grid(7, 7, seed=3), cmpe.Recipe(samples=40, percentile=30))
    many = cmpe.best(made.problem, made.test[:4], 100)
    for few, more in zip(cmpe.best(made.problem, made.test[:4], 10), many, strict=True):
        np.testing.assert_array_equal(few.assignments, more.assignments[:10])
        assert few.bound == more.objective[10]
        assert more.complete


def test_the_time_of_a_row_may_be_over():
    made = cmpe.generate(grid(7, 7, seed=3), cmpe.Recipe(samples=40, percentile=30))
    ranked = cmpe.best(made.problem, made.test[:1], 5000, time_limit=1e-6)[0]
    assert not ranked.complete
    assert ranked.bound > -np.inf


def test_rows_whose_best_are_tied_teach_no_gap():
    tables = [((0,), np.zeros(2)), ((1,), np.array([0.0, -0.6, -3.2, -3.3]))]
    problem = Problem(LogLinearModel.from_tables([2, 4], tables))
    for k in (1, 2, 7):
        ranked = cmpe.best(problem, k=k)[0]
        assert ranked.complete
        assert len(ranked) == k


@pytest.mark.parametrize(("steps", "k"), [(0.0, 10), (0.0, 11_000), (1.0, 11_000)])
def test_more_answers_than_states_are_sorted(steps, k):
    weights = steps * np.sqrt(np.arange(1.0, 19.0))
    tables = [((v,), np.array([0.0, -w])) for v, w in enumerate(weights)]
    ranked = cmpe.best(Problem(LogLinearModel.from_tables([2] * 18, tables)), k=k)[0]
    assert ranked.complete
    values = ranked.assignments
    assert len(np.unique(values, axis=0)) == k
    every = np.zeros(1)
    for w in weights:
        every = np.concatenate([every, every - w])
    np.testing.assert_allclose(ranked.objective, np.sort(every)[::-1][:k], atol=1e-12)


def barely_infeasible(count, feasible):
    """The better `count` values miss the tolerance, and not the looser limit of the lists."""
    h = -np.arange(float(count + feasible)) / 7
    over = np.where(np.arange(len(h)) < count, 1.0 + FEASIBILITY_TOLERANCE + 5e-10, 0.0)
    h_model, t_model = (LogLinearModel.from_tables([len(h)], [((0,), v)]) for v in (h, over))
    return Problem(h_model, [Constraint(t_model, 1.0)])


@pytest.mark.parametrize("count", [1, 2, 20])
def test_answers_that_miss_the_tolerance_make_room_for_others(count):
    ranked = cmpe.best(barely_infeasible(count, 5), k=2)[0]
    assert ranked.complete
    assert ranked.assignments[:, 0].tolist() == [count, count + 1]
    assert ranked.bound == pytest.approx(-(count + 2) / 7)
    whole = cmpe.best(barely_infeasible(count, 5), k=9)[0]
    assert (len(whole), whole.complete, whole.bound) == (5, True, -np.inf)


def test_too_many_of_them_leave_a_bound(monkeypatch):
    monkeypatch.setattr(module, "TRADEOFFS", module.TRADEOFFS._replace(most_rank=16))
    ranked = cmpe.best(barely_infeasible(60, 5), k=2)[0]
    assert (len(ranked), ranked.complete) == (0, False)
    assert ranked.bound >= -60 / 7


def test_what_is_kept_holds_no_array_of_all_rows():
    tables = [((0, 1), np.array([[0.0, 1.0], [2.0, 0.0]]))]
    problem = Problem(LogLinearModel.from_tables([2, 2], tables), (), (0,))
    for ranked in cmpe.best(problem, [[0], [1]], k=1):
        kept = ranked.kept
        assert all(a.base is None for a in (kept.begun, kept.which, kept.stored, kept.values))


def test_tied_rows_are_ranked_again_a_few_at_a_time(monkeypatch):
    model = LogLinearModel.from_tables([3] + [2] * 8, [((0,), np.array([0.0, 1.0, 2.0]))])
    problem = Problem(model, (), (0,))
    monkeypatch.setattr(module, "TRADEOFFS", module.TRADEOFFS._replace(chunk_entries=1 << 11))
    found = cmpe.best(problem, [[0], [1], [2]], k=3)
    assert [r.assignments[:, 5:].tolist() for r in found] == 3 * [
        [[0, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]
    ]


def test_long_variables_are_refused():
    many = LogLinearModel.from_tables([65_536], [((0,), np.zeros(65_536))])
    problem = Problem(many, [Constraint(many, 1.0)])
    message = "at most 65,535 values, found 65,536 of variable 0"
    refused(lambda: cmpe.best(problem), message, TooLarge)
    refused(lambda: cmpe.front(problem), message, TooLarge)


def test_runners_up_whose_rank_is_proved_say_so():
    model = LogLinearModel.from_tables((2, 2), [((0,), [0.0, 1.0]), ((1,), [0.0, 3.0])])
    (ranked,) = cmpe.best(Problem(model), k=3)
    assert ranked.proved.tolist() == [True] * 3
    assert "1: next best, objective 3" in repr(ranked)
    unsure = replace(ranked, complete=False, bound=3.5)
    assert unsure.proved.tolist() == [True, False, False]
    assert "1: feasible, objective 3" in repr(unsure)
    assert "1 (not proved)" in unsure._repr_html_()
