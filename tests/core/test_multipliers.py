"""The aim of subgradient steps against plain Python, and in torch."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cmpe.core import multipliers
from cmpe.core.compiler.functions import njit
from cmpe.core.multipliers import BEST, COPY_RULE, DUAL_RULE, MESSAGE_RULE, REFERENCE_RULE
from tests.core.cases import examples

RULES = {"dual": DUAL_RULE, "reference": REFERENCE_RULE, "message": MESSAGE_RULE, "copy": COPY_RULE}


@njit(cache=False)
def falls(bounds, rule, out):
    level = np.zeros(3)
    level[BEST] = np.inf
    for i in range(len(bounds)):
        out[i] = multipliers.fall(bounds[i], level, rule)
        level[BEST] = min(level[BEST], bounds[i])


def expected(bounds, rule):
    best, aim, stale, out = math.inf, 0.0, 0, []
    for bound in bounds:
        if best == math.inf:
            aim = rule.first * (1 + abs(bound))
        if bound < best - rule.enough * aim - rule.least * (1 + abs(bound)):
            stale = 0
            aim *= rule.growth if bound < best - rule.much * aim else 1.0
        else:
            stale += 1
        if stale >= rule.patience:
            stale, aim = 0, rule.cut * aim
        out.append(bound - min(bound, best) + aim)
        best = min(best, bound)
    return out


numbers = st.lists(st.floats(-50, 50), min_size=1, max_size=40)


@pytest.mark.parametrize("name", RULES)
@given(numbers)
@examples(100)
def test_aims_follow_their_rule(name, bounds):
    out = np.zeros(len(bounds))
    falls(np.array(bounds), RULES[name], out)
    assert np.allclose(out, expected(bounds, RULES[name]), rtol=1e-12)


@pytest.mark.parametrize("name", RULES)
def test_torch_has_the_same_rule(name):
    torch = pytest.importorskip("torch")
    from cmpe.tensor.steps import Aim

    bounds = np.random.default_rng(0).normal(0, 3, (30, 2))
    aim, best = Aim(RULES[name], torch.zeros(2, dtype=torch.float64)), torch.full((2,), math.inf)
    out = []
    for row in torch.tensor(bounds):
        out.append(aim.fall(row, best).numpy())
        best = torch.minimum(best, row)
    for lane in range(2):
        assert np.allclose(np.array(out)[:, lane], expected(bounds[:, lane], RULES[name]))
