"""Ergo: parents counted from 0 and from 1, names and labels or none."""

import numpy as np
import pytest

from cmpe.formats.tables.ergo import read_erg
from tests.formats.tables.networks import refused_file

GENIE = """2
2 3
0
1 1

/* Probabilities */
2
0.2 0.8

6
0.4 0.4 0.2
0.1 0.3 0.6

/* Names */
Success Forecast

/* Labels */
Success Failure
Good Moderate Poor

/* Centers */
98 159
98 253
"""


def read(tmp_path, text):
    (tmp_path / "m.erg").write_text(text)
    return read_erg(tmp_path / "m.erg")


@pytest.mark.parametrize("parents", ["1 1", "1 0"])
def test_parents_count_from_one_or_zero(tmp_path, parents):
    model = read(tmp_path, GENIE.replace("1 1", parents, 1))
    assert model.names == ("Success", "Forecast")
    assert model.states[1] == ("Good", "Moderate", "Poor")
    np.testing.assert_allclose(np.exp(model.value([[0, 2], [1, 1]])), [0.2 * 0.2, 0.8 * 0.3])


def test_names_may_be_missing(tmp_path):
    model = read(tmp_path, GENIE.partition("/* Names */")[0])
    assert (model.names, model.states) == (("X0", "X1"), ())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("/* Probabilities */", "", "a section /* Probabilities */, found none"),
        ("1 1", "1 2", "the parents: expected variables without a cycle"),
        ("Success Forecast", "Success", "section Names: expected 2 names, found 1"),
        ("Good Moderate Poor", "Good", "section Labels: expected 5 labels, found 3"),
        ("\n6\n", "\n5\n", "the table size 6 of variable 1, found 5"),
        ("0.1 0.3 0.6", "0.1 0.3", "6 x a probability"),
        ("0.1 0.3 0.6", "0.1 0.3 0.6 7", "the end of the file"),
        ("1 1", "1 ²", "a parent, found '²'"),
        ("0.1 0.3", "0.1 x", "a probability, found 'x'"),
        ("0.1 0.3", "0.1 -3", "probabilities of 'Forecast', found -3.0"),
    ],
)
def test_hostile_files(tmp_path, old, new, message):
    refused_file(tmp_path / "m.erg", GENIE.replace(old, new, 1), message)
