"""Gibbs chains against the same sampler in plain Python."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from cmpe.core.sampling import chains
from cmpe.sampling.chains import GibbsTables
from tests.core.cases import Case, examples, plain_values
from tests.problems import Shape, seeds

MASK = (1 << 64) - 1


def uniforms(state):
    """SplitMix64 (Steele, Lea and Flood 2014)."""
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        yield ((z ^ (z >> 31)) >> 11) / 2.0**53


def plain_chain(model, seed, betas, z):
    """One variable after another, drawn given all others."""
    drawn, z = uniforms(seed), z.copy()
    for v, k in enumerate(model.cardinalities):
        z[v] = int(next(drawn) * k) if z[v] < 0 else z[v]
    for beta in betas:
        for v, k in enumerate(model.cardinalities):
            rows = np.repeat(z[np.newaxis], k, axis=0)
            rows[:, v] = np.arange(k)
            values = plain_values(model, rows)
            edges = np.cumsum(np.exp(beta * (values - values.max())))
            z[v] = min(int((edges <= next(drawn) * edges[-1]).sum()), k - 1)
    return z


@given(seeds)
@examples(60)
def test_chains_are_those_of_plain_python(seed):
    case = Case.random(seed, Shape(variables=4, values=3, arity=3, constraints=0, zeros=False))
    model = case.problem.models[0]
    tables = GibbsTables.of(model, -30.0)
    numbers = case.rng.integers(0, 1 << 63, 3).astype(np.uint64)
    betas = np.array([0.3, 0.7, 1.0, 1.0])
    out = np.full((3, model.variables), -1, dtype=np.int32)
    out[1] = [case.rng.integers(-1, k) for k in model.cardinalities]
    begun, flat = out.copy(), tables.flat
    arrays = (flat.cardinalities, flat.offsets, flat.starts, flat.variables, flat.strides)
    chains(numbers, betas, arrays, tables.values, tables.starts, tables.tables, tables.strides, out)
    for number, first, z in zip(numbers.tolist(), begun, out, strict=True):
        assert (z == plain_chain(model, number, betas, first)).all()
