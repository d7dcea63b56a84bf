"""results: MPE files and JSON lines."""

from __future__ import annotations

import json
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from cmpe.errors import FormatError
from cmpe.formats.results import format_mpe, json_rows, read_mpe, read_solutions
from cmpe.formats.text import write_text
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.problem import Constraint, Problem
from cmpe.solution import Solutions


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("results")


@st.composite
def batches(draw):
    """Assignments (B, n), some rows without one."""
    shape = draw(st.tuples(st.integers(0, 5), st.integers(1, 5)))
    rows = draw(arrays.arrays(np.int32, shape, elements=st.integers(0, 4)))
    missing = draw(arrays.arrays(np.bool_, shape[0]))
    rows[missing] = -1
    return rows


@settings(deadline=None, derandomize=True, max_examples=300)
@given(batches())
def test_assignments_come_back(folder, rows):
    path = folder / "a.MPE"
    write_text(path, format_mpe(rows))
    assert np.array_equal(read_mpe(path, rows.shape[1]), rows)


def test_the_text_of_one_and_of_several_rows():
    assert format_mpe(np.array([[0, 1, 2]])) == "MPE\n3 0 1 2\n"
    assert format_mpe(np.array([[0, 1], [-1, -1]])) == "MPE\n2\n2 0 1\n0\n"


@pytest.mark.parametrize("content", ["MPE\n1\n3 0 1 2\n", "MPE 3 0 1 2", "\nMPE\r\n\r\n 3 0\t1 2"])
def test_other_writers_use_other_lines(tmp_path, content):
    path = tmp_path / "a.MPE"
    path.write_text(content)
    assert read_mpe(path, 3).tolist() == [[0, 1, 2]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "line 1, word 1: expected MPE, found the end of the file"),
        ("MAP\n3 0 1 2", "line 1, word 1: expected MPE, found 'MAP'"),
        ("MPE", "line 1, word 2: expected the number of rows, found the end of the file"),
        ("MPE\n3 0 1", "line 2, word 2: expected 3 x a value, found only 2 more words"),
        ("MPE\n3 0 x 1", "line 2, word 3: expected a value, found 'x'"),
        ("MPE\n3 0 1 -1", "line 2, word 4: expected a value, found '-1'"),
        ("MPE\n3 0 1 9999999999", "line 2, word 4: expected a value from 0 to 2147483647"),
        (
            "MPE\n2\n3 0 1 2\n2 0 1",
            "line 4, word 1: expected 3 values, or 0 for no answer, found 2",
        ),
        ("MPE\n99999999\n3 0 1 2", "line 3, word 1: expected 99999999 x a row, found only 4"),
        ("MPE\n1\n3 0 1 2 5", "line 3, word 5: expected the end of the file, found '5'"),
    ],
)
def test_a_broken_result_is_refused_where_it_lies(tmp_path, content, message):
    path = tmp_path / "a.MPE"
    path.write_text(content)
    with pytest.raises(FormatError) as caught:
        read_mpe(path, 3)
    assert str(caught.value).startswith(f"{path}: {message}")


def solved():
    """Rows of every status: optimal, feasible, violated, infeasible, unknown; t = 0 once."""
    h = LogLinearModel((2, 2), (Factor((0, 1), np.array([[0.0, 1.0], [2.0, 3.0]])),))
    t = LogLinearModel((2, 2), (Factor((0,), np.array([-np.inf, 5.0])),))
    problem = Problem(h, (Constraint(t, 1.5),))
    return problem, Solutions.of(
        problem,
        [[0, 1], [0, 0], [1, 1], [-1, -1], [-1, -1]],
        bound=[1.0, np.inf, 3.0, np.inf, np.inf],
        infeasible=[False, False, False, True, False],
        method="test",
        seconds=[0.5, 0, 0, 0, 0],
    )


def test_json_rows_have_exactly_these_fields():
    rows = [json.loads(line) for line in json_rows(*solved())]
    none = {"value": None, "at_most": 1.5, "violation": None}
    wrong = {"value": 5.0, "at_most": 1.5, "violation": 3.5}
    shared = {"method": "test", "seconds": 0.0, "bound": None, "gap": None, "objective": None}
    assert rows == [
        {"index": 0, "status": "optimal", "objective": 1.0, "bound": 1.0, "gap": 0.0,
         "feasible": True, "constraints": [none], "assignment": [0, 1], "method": "test",
         "seconds": 0.5},
        shared | {"index": 1, "status": "feasible", "objective": 0.0, "feasible": True,
                  "constraints": [none], "assignment": [0, 0]},
        shared | {"index": 2, "status": "violated", "objective": 3.0, "bound": 3.0,
                  "feasible": False, "constraints": [wrong], "assignment": [1, 1]},
        shared | {"index": 3, "status": "infeasible", "feasible": False, "constraints": [none],
                  "assignment": None},
        shared | {"index": 4, "status": "unknown", "feasible": False, "constraints": [none],
                  "assignment": None},
    ]  # fmt: skip
    order = "index status objective bound gap feasible constraints assignment method seconds"
    assert all(list(row) == order.split() for row in rows)


