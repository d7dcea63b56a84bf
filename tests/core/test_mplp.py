"""Message passing with a valid dual: the bound that messages prove, written with numpy."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from cmpe.bounds.base import loosened_limits, row_tables
from cmpe.bounds.messages import PassedRow
from cmpe.core.mplp import pass_messages
from cmpe.core.multipliers import BEST
from tests.core.cases import Case, examples
from tests.problems import Shape, seeds


def bound_of(structure, row, messages, mu):
    """D: the maxima of reparametrised variables and tables, plus mu q."""
    theta, at, offsets = row.h - mu @ row.t, 0, structure.layout.offsets
    beliefs = {v: np.zeros(structure.cardinalities[v]) for v in structure.free}
    total = theta[0] + mu @ row.limits
    for f, scope in enumerate(structure.scopes):
        shape = [structure.cardinalities[v] for v in scope]
        table = theta[offsets[f] : offsets[f + 1]].reshape(shape)
        if len(scope) == 1:
            beliefs[scope[0]] += table
        elif scope:
            for axis, v in enumerate(scope):
                message = messages[at : at + shape[axis]]
                at += shape[axis]
                beliefs[v] += message
                table = table - message.reshape([-1 if i == axis else 1 for i in range(len(scope))])
            total += table.max()
    return total + sum(belief.max() for belief in beliefs.values())


@given(seeds)
@examples(150)
def test_bounds_are_those_of_the_messages(seed):
    case = Case.random(seed)
    passed = PassedRow(case.structure, loosened_limits(case.instances))
    for number in range(len(case.instances)):
        passed.begin(row_tables(case.instances, slice(number, number + 1))[0])
        row, state = passed.row, passed.state
        _, h, t = case.every(number)
        best = h[(t <= row.limits).all(axis=1)].max(initial=-np.inf)
        bounds = []
        for steps in (1, 10, 30):
            pass_messages(passed.tables, row, steps, state)
            wanted = bound_of(case.structure, row, state.best_messages, state.best_mu)
            assert np.isclose(state.level[BEST], wanted, rtol=1e-9, atol=1e-9)
            assert state.bound[0] >= max(best, wanted)
            bounds.append(wanted)
        assert (np.diff(bounds) <= 1e-9).all()


@given(seeds)
@examples(60)
def test_bounds_of_two_variables_are_exact(seed):
    case = Case.random(seed, Shape(variables=2, arity=2, constraints=0, zeros=False))
    passed = PassedRow(case.structure, np.zeros(0))
    passed.begin(row_tables(case.instances, slice(0, 1))[0])
    pass_messages(passed.tables, passed.row, 3, passed.state)
    assert np.isclose(passed.state.level[BEST], case.every(0)[1].max(), rtol=1e-9, atol=1e-9)
