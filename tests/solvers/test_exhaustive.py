"""The oracle of the other tests, against a loop that shares nothing with it."""

import itertools

import numpy as np
import pytest

import cmpe
from cmpe import LogLinearModel, Problem, Running, Status
from cmpe.errors import MethodError, TooLarge
from cmpe.solvers import exhaustive
from cmpe.solvers.exhaustive import Exhaustive
from tests.problems import Shape, ask, random_problem, worked_example


def test_the_exhaustive_oracle_itself():
    for seed in range(100):
        problem, evidence = random_problem(seed)
        answers = cmpe.solve(problem, evidence, method="exhaustive")
        for row, observed in enumerate(evidence):
            best = -np.inf
            for z in itertools.product(*map(range, problem.objective.cardinalities)):
                if any(
                    z[v] != x for v, x in zip(problem.evidence_variables, observed, strict=True)
                ):
                    continue
                h, *ts = (
                    sum((f.log_table[tuple(z[v] for v in f.scope)] for f in m.factors), 0.0)
                    for m in problem.functions
                )
                limits = [(c.at_most, c.tolerance) for c in problem.constraints]
                if all(t <= q + e for t, (q, e) in zip(ts, limits, strict=True)):
                    best = max(best, h)
            if best == -np.inf:
                assert answers.status[row] == Status.INFEASIBLE
            else:
                assert answers.status[row] == Status.OPTIMAL
                assert answers.objective[row] == pytest.approx(best)


def test_exhaustive_is_guarded_by_size():
    with pytest.raises(
        TooLarge, match=r"at most 4194304 assignments a row; this problem has 3.44e\+10"
    ):
        cmpe.solve(Problem(LogLinearModel((2,) * 35)), method="exhaustive")


def test_the_first_of_equal_answers_is_taken():
    problem = Problem(LogLinearModel.from_tables([2, 3], [((0,), [1.0, 1.0])]))
    answer = cmpe.solve(problem, method="exhaustive")
    assert answer.assignments.tolist() == [[0, 0]]
    assert answer.labels == ["optimal"]


@pytest.mark.parametrize("chunk", [1, 3, 4])
def test_chunks_change_nothing(monkeypatch, chunk):
    problem, rows = worked_example(), [[0, 0], [0, 1], [1, 0], [1, 1]]
    whole = ask(Exhaustive(), problem, rows)
    monkeypatch.setattr(exhaustive, "SOLVERS", exhaustive.SOLVERS._replace(chunk=chunk))
    parts = ask(Exhaustive(), problem, rows)
    np.testing.assert_array_equal(parts.assignments, whole.assignments)
    np.testing.assert_array_equal(parts.status, whole.status)


def test_a_time_limit_leaves_what_was_seen_and_no_bound(monkeypatch):
    """One assignment a chunk: only the first of four is seen, and it is no proof."""
    monkeypatch.setattr(exhaustive, "SOLVERS", exhaustive.SOLVERS._replace(chunk=1))
    h = LogLinearModel.from_tables([2, 2], [((0, 1), [[1.0, 2.0], [3.0, 4.0]])])
    found = ask(Exhaustive(), Problem(h), time_limit=1e-9)
    assert found.assignments.tolist() == [[0, 0]]
    assert found.labels == ["feasible"]
    assert found.bound.tolist() == [np.inf]
    forbidden = LogLinearModel.from_tables([2, 2], [((0,), [-np.inf, 0.0])])
    assert ask(Exhaustive(), Problem(forbidden), time_limit=1e-9).labels == ["unknown"]


def test_the_last_chunk_is_a_proof_however_late(monkeypatch):
    found = ask(Exhaustive(), worked_example(), [[1, 1]], time_limit=1e-9)
    assert (found.labels, found.objective.tolist()) == (["optimal"], [11.0])


def test_nothing_free_and_no_rows():
    problem = worked_example().observing((0, 1, 2, 3))
    found = ask(Exhaustive(), problem, [[1, 1, 0, 1], [1, 1, 0, 0]])
    assert found.labels == ["optimal", "infeasible"]
    assert len(ask(Exhaustive(), problem, np.zeros((0, 4), dtype=int))) == 0


