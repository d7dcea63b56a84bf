"""Rows of evidence as people give them: one form inside, and a sentence for what does not fit."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cmpe
from cmpe import LogLinearModel, Problem
from cmpe.domain import Domain
from cmpe.errors import EvidenceError
from cmpe.problem.evidence import check_range, from_mapping, observed_groups, two_dimensional
from cmpe.problem.groups import by_observed
from tests.problems import worked_example

ONE = LogLinearModel.from_tables([2], [((0,), [0.0, 1.0])])


def test_evidence_in_every_form_is_the_same():
    problem = worked_example()
    expected = [[1, 0], [0, 1]]
    for evidence in (
        expected,
        np.array(expected, dtype=bool),
        np.array(expected, dtype=float),
        [[1, 0, -1, -1], [0, 1, -1, -1]],
        {1: [0, 1], 0: [1, 0]},
    ):
        assert problem.given(evidence).evidence.tolist() == expected
    assert problem.given([1, 0]).evidence.tolist() == [[1, 0]]
    assert problem.given({0: 1, 1: 0}).evidence.tolist() == [[1, 0]]
    assert Problem(ONE).given().evidence.shape == (1, 0)


@pytest.mark.parametrize("nothing", [[], (), np.zeros((0, 2)), np.zeros((0, 4))])
def test_no_rows_are_no_rows(nothing):
    problem = worked_example()
    assert len(cmpe.solve(problem, nothing)) == 0
    assert cmpe.front(problem, nothing) == []
    assert cmpe.best(problem, nothing, k=2) == []
    assert cmpe.sensitivity(problem, nothing) == []
    assert len(cmpe.bound(problem, nothing).upper) == 0
    free, none = problem.observing(()), {"potentials": {0: np.zeros((0, 2))}}
    assert len(cmpe.bound(free, **none).upper) == len(cmpe.solve(free, **none)) == 0


def test_observed_groups_cover_the_rows():
    rows = np.array([[0, -1], [-1, 1], [1, -1], [-1, -1]])
    groups = {observed: numbers.tolist() for observed, numbers in observed_groups(rows)}
    assert groups == {(0,): [0, 2], (1,): [1], (): [3]}


@pytest.mark.parametrize(
    ("evidence", "message"),
    [
        ([[0, 2]], "row 0, variable 1: evidence must be from 0 to 1, found 2"),
        ([[0, -1]], "found -1"),
        ([[0, 1, 1]], "2 columns .* or 4 .*, found 3"),
        ([[0, 1, 0, -1]], r"row 0: variable 2 must be free"),
        ([[0, -1, -1, -1]], "row 0: variable 1 must be observed"),
        ({0: 1}, "exactly the evidence variables; check .1."),
        ([[0.5, 1]], "whole numbers"),
        ([[[0]]], "one or two axes"),
        ([["a", "b"]], "whole numbers"),
        ([[0, 1], [0]], "rows of equal length, found rows that differ"),
        ([[0, np.inf]], "values of variables, found 0.0 to inf"),
        (np.array([[0, 2**64 - 1]], dtype=np.uint64), "found 0 to 18446744073709551615"),
        (
            {0: [0, 1], 1: [0]},
            "variable 0 has 2, variable 1 has 1; a value of all rows",
        ),
        ({0: [0, 1], 1: [[0]]}, "variable 1 must have a value, or a list .*; found 2 axes"),
        ({"a": 0, 1: 0}, "these variables have no names: give a number from 0 to 3, found 'a'"),
        ({9: 0}, "there is no variable 9: numbers go from 0 to 3"),
        ("rows.evid", "read a file with cmpe.read_evidence"),
        (Path("rows.evid"), "found 'rows.evid'"),
        (pd.DataFrame({"a": [0]}), "these variables have no names: .* found 'a'"),
        (pd.DataFrame([[0, 1]], columns=[1, 1]), "columns of a frame must be distinct"),
    ],
)
def test_wrong_evidence_is_said(evidence, message):
    with pytest.raises(EvidenceError, match=message):
        worked_example().given(evidence)


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        ([0, 1], [[0, 1]]),
        ([True, False], [[1, 0]]),
        (np.array([[2.0, -1.0]]), [[2, -1]]),
        (np.zeros((0, 3)), np.zeros((0, 3))),
        (np.zeros((2, 0), dtype=object), np.zeros((2, 0))),
    ],
)
def test_whole_numbers_of_any_kind_become_int64(evidence, expected):
    rows = two_dimensional(evidence, fractions=False)
    assert rows.dtype == np.int64
    np.testing.assert_array_equal(rows, expected)


def test_fractions_only_where_they_are_allowed():
    assert two_dimensional([0, 1], fractions=True).dtype == np.float64
    assert two_dimensional([0.25, 1], fractions=True).tolist() == [[0.25, 1.0]]
    with pytest.raises(EvidenceError, match="whole numbers, found dtype float64"):
        two_dimensional([0.25, 1], fractions=False)
    with pytest.raises(EvidenceError, match="whole numbers, found dtype"):
        two_dimensional(["a"], fractions=True)
    with pytest.raises(EvidenceError, match="one or two axes, found 0"):
        two_dimensional(3, fractions=False)


def test_a_mapping_may_mix_one_value_with_many():
    rows = from_mapping({4: [0, 1, 2], 2: 1}, (2, 4), fractions=False)
    assert rows.tolist() == [[1, 0], [1, 1], [1, 2]]
    assert from_mapping({}, (), fractions=False).shape == (1, 0)
    assert from_mapping({0: 0.5}, (0,), fractions=True).tolist() == [[0.5]]
    with pytest.raises(EvidenceError, match=r"exactly the evidence variables; check \[0, 3\]"):
        from_mapping({0: 1}, (3,), fractions=False)


def test_values_out_of_range_are_said_by_row_and_variable():
    """Variables 1 and 3 of a problem, of 3 values and in [0, 1]."""
    cards, within = Domain((2, 3, 2, 2)), frozenset([3])
    check_range(np.array([[2.0, 0.5], [0.0, 1.0]]), (1, 3), cards, within)
    check_range(np.zeros((0, 2)), (1, 3), cards, within)
    for row, message in (
        ([3.0, 0.0], "row 1, variable 1: evidence must be from 0 to 2, found 3"),
        ([0.5, 0.0], "row 1, variable 1: evidence must be from 0 to 2, found 0.5"),
        ([0.0, 1.5], r"row 1, variable 3: evidence must be in \[0, 1\], found 1.5"),
        ([0.0, np.nan], r"row 1, variable 3: evidence must be in \[0, 1\], found nan"),
    ):
        with pytest.raises(EvidenceError, match=message):
            check_range(np.array([[0.0, 0.0], row]), (1, 3), cards, within)


def test_a_frame_with_columns_by_position_is_refused_where_it_is_ambiguous():
    """Columns 0 and 1 of a default frame: the first two evidence variables, or variables 0, 1?"""
    problem = worked_example().observing([2, 3])
    with pytest.raises(EvidenceError, match=r"name its columns by variables, or give frame.to_num"):
        problem.given(pd.DataFrame([[0, 1]]))
    assert problem.given(pd.DataFrame([[0, 1]]).to_numpy()).evidence.tolist() == [[0, 1]]


# --- names ---

NAMES, STATES = ("Rain", "Level", "Fuse"), (("no", "yes"), ("low", "mid", "high"), ("2", "1"))
NAMED = Problem(
    LogLinearModel.from_tables(
        [2, 3, 2], [(NAMES, np.arange(12.0).reshape(2, 3, 2))], NAMES, STATES
    )
)
FREE_ROW = [-1, -1, -1]
MATRIX = [[1, -1, 0], [0, 2, -1]]


@pytest.mark.parametrize(
    ("evidence", "rows"),
    [
        ({"Rain": "yes"}, [[1, -1, -1]]),
        ({"Rain": 1, 1: "high"}, [[1, 2, -1]]),
        ({"Fuse": 1}, [[-1, -1, 1]]),  # the state called 1, not the second state
        ({"Rain": ["no", "yes"], "Level": "mid"}, [[0, 1, -1], [1, 1, -1]]),
        ({"Rain": ["no", None], "Level": "mid"}, [[0, 1, -1], [-1, 1, -1]]),
        ({"Rain": None}, [FREE_ROW]),
        ({}, [FREE_ROW]),
        ([{"Rain": "yes", "Fuse": "2"}, {"Level": "high", "Rain": "no"}], MATRIX),
        ([{}, {"Rain": "yes"}], [FREE_ROW, [1, -1, -1]]),
        (pd.DataFrame({"Fuse": ["2", None], "Level": [np.nan, "high"], "Rain": [1, 0]}), MATRIX),
        (pd.DataFrame({"Fuse": [2.0, np.nan], "Level": [None, 2], "Rain": [1, 0]}), MATRIX),
        (pd.DataFrame({"Rain": pd.Series([1, pd.NA], dtype="Int64")}), [[1, -1, -1], FREE_ROW]),
        (pd.DataFrame({"Rain": pd.Categorical(["yes", "no"])}), [[1, -1, -1], [0, -1, -1]]),
        (pd.DataFrame({"Rain": [1, -1]}), [[1, -1, -1], FREE_ROW]),
        (pd.Series({"Level": "low", "Rain": "no"}), [[0, 0, -1]]),
        (np.array([[1, -1, 0], [0, 2, -1]]), MATRIX),
    ],
)  # fmt: skip
def test_evidence_by_name(evidence, rows):
    found = np.full((len(rows), 3), -1)
    for instances, numbers in by_observed(NAMED, evidence):
        found[numbers] = instances.full()
    assert found.tolist() == rows


@pytest.mark.parametrize(
    ("evidence", "message"),
    [
        ({"Rian": "yes"}, "evidence: there is no variable 'Rian'; did you mean 'Rain'?"),
        ({"Rain": "Yes"}, "row 0: variable 'Rain' has no state 'Yes'; did you mean 'yes'?"),
        ({"Level": ["low", 3]}, "row 1: variable 'Level' has 3 states, numbers 0 to 2, found 3"),
        ({"Level": np.array([0, 3])}, "row 1: variable 'Level' has 3 states"),
        ({"Fuse": 0}, "row 0: variable 'Fuse' has no state 0; there is '2', '1'"),
        ({"Rain": "yes", 0: "no"}, "variable 'Rain' must be given once"),
        ({"Rain": [["yes"]]}, "variable 'Rain' must have a value, or a list of one value per row"),
        ({"Rain": [["yes"], ["no", "no"]]}, "row 0: variable 'Rain' has no state ['yes']"),
        ({"Rain": {"yes": 1}}, "row 0: variable 'Rain' has no state"),
        ([{"Rain": "yes"}, {"Rainy": "no"}], "there is no variable 'Rainy'; did you mean 'Rain'?"),
        (pd.DataFrame({"Rain": ["yes"], "Patient": [7]}), "there is no variable 'Patient'"),
        (np.array([[5, 0, 0]]), "row 0, variable 'Rain': evidence must be from 0 to 1, found 5"),
    ],
)
def test_wrong_names_are_said(evidence, message):
    with pytest.raises(EvidenceError) as caught:
        by_observed(NAMED, evidence)
    assert message in str(caught.value)


def test_extra_columns_are_ignored_on_request():
    frame = pd.DataFrame({"Patient": [7, 8], "Rain": ["yes", None]})
    parts = by_observed(NAMED, frame, ignore_extra=True)
    assert sum(len(numbers) for _, numbers in parts) == 2
    nothing = by_observed(NAMED, frame[["Patient"]], ignore_extra=True)
    assert [len(instances) for instances, _ in nothing] == [2]


def test_a_problem_that_observes_by_name():
    problem = NAMED.observing(["Level", "Rain"])
    assert problem.given({"Rain": "no", "Level": ["mid", "low"]}).evidence.tolist() == [
        [1, 0],
        [0, 0],
    ]
    for wrong, message in (
        (
            [{"Rain": "no", "Level": "low"}, {"Rain": "no"}],
            "row 1: variable 'Level' must be observed",
        ),
        ({"Rain": "no"}, "exactly the evidence variables"),
    ):
        with pytest.raises(EvidenceError, match=message):
            problem.given(wrong)


def test_numbers_of_variables_in_an_interval():
    problem = Problem(LogLinearModel.from_tables([2, 2], [], ["a", "b"]), continuous=["a"])
    assert problem.observing(["a"]).given({"a": [0.25, 1]}).evidence.tolist() == [[0.25], [1.0]]
    (first, _), (second, _) = by_observed(problem, {"a": [0.25, None], "b": 1})
    assert {first.problem.evidence_variables, second.problem.evidence_variables} == {(0, 1), (1,)}
    unnamed = Problem(LogLinearModel.from_tables([2, 2], []))
    assert by_observed(unnamed, {0: [1, np.nan]})[0][1].tolist() == [1]
    assert by_observed(unnamed, {0: [1, None]})[0][1].tolist() == [1]
    with pytest.raises(EvidenceError, match="row 1, variable 0: evidence must be a number, found"):
        by_observed(unnamed, {0: [1, "yes"]})
