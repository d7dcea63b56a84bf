"""Any evidence, any q: honest answers, warnings outside of what was trained on, refusals."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

import cmpe
from cmpe import Limits, Status
from cmpe.learning.amortised.config import QuestionRange
from cmpe.learning.amortised.solver import AmortisedSolver, QuestionWarning
from tests.learning.amortised.cases import posed, questions, solver
from tests.learning.cases import GRID, check_honest
from tests.refusals import refused


def limited(q, problem=None):
    whole = problem or posed()
    return cmpe.Problem(whole.objective, [whole.constraints[0].function <= q])


def some_rows(count=6, seed=8):
    """Evidence of different masks, and a q in the range of training."""
    given, limits = questions(posed(), count, seed, QuestionRange(rates=((0.4, 0.7),)))
    return given, float(np.median(limits))


def test_rows_of_any_mask_are_answered_honestly():
    rows, q = some_rows()
    problem = limited(q)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QuestionWarning)
        found = cmpe.solve(problem, rows, method=solver())
        alone = solver().solve(problem, rows)
    np.testing.assert_array_equal(found.assignments, alone.assignments)
    assert set(found.method) == {"network x 16 + search + optimal bound"}
    for k, row in enumerate(rows):
        seen = np.flatnonzero(row >= 0)
        check_honest(problem.observing(seen.tolist()), row[seen][None], found.take(np.array([k])))


def test_passes_of_search_follow_unless_repair_is_named():
    usual = solver()
    assert usual.method == "network x 16 + search + optimal bound"
    assert usual.with_stages(certificate="none").method == "network x 16 + search"
    assert usual.with_stages(repair=True, certificate="none").method == "network x 16 + repair"
    assert usual.with_stages(repair=False, certificate="none").method == "network"
    assert usual.with_stages(search_passes=0, certificate="none").method == "network x 16 + repair"


def test_a_time_limit_and_a_start():
    rows, q = some_rows(2)
    problem = limited(q + 1.0)
    best = cmpe.solve(problem, rows, method="exact")
    staged = solver().with_stages(certificate="none")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QuestionWarning)
        begun = cmpe.solve(problem, rows, method=staged, start=best)
        timed = cmpe.solve(problem, rows, method=staged, time_limit=0.01)
    np.testing.assert_allclose(begun.objective, best.objective, atol=1e-6)
    assert set(begun.method) == {"network x 16 + search"}
    assert set(timed.method) == {"network + search"}
    assert (timed.status != Status.UNKNOWN).all()


def test_questions_outside_the_training_are_answered_with_a_warning():
    problem = limited(1e3)
    with pytest.warns(QuestionWarning) as said:
        found = cmpe.solve(problem, np.full((1, 16), -1), method=solver())
    assert "0% of the variables are observed, 10% to 90% were in training" in str(said[0].message)
    assert len(said) == 2  # q is outside, too
    assert found.feasible.all()
    rows, q = some_rows(1)
    with pytest.warns(QuestionWarning, match="q lies outside the range of training in 1 of 1 rows"):
        cmpe.solve(problem, rows, method=solver())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cmpe.solve(limited(q), rows, method=solver())


def test_no_rows_need_no_warning():
    none = np.zeros((0, 16), dtype=np.int32)
    assert len(cmpe.solve(limited(3.0).observing(range(16)), none, method=solver())) == 0


def test_a_run_is_loaded_for_any_q_and_evidence(tmp_path):
    solver().save(tmp_path / "run")
    rows, q = some_rows(3)
    again = AmortisedSolver.load(tmp_path / "run", limited(q).observing([1, 2]))
    for mine, theirs in zip(solver().predict(rows, q), again.predict(rows, q), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QuestionWarning)
        by_path = cmpe.solve(limited(q), rows, method=tmp_path / "run")
    assert len(by_path) == 3
    refused(lambda: cmpe.solve(GRID.problem, GRID.test, method=tmp_path / "run"), "other models")
    refused(lambda: solver().solve(GRID.problem, GRID.test), "the solver: trained for other models")
    assert "messages for grid4" in repr(solver())


def test_what_a_network_cannot_do_is_refused():
    rows, q = some_rows(1)
    problem, mine = limited(q), solver()
    bare = mine.with_stages(certificate="none")
    refused(lambda: cmpe.solve(problem, rows, method=bare, gap=0.1), "a gap needs a certificate")
    other = mine.with_stages(margins=[1.0])
    refused(lambda: cmpe.solve(problem, rows, method=other), "one question")
    on_gpu = Limits(device="cuda")
    block = problem.observing([]).given(rows[:1, :0])
    refused(lambda: mine.answer(block, on_gpu), "answers on cpu only, found 'cuda'")
    for fixed, match in (({"observed": (3,)}, "one set"), ({"limits": (9.0,)}, "q = .9.0. only")):
        config = replace(mine.run.config, questions=QuestionRange(**fixed))
        other = AmortisedSolver(posed(), replace(mine.run, config=config))
        refused(lambda other=other: cmpe.solve(problem, rows, method=other), match)
    smooth = cmpe.Problem(posed().objective, continuous=[0])
    refused(lambda: AmortisedSolver.load("nowhere", smooth), "discrete variables only")


def test_a_problem_of_another_object_is_the_same_models():
    rows, q = some_rows(1)
    copy = cmpe.Problem(
        cmpe.LogLinearModel(posed().objective.cardinalities, posed().models[0].factors),
        [cmpe.Constraint(posed().models[1], q)],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QuestionWarning)
        found = solver().answer(
            copy.observing(np.flatnonzero(rows[0] >= 0).tolist()).given(
                rows[0][rows[0] >= 0][None]
            ),
            Limits(),
        )
    assert len(found) == 1


def test_the_share_of_answers_that_need_repair_is_known():
    rows, q = some_rows(5)
    row = np.flatnonzero(rows[0] >= 0)
    block = limited(q).observing(row.tolist()).given(rows[:1, row])
    answer = solver().predict(block.full(), block.problem.limits).values
    broken = solver().relaxed_violations(block)
    np.testing.assert_array_equal(broken, ~block.problem.is_feasible(answer))
