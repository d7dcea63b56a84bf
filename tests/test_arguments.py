"""Numbers as people give them: what is one, and the sentence for what is not."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import torch

import cmpe
from cmpe.arguments import real_number, seconds_of, whole_number
from cmpe.errors import EvidenceError, MethodError, ModelError
from tests.problems import worked_example
from tests.refusals import refused

PROBLEM = worked_example()
H, T = PROBLEM.objective, PROBLEM.constraints[0].function


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, 3.0),
        (np.float32(0.5), 0.5),
        (np.array(2), 2.0),
        (torch.tensor(1.5), 1.5),
        (Fraction(1, 4), 0.25),
        pytest.param(10**400, math.inf, id="huge"),
        pytest.param(-(10**400), -math.inf, id="minus huge"),
    ],
)
def test_numbers_of_any_kind_are_taken(value, expected):
    number = real_number("q", value)
    assert type(number) is float
    assert number == expected


@pytest.mark.parametrize("value", ["3", None, True, np.bool_(1), [1.0], np.ones(1), 1j, b"3"])
def test_what_is_no_number_is_refused(value):
    assert "must be a number, as in q=1.5; found" in refused(lambda: real_number("q", value))
    refused(lambda: whole_number("k", value, 0), "k must be a whole number, found")


def test_whole_numbers():
    assert [whole_number("k", v, 1) for v in (2, 2.0, np.int8(2), np.array(2.0))] == [2] * 4
    assert whole_number("seed", 2**70, 0) == 2**70
    refused(lambda: whole_number("k", 0, 1), "k must be at least 1, found 0")
    for value in (0.5, math.nan, math.inf):
        refused(lambda value=value: whole_number("k", value, 0), "k must be a whole number")


def test_a_time_limit_is_above_zero_seconds():
    assert seconds_of(2) == 2.0
    for value in (0, -1.0, math.inf, math.nan):
        refused(lambda value=value: seconds_of(value), "a time limit must be above 0 seconds")
    assert "as in time_limit=10 (seconds); found '10s'" in refused(lambda: seconds_of("10s"))


WRONG_CALLS = {
    "one constraint": (
        lambda: cmpe.Problem(H, cmpe.Constraint(T, 1.0)),
        ModelError,
        r"constraints must be a list, found Constraint; write Problem\(h, \[t <= q\]\)",
    ),
    "a function for a constraint": (
        lambda: cmpe.Problem(H, [T]),
        ModelError,
        "constraint 0 must have a limit, found LogLinearModel; write t <= q or t >= q",
    ),
    "no function": (lambda: cmpe.Problem(3), ModelError, "needs a function such as .* found int"),
    "arguments swapped": (lambda: cmpe.Constraint(1.0, T), ModelError, "a constraint needs a func"),
    "text for q": (lambda: cmpe.Constraint(T, "3"), ModelError, "as in at_most=12.5; found '3'"),
    "nothing for q": (lambda: cmpe.Constraint(T, None), ModelError, "at_most=12.5; found None"),
    "a model": (lambda: cmpe.solve(H), ModelError, r"solve needs a Problem, found LogLin.* write"),
    "bound of a model": (lambda: cmpe.bound(H), ModelError, "bound needs a Problem"),
    "fit of a model": (lambda: cmpe.fit(H, [[0]]), ModelError, "fit needs a Problem"),
    "reference of a model": (lambda: cmpe.reference(H, [[0]]), ModelError, "reference needs a P"),
    "a file": (
        lambda: cmpe.solve(PROBLEM, "rows.evid"),
        EvidenceError,
        r"found 'rows.evid'; read a file with cmpe.read_evidence\(path, problem\)",
    ),
    "seconds as text": (
        lambda: cmpe.solve(PROBLEM, [0, 1], time_limit="10s"),
        MethodError,
        r"time_limit must be a number, as in time_limit=10 \(seconds\); found '10s'",
    ),
    "a negative seed": (
        lambda: cmpe.solve(PROBLEM, [0, 1], seed=-1),
        MethodError,
        "seed must be at least 0, found -1",
    ),
    "gap as text": (lambda: cmpe.solve(PROBLEM, [0, 1], gap="x"), MethodError, "gap must be a num"),
    "running as a number": (
        lambda: cmpe.solve(PROBLEM, [0, 1], running=2),
        MethodError,
        r"running=cmpe.Running\(workers=2\), found int",
    ),
    "workers as text": (lambda: cmpe.Running(workers="2"), MethodError, "workers must be a whole"),
    "half a thread": (lambda: cmpe.Work(threads=0.5), MethodError, "threads must be a whole"),
    "a start of text": (lambda: cmpe.Running(start="x"), MethodError, "a start must be numbers"),
    "a seed of text": (lambda: cmpe.sample(H, 1, "x"), MethodError, "seed must be a whole number"),
    "variables as text": (
        lambda: cmpe.Problem(H, [], "01"),
        ModelError,
        "evidence_variables must be a list of variables, found '01'",
    ),
    "samples as text": (lambda: cmpe.Recipe(samples="9"), cmpe.CmpeError, "samples must be a who"),
}


@pytest.mark.parametrize("name", WRONG_CALLS)
def test_a_wrong_call_is_answered_by_what_to_write_instead(name):
    call, kind, message = WRONG_CALLS[name]
    refused(call, message, kind)


def test_a_frame_is_read_by_its_columns():
    right = cmpe.solve(PROBLEM, [[0, 1], [1, 1]]).assignments.tolist()
    frame = pd.DataFrame({1: [1, 1], 0: [0, 1]})
    full = pd.DataFrame({3: [-1, -1], 1: [1, 1], 2: [-1, -1], 0: [0, 1]})
    for evidence in (frame, full):
        assert cmpe.solve(PROBLEM, evidence).assignments.tolist() == right
        assert PROBLEM.given(evidence).evidence.tolist() == [[0, 1], [1, 1]]
    assert cmpe.solve(PROBLEM, frame.iloc[0]).assignments.tolist() == right[:1]
    other = cmpe.solve(PROBLEM, pd.DataFrame({2: [0], 3: [1]}))
    assert other.assignments[0, 2:].tolist() == [0, 1]
