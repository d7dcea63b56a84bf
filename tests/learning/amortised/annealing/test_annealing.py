"""Annealed answers against enumeration."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from cmpe.learning.amortised.annealing import Annealer, coloured
from cmpe.learning.amortised.tables import ModelTables
from tests.learning.amortised.cases import config, posed, questions
from tests.learning.cases import mixed_problem


def _best(problem, given, limits):
    """The largest feasible h of each row, by enumeration; -inf where nothing is feasible."""
    cards = problem.objective.cardinalities
    every = np.stack(np.unravel_index(np.arange(np.prod(cards)), cards), axis=1).astype(np.int32)
    h, t = problem.objective.value(every), _constraints(problem, every)
    out = []
    for row, q in zip(given, limits, strict=True):
        fits = ((row < 0) | (every == row)).all(1) & (t <= q).all(1)
        out.append(h[fits].max() if fits.any() else -np.inf)
    return np.array(out)


def _constraints(problem, rows):
    return np.array([t.value(rows) for t in problem.models[1:]]).reshape(-1, len(rows)).T


@pytest.mark.parametrize("problem", [posed(), mixed_problem()], ids=["grid", "mixed"])
def test_answers_are_feasible_near_the_best_and_those_of_the_seed(problem):
    maker, asked = questions(problem, 60, 3)
    tables = maker.tables
    limits = asked.limits.clone()
    limits[:5] = -1e6
    start = maker.ends(tables.allowed(asked.given))[1]
    runs = [
        Annealer(tables, 40).answers(
            asked.given, limits, start, torch.Generator().manual_seed(1)
        ).numpy()
        for _ in range(2)
    ]  # fmt: skip
    np.testing.assert_array_equal(*runs)
    found, given = runs[0].astype(np.int32), asked.given.numpy()
    best = _best(problem, given, limits.numpy())
    assert (found[~np.isfinite(best)] == -1).all()
    answered = (found >= 0).all(1)
    assert answered[np.isfinite(best)].mean() > 0.8
    found, given, best = found[answered], given[answered], best[answered]
    np.testing.assert_array_equal(found[given >= 0], given[given >= 0])
    assert (_constraints(problem, found) <= limits.numpy()[answered] + 1e-4).all()
    lost = best - problem.objective.value(found)
    assert lost.min() > -1e-4
    assert np.median(lost) < 1e-4


def test_variables_of_one_table_have_different_colours():
    tables = ModelTables(mixed_problem())
    colour = coloured(tables)
    assert colour.min() == 0
    for scope in tables.scopes:
        assert len({int(colour[v]) for v in scope}) == len(scope)


def test_every_question_of_an_annealed_run_has_an_answer_that_bounds_alpha():
    from cmpe.learning.amortised.questions import Subject
    from cmpe.learning.amortised.training import AmortisedTraining
    from cmpe.learning.training.fitting import Session

    settings = config(annealed=20, updates=2)
    subject = Subject.of(posed(), settings, "cpu", None)
    work = AmortisedTraining([subject], settings, Session())
    plain = AmortisedTraining([subject], config(updates=2), Session())
    taught, untaught = work._batch(0, 0), plain._batch(0, 0)
    assert (taught.answers >= 0).all()
    assert (untaught.answers == -1).all()
    assert (taught.p_upper <= untaught.p_upper).all()
    assert work.train()