def test_the_size_that_is_allowed_counts_free_variables_only():
    problem = worked_example()
    assert ask(Exhaustive(most_states=4), problem, [[1, 1]]).labels == ["optimal"]
    with pytest.raises(TooLarge, match="at most 3 assignments a row; this problem has 4;"):
        ask(Exhaustive(most_states=3), problem, [[1, 1]])


def test_numbers_between_0_and_1_are_not_enumerated():
    h = LogLinearModel.from_tables([2], [((0,), [0.0, 1.0])])
    with pytest.raises(MethodError, match="enumerates values; found continuous variables"):
        cmpe.solve(Problem(h, (), (), "", (0,)), method="exhaustive")


def test_observed_numbers_between_0_and_1_are_allowed():
    h = LogLinearModel.from_tables([2, 2], [((0, 1), [[0.0, 1.0], [3.0, 0.5]])])
    problem = Problem(h, (), (0,), "", (0,))
    found = cmpe.solve(problem, [[0.25], [0.75]], method="exhaustive")
    assert found.assignments.tolist() == [[0.25, 1.0], [0.75, 0.0]]
    assert found.objective.tolist() == [0.875, 2.25]
    assert found.labels == ["optimal"] * 2


def test_blocks_of_rows_give_what_single_rows_give(monkeypatch):
    monkeypatch.setattr(exhaustive, "SOLVERS", exhaustive.SOLVERS._replace(block=1 << 8))
    for seed in range(60):
        problem, _ = random_problem(seed, Shape(constraints=3, variables=7))
        rng = np.random.default_rng(seed)
        cards = problem.domain.cardinalities
        rows = [[rng.integers(cards[v]) for v in problem.evidence_variables] for _ in range(24)]
        many = ask(Exhaustive(), problem, rows)
        for row, observed in enumerate(rows):
            alone = ask(Exhaustive(), problem, [observed])
            assert many.labels[row] == alone.labels[0]
            np.testing.assert_allclose(many.objective[row], alone.objective[0], atol=1e-12)
        wanted = cmpe.solve(problem, rows, method="exact")
        np.testing.assert_allclose(many.objective, wanted.objective, atol=1e-9)


def test_what_rounding_decides_is_judged_by_the_problem():
    """Sums of tables are added in another order, so the best completion may break the limit."""
    entries = np.array([1e9 + 0.1, 0.3, -1e9 + 0.7])
    t = LogLinearModel.from_tables([2] * 3, [((v,), [0.0, e]) for v, e in enumerate(entries)])
    values = t.value(np.stack(np.unravel_index(np.arange(8), (2,) * 3), axis=1))
    h = LogLinearModel.from_tables([2] * 3, [((0, 1, 2), np.arange(8.0).reshape(2, 2, 2))])
    for q in (*(values - 1e-6), *(values - np.maximum(1.0, abs(values)) * 1e-6)):
        problem = Problem(h, [cmpe.Constraint(t, float(q))])
        many = ask(Exhaustive(), problem, np.zeros((6, 0)))
        best = np.flatnonzero(problem.is_feasible(np.argwhere(np.ones((2, 2, 2)))))
        assert many.objective.tolist() == [float(best.max())] * 6 if len(best) else True
        assert set(many.labels) == {"optimal" if len(best) else "infeasible"}


def test_few_completions_under_several_constraints_are_enumerated():
    rng = np.random.default_rng(0)
    cards = [2] * 8
    pairs = [((i, j), rng.normal(size=(2, 2))) for i in range(8) for j in range(i)]
    costs = [cmpe.linear({v: {1: float(rng.normal())} for v in range(8)}) <= -1.0 for _ in range(3)]
    problem = Problem(LogLinearModel.from_tables(cards, pairs), costs)
    scores = rng.normal(size=(40, 8, 2))
    quick = cmpe.solve(problem, potentials=scores)
    assert set(quick.method) == {"exhaustive"}
    slow = cmpe.solve(problem, potentials=scores, method="exact")
    np.testing.assert_allclose(quick.objective, slow.objective, atol=1e-9)
    np.testing.assert_array_equal(quick.status, slow.status)
    assert set(cmpe.solve(Problem(problem.objective, costs[:1])).method) == {"exact"}


def test_progress_counts_rows():
    seen = []
    running = Running(progress=lambda *now: seen.append(now))
    ask(Exhaustive(), worked_example(), [[0, 0], [0, 0]], running=running)
    assert seen == [(2, 2)]
