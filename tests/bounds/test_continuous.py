import itertools

import numpy as np
import pytest
from hypothesis import given, settings

from cmpe import MultilinearPolynomial
from cmpe.bounds.continuous import PolynomialProblem, linearization_bound
from cmpe.errors import ModelError, TooLarge
from tests.problems import WORKED_H, WORKED_T, seeds


def random_polynomial(rng: np.random.Generator, variables: int) -> MultilinearPolynomial:
    weights = {}
    for _ in range(int(rng.integers(1, 7))):
        degree = int(rng.integers(0, min(3, variables) + 1))
        monomial = tuple(rng.choice(variables, degree, replace=False).tolist())
        weights[monomial] = float(rng.integers(-4, 5)) if rng.random() < 0.5 else rng.normal()
    return MultilinearPolynomial(variables, weights)


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
    problem = PolynomialProblem(h, tuple(constraints))
    tight = linearization_bound(problem)
    loose = linearization_bound(problem, products=False)
    best = h.value(points)[feasible].max() if feasible.any() else -np.inf
    assert best <= tight <= loose + 1e-6
    if not constraints:  # multilinear: the maximum is at a vertex
        assert loose >= best
        if all(len(m) <= 1 for m in h.weights):
            assert loose == pytest.approx(best, abs=1e-6)


def test_the_worked_example():
    problem = PolynomialProblem(WORKED_H, ((WORKED_T, 20.0),)).given({0: 1.0, 1: 1.0})
    bound = linearization_bound(problem)
    side = np.linspace(0, 1, 201)
    grid = np.array([(1, 1, a, b) for a in side for b in side])
    best = WORKED_H.value(grid)[WORKED_T.value(grid) <= 20].max()
    assert best <= bound <= best + 0.5


def test_products_of_constraints_tighten():
    gained = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        h, t = random_polynomial(rng, 3), random_polynomial(rng, 3)
        problem = PolynomialProblem(h, ((t, float(t.value(rng.random((1, 3)))[0])),))
        gained.append(linearization_bound(problem, products=False) - linearization_bound(problem))
    assert min(gained) >= -1e-6
    assert max(gained) > 1e-3


def test_infeasible_is_proved():
    h = MultilinearPolynomial(1, {(0,): 1.0})
    assert linearization_bound(PolynomialProblem(h, ((h, -1.0),))) == -np.inf
    assert linearization_bound(PolynomialProblem(h, ((h, -1e-7),))) >= 0  # within tolerance


def test_errors():
    one, two = MultilinearPolynomial(1, {(0,): 1.0}), MultilinearPolynomial(2, {(0, 1): 1.0})
    with pytest.raises(ModelError, match="must have the objective's 1 variables, found 2"):
        PolynomialProblem(one, ((two, 0.0),))
    with pytest.raises(ModelError, match="variable 0 must be from 0 to 1, found 2"):
        PolynomialProblem(one).given({0: 2})
    long = MultilinearPolynomial(12, {tuple(range(12)): 1.0})
    with pytest.raises(TooLarge, match="12 factors has 2\\^12 products; the limit is 10"):
        linearization_bound(PolynomialProblem(long))
