"""Messages of a schedule against messages of one row in plain numpy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from cmpe import Problem
from cmpe.core.compiler.fence import IS_COMPILED
from cmpe.core.lanes import LANES
from cmpe.core.schedules import (
    LEAN_UNIT,
    SURE,
    Passed,
    message_passes,
    room_for,
)
from cmpe.learning.amortised.messages import NUMBERS, MessagePass, schedule_of
from tests.learning.amortised.cases import FLOOR, posed, questions
from tests.learning.cases import mixed_problem

Problems = [posed(), mixed_problem(), mixed_problem(zeros=True), Problem(posed().objective)]


def _softmax(numbers):
    chances = np.exp(numbers - numbers.max())
    return chances / chances.sum()


class Plain:
    """Messages of one row, as `core.schedules` defines them."""

    def __init__(self, passes, row, q):
        self.h, *self.rest = passes.functions
        self.row, self.q, self.scale = row, q, passes.model.scale
        self.gram = passes.model.gram
        cards = self.h.cardinalities
        self.allowed = [
            [v] if seen >= 0 else range(k) for seen, k, v in zip(row, cards, row, strict=True)
        ]
        scopes = {tuple(sorted(f.scope)) for m in passes.functions for f in m.factors}
        self.joint = sorted(s for s in scopes if len(s) > 1)
        self.free = sum(seen < 0 for seen in row)

    def table(self, weights, scope):
        """h - mu t over `scope`, its variables in ascending order."""
        total = np.zeros([self.h.cardinalities[v] for v in scope])
        for weight, model in zip(weights, (self.h, *self.rest), strict=True):
            for f in model.factors:
                if tuple(sorted(f.scope)) == scope:
                    total = total + weight * np.transpose(f.log_table, np.argsort(f.scope))
        return total

    def room(self, points):
        """(q - t) a free variable at independent distributions, in mean spreads."""
        out = []
        for q, model in zip(self.q, self.rest, strict=True):
            t = 0.0
            for f in model.factors:
                table = f.log_table
                for v in reversed(f.scope):
                    table = table @ points[v]
                t += float(table)
            out.append((q - t) / (self.scale * max(1, self.free)))
        return np.array(out)

    def run(self, schedule):
        """Beliefs and mu after the last round."""
        cards, n = self.h.cardinalities, len(self.row)
        barred = [np.array([0.0 if a in ok else -1e4 for a in range(k)])
                  for ok, k in zip(self.allowed, cards, strict=True)]  # fmt: skip
        room = self.room([_softmax(b) for b in barred])
        share = self.free / n
        first = schedule.first
        raw = first[0] + first[1] * np.tanh(room) + first[2] * np.tanh(share)
        messages = {(s, v): np.zeros(cards[v]) for s in self.joint for v in s}
        beliefs = [np.zeros(k) for k in cards]
        for k in range(schedule.rounds.shape[1]):
            mu = np.log1p(np.exp(raw))
            weights = np.concatenate([[1.0], -mu])
            weights = weights / np.sqrt(weights @ self.gram @ weights + 1e-8)
            about = np.array([1.0, share, mu.sum() / (1.0 + mu.sum())])
            warm, damping, step = schedule.rounds[:, k] @ about
            warm, damping = np.exp(warm), 1.0 / (1.0 + np.exp(-damping)) if k else 0.0
            new = {}
            for scope in self.joint:
                heard = [np.minimum(beliefs[v], np.where(barred[v] < 0, -1e4, 1e4))
                         - messages[scope, v] for v in scope]  # fmt: skip
                total = self.table(weights, scope)
                for i, part in enumerate(heard):
                    shape = [-1 if j == i else 1 for j in range(len(scope))]
                    total = total + part.reshape(shape)
                for i, v in enumerate(scope):
                    others = tuple(j for j in range(len(scope)) if j != i)
                    m = warm * logsumexp(total / warm, axis=others)
                    m = m - heard[i]
                    new[scope, v] = (1 - damping) * (m - m.max()) + damping * messages[scope, v]
            messages = new
            beliefs = [self.table(weights, (v,)) + sum((messages[s, v] for s in self.joint
                       if v in s), np.zeros(cards[v])) for v in range(n)]  # fmt: skip
            room = self.room([_softmax(SURE * b + c) for b, c in zip(beliefs, barred, strict=True)])
            lean = schedule.lean @ about / (LEAN_UNIT * np.sqrt(max(1, self.free)))
            raw = raw - np.exp(step) * (room + lean)
        return [b + c for b, c in zip(beliefs, barred, strict=True)], np.log1p(np.exp(raw))


@pytest.mark.parametrize("problem", Problems, ids=["grid", "mixed", "zeros", "no constraint"])
def test_answers_and_multipliers_are_those_of_the_formulas(problem):
    passes = MessagePass.of(problem, FLOOR)
    numbers = 0.3 * np.random.default_rng(3).normal(size=NUMBERS)
    schedule = schedule_of(numbers, 5)
    given, limits = questions(problem, LANES + 4 if IS_COMPILED else 8, 2)
    rows, q = given.astype(np.int64), np.ascontiguousarray(limits, dtype=np.float64)
    found = Passed(np.zeros(given.shape, np.int32), np.zeros(limits.shape), np.zeros(limits.shape))
    message_passes(passes.model, schedule, (rows, q), room_for(passes.model), found)
    compared = 0
    for i, (row, q) in enumerate(zip(given, limits, strict=True)):
        beliefs, mu = Plain(passes, row, q).run(schedule)
        np.testing.assert_allclose(found.multipliers[i], mu, rtol=2e-2, atol=2e-3)
        for v, belief in enumerate(beliefs):
            first, *others = np.sort(belief)[::-1]
            if others and first - others[0] > 0.02:
                assert found.values[i, v] == np.argmax(belief)
                compared += 1
    assert compared > 0.8 * given.size
