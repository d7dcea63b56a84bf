import itertools

import numpy as np
import pytest
from hypothesis import given, settings

from cmpe import Constraint, Factor, LogLinearModel, MultilinearPolynomial, Problem, Work
from cmpe.bounds.rlt import Rlt
from cmpe.errors import MethodError, ModelError, TooLarge
from cmpe.models.distance import Distance
from tests.problems import WORKED_H, WORKED_T, seeds


def random_polynomial(rng: np.random.Generator, variables: int) -> MultilinearPolynomial:
    weights = {}
    for _ in range(int(rng.integers(1, 7))):
        degree = int(rng.integers(0, min(3, variables) + 1))
        monomial = tuple(rng.choice(variables, degree, replace=False).tolist())
        weights[monomial] = float(rng.integers(-4, 5)) if rng.random() < 0.5 else rng.normal()
    return MultilinearPolynomial(variables, weights)


def over_the_box(h, *constraints, observed=()):
    """Maximise h subject to each t <= q over [0, 1]^n."""
    limited = tuple(Constraint(t.to_model(), q) for t, q in constraints)
    return Problem(h.to_model(), limited, observed, continuous=range(h.variables))


def rlt(problem, evidence=None, *, products=True, work=Work()):  # noqa: B008
    return Rlt(products).upper_bound(problem.given(evidence), work)


@settings(max_examples=150)
@given(seeds)
def test_no_point_of_a_dense_grid_is_above_the_bound(seed):
    rng = np.random.default_rng(seed)
    variables = int(rng.integers(1, 5))
    side = np.linspace(0, 1, 9 if variables > 3 else 17)
    points = np.array(list(itertools.product(side, repeat=variables)))
    h, constraints, feasible = random_polynomial(rng, variables), [], np.ones(len(points), bool)
    for _ in range(int(rng.integers(0, 3))):
        t = random_polynomial(rng, variables)
        values = t.value(points)
        q = float(rng.choice(values)) if rng.random() < 0.9 else float(values.min()) - 0.5
        constraints.append((t, q))
        feasible &= values <= q + 1e-6 * max(1, abs(q))
    problem = over_the_box(h, *constraints)
    tight, loose = (rlt(problem, products=p).upper[0] for p in (True, False))
    best = h.value(points)[feasible].max() if feasible.any() else -np.inf
    assert best <= tight <= loose + 1e-6
    assert best <= rlt(problem, work=Work(steps=int(rng.integers(0, 6)))).upper[0]
    if not constraints:  # multilinear: the maximum is at a vertex
        assert loose >= best
        if all(len(m) <= 1 for m in h.weights):
            assert loose == pytest.approx(best, abs=1e-6)


def test_the_worked_example_with_evidence():
    problem = over_the_box(WORKED_H, (WORKED_T, 20.0), observed=(0, 1))
    evidence = [(1.0, 1.0), (0.5, 0.25)]
    found = rlt(problem, evidence)
    side = np.linspace(0, 1, 201)
    for upper, x in zip(found.upper, evidence, strict=True):
        points = np.array([(*x, a, b) for a in side for b in side])
        inside = WORKED_T.value(points) <= 20
        best = WORKED_H.value(points)[inside].max() if inside.any() else -np.inf
        assert best <= upper <= best + 0.5
    assert found.multipliers.shape == (2, 1)
    assert (found.multipliers >= 0).all()
    assert (found.steps >= 0).all()
    assert (found.seconds > 0).all()


def test_discrete_variables_are_relaxed():
    problem = over_the_box(WORKED_H, (WORKED_T, 20.0), observed=(0, 1))
    mixed = Problem(problem.objective, problem.constraints, (0, 1), continuous=(3,))
    np.testing.assert_array_equal(rlt(mixed, [[1, 1]]).upper, rlt(problem, [[1, 1]]).upper)


def test_products_of_constraints_tighten():
    gained = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        h, t = random_polynomial(rng, 3), random_polynomial(rng, 3)
        problem = over_the_box(h, (t, float(t.value(rng.random((1, 3)))[0])))
        loose, tight = (rlt(problem, products=p).upper[0] for p in (False, True))
        gained.append(loose - tight)
    assert min(gained) >= -1e-6
    assert max(gained) > 1e-3


def test_infeasible_is_proved():
    h = MultilinearPolynomial(1, {(0,): 1.0})
    found = rlt(over_the_box(h, (h, -1.0)))
    assert found.infeasible.tolist() == [True]
    assert found.upper[0] == -np.inf
    assert rlt(over_the_box(h, (h, -1e-7))).upper[0] >= 0  # within tolerance


def test_without_time_the_box_is_the_bound():
    h = MultilinearPolynomial(2, {(0,): 1.0, (0, 1): 2.0, (1,): -1.0})
    found = rlt(over_the_box(h), work=Work(time_limit=0.0))
    assert 2.0 <= found.upper[0] <= 3.0 + 1e-9


def test_errors():
    long = MultilinearPolynomial(12, {tuple(range(12)): 1.0})
    with pytest.raises(TooLarge, match=r"12 factors has 2\^12 products; the limit is 10"):
        rlt(over_the_box(long))
    zero = Problem(LogLinearModel((2,), (Factor((0,), [0.0, -np.inf]),)), continuous=(0,))
    with pytest.raises(ModelError, match="a polynomial needs finite tables"):
        rlt(zero)
    with pytest.raises(MethodError, match="needs tables"):
        rlt(Problem(Distance((2, 2), ((0, 1),)), continuous=(0, 1)))