def written(path, problem, solutions):
    write_text(path, "".join(f"{line}\n" for line in json_rows(problem, solutions)))
    return path


def assert_same(back, solutions):
    for field in fields(Solutions):
        np.testing.assert_array_equal(getattr(back, field.name), getattr(solutions, field.name))


@pytest.mark.parametrize("name", ["a.json", "a.jsonl.gz"])
def test_json_is_strict_and_comes_back(tmp_path, name):
    problem, solutions = solved()
    lines = list(json_rows(problem, solutions))
    assert not any(word in line for line in lines for word in ("NaN", "Infinity"))
    assert_same(read_solutions(written(tmp_path / name, problem, solutions), problem), solutions)


def test_fractions_come_back(tmp_path):
    h = LogLinearModel((2, 2), (Factor((0, 1), np.eye(2)),))
    problem = Problem(h, (), (0,), "", (0, 1))
    solutions = Solutions.of(problem, [[0.25, 0.5], [-1.0, -1.0]], bound=[2.0, np.inf])
    assert_same(
        read_solutions(written(tmp_path / "a.json", problem, solutions), problem), solutions
    )


def test_values_are_those_of_the_assignments_not_of_the_file(tmp_path):
    problem, solutions = solved()
    path = written(tmp_path / "a.json", problem, solutions)
    row = json.loads(path.read_text().splitlines()[2])
    row |= {"objective": 9.0, "status": "optimal", "feasible": True, "constraints": []}
    path.write_text(json.dumps(row))
    assert_same(read_solutions(path, problem), solutions.take([2]))


def test_a_uai_result_gives_assignments_alone(tmp_path):
    problem, solutions = solved()
    path = tmp_path / "a.MPE"
    path.write_text(format_mpe(solutions.assignments))
    back = read_solutions(path, problem)
    np.testing.assert_array_equal(back.assignments, solutions.assignments)
    np.testing.assert_array_equal(back.objective, solutions.objective)
    assert back.labels == ["feasible", "feasible", "violated", "unknown", "unknown"]


ROW = {"assignment": [0, 1], "status": "optimal", "bound": 1.0, "method": "m", "seconds": 0.5}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "line 1: expected an answer, found an empty file"),
        (
            '{"index": 0, \n',
            "line 1, column 14: expected a JSON object, found Expecting",
        ),
        ("[0]\n", "line 1: expected a JSON object, found list"),
        ({"assignment": "01"}, "field 'assignment': expected a list of values, or null, found"),
        ({"assignment": [0, -1]}, "field 'assignment': expected a list of values, or null, found"),
        ({"assignment": [0, True]}, "field 'assignment': expected a list of values, or null"),
        ({"assignment": [0]}, "field 'assignment': expected 2 values, found 1"),
        ({"assignment": [0, 2]}, "row 1, variable 1: evidence must be from 0 to 1, found 2"),
        ({"status": "fine"}, "field 'status': expected a status, found 'fine'"),
        ({"bound": "1"}, "field 'bound': expected a number, or null, found '1'"),
        ({"method": None}, "field 'method': expected a string, found None"),
        ({"status": {}}, "field 'status': expected a status, found {}"),
        ({"bound": 10**400}, "field 'bound': expected a number, or null, found 1000"),
        ({"bound": float("nan")}, "field 'bound': expected a number, or null, found nan"),
        ({"seconds": 10**400}, "field 'seconds': expected a number from 0 up, found 1000"),
        ({"seconds": -1.0}, "field 'seconds': expected a number from 0 up, found -1.0"),
        ({"assignment": [0, 0.5]}, "evidence must be whole numbers, found dtype float64"),
        ({"seconds": None}, "field 'seconds': expected a number from 0 up, found None"),
        ("MPE\n2 0 7\n", "row 0, variable 1: evidence must be from 0 to 1, found 7"),
    ],
)
def test_broken_answers_are_refused_with_their_line(tmp_path, content, message):
    path = tmp_path / "a.json"
    if isinstance(content, dict):
        where = "line 2, " if message.startswith("field") else ""
        content, message = f"{json.dumps(ROW)}\n{json.dumps(ROW | content)}\n", where + message
    path.write_text(content)
    with pytest.raises(FormatError) as caught:
        read_solutions(path, solved()[0])
    assert str(caught.value).startswith(f"{path}: {message}")


def test_fractions_are_written_as_they_are():
    h = LogLinearModel((2, 2), (Factor((0, 1), np.eye(2)),))
    problem = Problem(h, (), (0,), "", (0, 1))
    answers = Solutions.of(problem, [[0.25, 0.5], [-1.0, -1.0], [0.0, 1.0]])
    rows = [json.loads(line) for line in json_rows(problem, answers)]
    assert [row["assignment"] for row in rows] == [[0.25, 0.5], None, [0.0, 1.0]]
    assert rows[0]["objective"] == pytest.approx(0.75 * 0.5 + 0.25 * 0.5)
