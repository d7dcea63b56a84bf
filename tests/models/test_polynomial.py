import itertools

import numpy as np
import pytest
from hypothesis import given

from cmpe import LogLinearModel, MultilinearPolynomial
from cmpe.errors import ModelError
from tests.problems import WORKED_H, WORKED_T, Shape, random_model, seeds


def test_the_worked_example():
    assert WORKED_H.value([0, 1, 0, 1]) == [14]
    assert WORKED_T.value([0, 1, 0, 1]) == [18]


@given(seeds)
def test_conversion_both_ways_keeps_the_function(seed):
    rng = np.random.default_rng(seed)
    cards = [int(k) for k in rng.integers(1, 3, int(rng.integers(1, 6)))]
    model = random_model(rng, cards, Shape(values=2, zeros=False))
    rows = np.array(list(itertools.product(*map(range, cards))))
    polynomial = MultilinearPolynomial.from_model(model)
    np.testing.assert_allclose(polynomial.value(rows), model.value(rows), atol=1e-9)
    np.testing.assert_allclose(polynomial.to_model().value(rows), model.value(rows), atol=1e-9)


@given(seeds)
def test_it_is_multilinear_between_the_corners(seed):
    rng = np.random.default_rng(seed)
    polynomial = MultilinearPolynomial.from_model(
        random_model(rng, [2, 2, 2], Shape(values=2, zeros=False))
    )
    point = rng.random(3)
    ends = np.stack([point, point])
    ends[:, 1] = 0, 1
    low, high = polynomial.value(ends)
    assert polynomial.value(point)[0] == pytest.approx((1 - point[1]) * low + point[1] * high)


def test_sums_and_scales():
    both = WORKED_H + WORKED_T.scale(-2)
    assert both.value([0, 1, 0, 1]) == [14 - 2 * 18]
    assert (WORKED_H + WORKED_H.scale(-1)).weights == {}


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: MultilinearPolynomial(2, {(0, 0): 1.0}), "multilinear"),
        (lambda: MultilinearPolynomial(2, {(2,): 1.0}), "below 2"),
        (lambda: MultilinearPolynomial(2, {(0,): np.inf}), "finite"),
        (
            lambda: MultilinearPolynomial.from_model(LogLinearModel((3,))),
            "binary variables, found 3",
        ),
        (
            lambda: MultilinearPolynomial.from_model(
                LogLinearModel.from_tables([2], [((0,), [0, -np.inf])])
            ),
            "potential of 0",
        ),
        (lambda: WORKED_H.value([[1, 2]]), r"\(B, 4\)"),
        (lambda: WORKED_H + MultilinearPolynomial(1, {}), "same variables"),
    ],
)
def test_what_is_wrong_is_said(build, message):
    with pytest.raises(ModelError, match=message):
        build()
