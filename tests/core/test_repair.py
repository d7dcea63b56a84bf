"""`search`: repair, polish and kicks of whole batches against enumeration."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from cmpe.core.compiler.fence import IS_COMPILED
from cmpe.core.compiler.functions import njit
from cmpe.core.repair import draw, search
from cmpe.solvers.local import Effort
from tests.core.cases import Moving, examples
from tests.problems import Shape, seeds

TIGHT = Shape(variables=5, values=3, arity=3, factors=8, constraints=2)


@njit(cache=False)
def fill(state, below, out):
    for i in range(len(out)):
        out[i] = draw(state, below)


def test_random_numbers_are_those_of_xorshift():
    """xorshift64* (Vigna 2016), of whose high bits a remainder is taken."""
    state, mask, wanted = 88172645463325252, (1 << 64) - 1, []
    for _ in range(20):
        state ^= state >> 12
        state = (state ^ (state << 25)) & mask
        state ^= state >> 27
        wanted.append((((state * 0x2545F4914F6CDD1D) & mask) >> 33) % 7)
    out = np.zeros(20, dtype=np.int64)
    fill(np.array([88172645463325252], dtype=np.uint64), 7, out)
    assert out.tolist() == wanted


def improved(case, rows, effort):
    out = rows.copy()
    numbers = np.random.default_rng(1).integers(1, 1 << 62, len(out)).astype(np.uint64)
    evidence = case.instances.evidence
    search(
        evidence, case.graph, case.gather, case.rules, case.rules.unlimited(), effort, numbers, out
    )
    return out


@given(seeds)
@examples(100)
def test_answers_are_no_worse_than_their_start(seed):
    case = Moving.random(seed, TIGHT)
    start = case.start()
    for effort in (Effort(), Effort(sweeps=1, kicks=6)):
        out = improved(case, start, effort)
        assert np.array_equal(out, improved(case, start, effort))
        for row, pair in enumerate(np.stack([start, out], axis=1)):
            given_values = case.instances.full()[row]
            assert ((given_values < 0) | (given_values == out[row])).all()
            before, after = case.penalties(row, pair)
            h = case.channels(row, pair)[0][:, 0]
            assert after <= before + 1e-9
            assert before > 0.0 or h[1] >= h[0] - 1e-9


def test_nearly_all_optima_of_small_problems_are_reached():
    """Measured: all of 300 problems."""
    feasible = answered = best = 0
    for seed in range(300 if IS_COMPILED else 25):
        case = Moving.random(seed, TIGHT)
        out = improved(case, np.full_like(case.start(), -1), Effort(kicks=10))
        for row, z in enumerate(out):
            every, h, _ = case.every(row)
            allowed = case.penalties(row, every) == 0.0
            feasible += allowed.any()
            if case.penalties(row, z[np.newaxis])[0] == 0.0:
                assert allowed.any()
                answered += 1
                reached = case.channels(row, z[np.newaxis])[0][0, 0]
                best += np.isclose(reached, h[allowed].max(), rtol=1e-9, atol=1e-9)
    assert answered >= 0.99 * feasible
    assert best >= 0.99 * answered
