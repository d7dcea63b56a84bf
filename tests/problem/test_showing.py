"""Problems and models show themselves, in few words."""

import numpy as np

from cmpe import Distance, LogLinearModel, Problem
from cmpe.problem.showing import table_of
from tests.problems import random_cutset

NAMES = tuple(f"v{k}" for k in range(30))
MODEL = LogLinearModel.from_tables([2] * 30, [((0, 1), np.zeros((2, 2)))], NAMES)


def test_a_problem_is_a_table():
    page = table_of(Problem(MODEL, [MODEL >= 1.0], ["v3"], name="<x>"))
    assert "&lt;x&gt;" in page
    assert "&gt;= 1" in page
    assert "<td>1 observed</td><td>v3</td>" in page
    assert "... " in page
    assert page == Problem(MODEL, [MODEL >= 1.0], ["v3"], name="<x>")._repr_html_()


def test_models_are_tables():
    page = MODEL._repr_html_()
    assert "<td>v0</td><td>0, 1</td>" in page
    assert "10 more variables" in page
    assert "more" not in random_cutset(6)._repr_html_()


def test_reprs_are_short():
    distance = Distance((2, 2), ((0, 1),))
    for value in (MODEL, Problem(MODEL), distance, random_cutset(6), MODEL <= 1.0):
        assert len(repr(value)) < 100
    assert repr(distance) == "Distance(2 variables)"
