"""Mixtures of answers against enumeration of the components in which they differ."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
from hypothesis import given

from cmpe.core.mixtures import blend
from tests.core.cases import Moving, examples
from tests.problems import Shape, seeds

LOOSE = Shape(variables=9, values=2, arity=2, factors=14, constraints=1)


def parts_of(case, one, other):
    """Sets of variables in which two answers differ, joined by the tables that hold them."""
    left = set(np.flatnonzero(one != other).tolist())
    while left:
        part = {left.pop()}
        while more := {v for s in case.structure.scopes if part & set(s) for v in s} & left:
            part |= more
            left -= more
        yield sorted(part)


def best_mixture(case, row, one, other):
    """The highest h of a feasible mixture, by all choices of components."""
    parts = list(parts_of(case, one, other))
    z = np.repeat(one[np.newaxis], 2 ** len(parts), axis=0)
    for mixture, taken in zip(z, itertools.product((0, 1), repeat=len(parts)), strict=True):
        for part, from_other in zip(parts, taken, strict=True):
            if from_other:
                mixture[part] = other[part]
    allowed = case.penalties(row, z) == 0.0
    return case.channels(row, z)[0][allowed, 0].max(initial=-np.inf)


def blended(case, answers, trades):
    out = answers[0].copy()
    blend(case.instances.evidence, case.graph, case.gather, case.rules, answers, trades, out)
    return out


@given(seeds)
@examples(600)
def test_two_answers_give_their_best_mixture(seed):
    case = Moving.random(seed, replace(LOOSE, zeros=bool(seed % 2)), least=3)
    answers = np.stack([case.start(), case.start()])
    out = blended(case, answers, 0)
    for row, z in enumerate(out):
        both = case.penalties(row, answers[:, row])
        away, h = case.penalties(row, z[np.newaxis])[0], case.channels(row, z[np.newaxis])[0][0, 0]
        if both.min() > 0.0:
            assert np.isclose(away, both.min(), rtol=1e-9)
            assert (z == answers[:, row]).all(axis=1).any()
        else:
            assert away == 0.0
            best = best_mixture(case, row, *answers[:, row])
            assert h <= best + 1e-9
            if not np.isneginf(case.tables(0)[:, row]).any():
                assert h >= best - 1e-9


@given(seeds)
@examples(100)
def test_trades_lead_to_answers_without_better_single_moves(seed):
    case = Moving.random(seed, replace(LOOSE, zeros=bool(seed % 2)), least=3)
    answers = np.stack([case.start() for _ in range(3)])
    before, out = blended(case, answers, 0), blended(case, answers, 20)
    for row, z in enumerate(out):
        here = np.stack([before[row], z])
        if case.penalties(row, here[:1])[0] > 0.0:
            assert (here[0] == here[1]).all()
            continue
        around = np.concatenate([here, case.neighbours(z)])
        away, h = case.penalties(row, around), case.channels(row, around)[0][:, 0]
        assert away[1] == 0.0
        assert h[1] >= h[0] - 1e-9
        assert h[1] >= h[2:][away[2:] == 0.0].max(initial=-np.inf) - 1e-8
