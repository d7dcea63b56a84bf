"""What a trained solver costs, and when it pays."""

from __future__ import annotations

import json
import math

import pytest

from cmpe.flip import adversarial
from cmpe.learning.price import Price, price_of
from cmpe.learning.training.fitting import fit
from tests.learning.cases import quick, small_grid
from tests.learning.losses.test_functions import images, small_network


def price(whole, exact):
    return Price(100, 2.0, 8.0, whole / 2, whole, {"exact": exact})


def test_it_pays_where_a_row_is_cheaper():
    found = price(1e-3, 6e-3)
    assert found.break_even("exact") == pytest.approx(2000.0)
    assert found.to_json()["break_even"] == {"exact": pytest.approx(2000.0)}
    assert "it pays against exact from 2,000 rows on" in found.sentence()
    assert "500 µs alone, 1000 µs with repair" in found.sentence()


@pytest.mark.parametrize("exact", [1e-3, 1e-4])
def test_it_never_pays_where_it_is_not(exact):
    found = price(1e-3, exact)
    assert math.isinf(found.break_even("exact"))
    assert found.to_json()["break_even"] == {"exact": None}
    assert "exact is as fast: it never pays against it" in found.sentence()


def test_a_solver_is_measured_beside_exact_and_search():
    one = small_grid()
    solver = fit(one.problem, one.train, quick())
    found = price_of(solver, one.test, rows=43, taught=0.5, trained=1.5)
    assert list(found.others) == ["exact", "search"]
    assert 0.0 < found.alone <= 10.0
    assert json.loads(json.dumps(found.to_json()))["rows"] == 43


def test_methods_that_do_not_take_the_problem_are_left_out():
    x = images(20)
    solver = fit(adversarial(small_network()), x, quick("ssl_pen", epochs=1))
    assert dict(price_of(solver, x, rows=16, taught=0.0, trained=1.0).others) == {}
