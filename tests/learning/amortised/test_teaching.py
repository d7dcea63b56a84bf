"""Answers of search to questions of any masks and limits, and learning from them."""

from __future__ import annotations

import numpy as np
import torch

from cmpe.learning.amortised.networks import network_of
from cmpe.learning.amortised.stepping import QuestionLoss
from cmpe.learning.amortised.teaching import search_answers
from cmpe.learning.amortised.training import fit_amortised
from tests.learning.amortised.cases import completions, config, posed, questions
from tests.learning.cases import mixed_problem


def test_answers_keep_evidence_and_limits_and_are_optima_of_small_problems():
    problem = mixed_problem(zeros=False)
    _, asked = questions(problem, 8, 4)
    given, limits = asked.given.numpy(), asked.limits.double().numpy()
    found = search_answers(problem, given, limits, 0.05)
    for row, q, answer in zip(given, limits, found, strict=True):
        every = completions(row, problem.objective.cardinalities)
        fits = (problem.constraint_values(every) <= q).all(axis=1)
        if not fits.any():
            assert (answer == -1).all()
            continue
        assert (answer[row >= 0] == row[row >= 0]).all()
        assert (problem.constraint_values(answer[None]) <= q).all()
        best = problem.objective.value(every[fits]).max()
        assert problem.objective.value(answer[None])[0] > best - 1e-6


def test_what_is_taught_is_learnt():
    """Answers surprise a network less that was taught them; rows without answers add nothing."""
    problem, settings = posed(3), config(taught=60, teaching=0.005, mix=5.0, updates=60)
    _, asked = questions(problem, 40, 5)
    maker = questions(problem, 1, 6)[0]
    answers = search_answers(problem, asked.given.numpy(), asked.limits.numpy(), 0.005)
    known = asked._replace(answers=torch.as_tensor(answers, dtype=torch.int64))
    surprise = []
    for weights in (None, fit_amortised(problem, settings).run.parameters):
        network = network_of(settings, maker.tables)
        if weights is not None:
            network.load_state_dict(weights)
        loss = QuestionLoss(network, settings, maker.tables.device)
        both = [
            float(loss(maker.tables, maker, a, torch.zeros(())).detach()) for a in (asked, known)
        ]
        surprise.append(both[1] - both[0])
    assert np.isfinite(surprise).all()
    assert 0.0 < surprise[1] < 0.8 * surprise[0]
