"""Any evidence, any q: honest answers, warnings outside of what was trained on, refusals."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

import cmpe
from cmpe import Status
from cmpe.learning.amortised.config import QuestionRange
from cmpe.learning.amortised.runs import AmortisedRun
from cmpe.learning.amortised.solver import AmortisedSolver, QuestionWarning
from tests.learning.amortised.cases import posed, questions, solver
from tests.learning.cases import GRID, check_honest
from tests.refusals import refused


def limited(q, problem=None):
    whole = problem or posed()
    return cmpe.Problem(whole.objective, [whole.constraints[0].function <= q])


def some_rows(count=6, seed=8):
    """Evidence of different masks, and a q in the range of training."""
    _, asked = questions(posed(), count, seed, QuestionRange(rates=((0.4, 0.7),)))
    return asked.given.numpy(), float(asked.limits.median())


def test_rows_of_any_mask_are_answered_honestly():
    rows, q = some_rows()
    problem = limited(q)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QuestionWarning)
        found = cmpe.solve(problem, rows, method=solver())
        alone = solver().solve(problem, rows)
    np.testing.assert_array_equal(found.assignments, alone.assignments)
    assert set(found.method) == {"network + search + optimal bound"}
    for k, row in enumerate(rows):
        seen = np.flatnonzero(row >= 0)
        check_honest(problem.observing(seen.tolist()), row[seen][None], found.take(np.array([k])))


def test_passes_of_search_follow_unless_repair_is_named():
    usual = solver()
    assert usual.method == "network + search + optimal bound"
    assert usual.with_stages(certificate="none").method == "network + search"
    assert usual.with_stages(repair=True, certificate="none").method == "network + repair"
    assert usual.with_stages(repair=False, certificate="none").method == "network"
    assert usual.with_stages(search_passes=0, certificate="none").method == "network + repair"


def test_a_time_limit_a_start_and_margins():
    rows, q = some_rows(2)
    problem = limited(q + 1.0)
    best = cmpe.solve(problem, rows, method="exact")
    staged = solver().with_stages(margins=[0.0, 1.0], certificate="none")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QuestionWarning)
        begun = cmpe.solve(problem, rows, method=staged, start=best)
        timed = cmpe.solve(problem, rows, method=staged, time_limit=0.01)
    np.testing.assert_allclose(begun.objective, best.objective, atol=1e-6)
    assert set(begun.method) == {"network x 2 + search"}
    assert set(timed.method) == {"network x 2 + search"}
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


def test_a_network_of_a_kind_takes_any_model(tmp_path):
    replace(solver().run, digest="").write(tmp_path / "run")
    found = AmortisedSolver.load(tmp_path / "run", GRID.problem)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QuestionWarning)
        answers = found.solve(GRID.problem, GRID.test)
    assert len(answers) == len(GRID.test)
    assert "any model of its kind" in repr(replace(found, run=replace(found.run, name="")))
    assert "messages for grid4" in repr(solver())


def test_what_a_network_cannot_do_is_refused():
    rows, q = some_rows(1)
    problem, mine = limited(q), solver()
    bare = mine.with_stages(certificate="none")
    refused(lambda: cmpe.solve(problem, rows, method=bare, gap=0.1), "a gap needs a certificate")
    levels = mine.with_stages(levels=True)
    refused(lambda: cmpe.solve(problem, rows, method=levels), "head linear")
    for fixed, match in (({"observed": (3,)}, "one set"), ({"limits": (9.0,)}, "q = .9.0. only")):
        config = replace(mine.run.config, questions=QuestionRange(**fixed))
        other = AmortisedSolver(posed(), replace(mine.run, config=config))
        refused(lambda other=other: cmpe.solve(problem, rows, method=other), match)
    wrong = AmortisedSolver(posed(), AmortisedRun(mine.run.config, mine.run.digest, {}))
    refused(lambda: wrong.predict(rows, q), "weights do not fit")
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
            cmpe.Limits(),
        )
    assert len(found) == 1


def test_messages_are_asked_again_with_q_moved_by_what_the_first_answer_left():
    """No limit is asked about twice: the second question is q + (q - t(y)) of the first answer."""
    one = solver()
    _, asked = questions(one.problem, 12, 9)
    given, limits = asked.given.numpy(), asked.limits.numpy().astype(float)
    first, _ = one.predict(given, limits)
    moved = 2 * limits - one.problem.models[1].value(first)[:, None]
    (rows, prices), (wanted, mu) = one.replies(given, limits), one.predict(given, moved)
    np.testing.assert_array_equal(rows, wanted)
    np.testing.assert_allclose(prices, mu, rtol=1e-3, atol=1e-5)
    assert (moved != limits).any()


def test_an_mlp_is_asked_once():
    one = solver("mlp")
    _, asked = questions(one.problem, 5, 9)
    question = asked.given.numpy(), asked.limits.numpy()
    np.testing.assert_array_equal(one.replies(*question)[0], one.predict(*question)[0])


def test_annealing_follows_the_pass_and_is_never_worse():
    rows, q = some_rows(8)
    quick = solver().with_stages(repair=False, certificate="none")
    cooled = solver().with_stages(repair=False, certificate="none", annealing=20)
    assert cooled.method == "network + annealing"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", QuestionWarning)
        plain, better, again = (s.solve(limited(q), rows, seed=3) for s in (quick, cooled, cooled))
    np.testing.assert_array_equal(better.assignments, again.assignments)
    worth = [
        np.where(limited(q).is_feasible(s.assignments), s.objective, -np.inf)
        for s in (plain, better)
    ]
    assert (worth[1] >= worth[0]).all()
    assert (worth[1] > worth[0]).any()


def test_weights_of_another_version_say_what_is_missing():
    run = solver().run
    fewer = {name: value for name, value in run.parameters.items() if name != "first_in"}
    other = AmortisedSolver(posed(), replace(run, parameters=fewer))
    rows = np.full((1, 16), -1, dtype=np.int32)
    refused(
        lambda: other.predict(rows, np.zeros(1)), "first_in is missing or unknown; train it again"
    )
