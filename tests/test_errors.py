"""The tree of errors, and the sentences that they build."""

import inspect
import re

import pytest

import cmpe
from cmpe import errors
from cmpe.errors import (
    BackendError,
    CmpeError,
    FormatError,
    InputError,
    Interrupted,
    MissingExtra,
    TooLarge,
    how_to_install,
)
from tests.problems import worked_example

CLASSES = {
    name: value
    for name, value in vars(errors).items()
    if inspect.isclass(value) and value.__module__ == errors.__name__
}


def drawn():
    """Each class with the one above it, as the docstring draws them."""
    parents, above = {}, []
    for line in inspect.getdoc(errors).splitlines():
        match = re.match(r"( {4}[│ ├└─]*)([A-Z]\w+)(?: {2,}|$)", line)
        if match:
            depth = (len(match[1]) - 4) // 4
            above[depth:] = [match[2]]
            parents[match[2]] = above[depth - 1] if depth else None
    return parents


def test_the_docstring_draws_the_tree():
    roots = {"CmpeError": None, "Interrupted": None}
    real = {name: kind.__bases__[0].__name__ for name, kind in CLASSES.items()}
    assert drawn() == {**real, **roots}


def test_what_a_user_can_mend_is_told_from_what_failed():
    assert issubclass(MissingExtra, InputError)
    assert not issubclass(TooLarge, InputError)
    assert not issubclass(BackendError, InputError)
    assert cmpe.CmpeError is CmpeError
    assert not issubclass(Interrupted, Exception)  # `except Exception` lets Ctrl-C through


def test_a_format_error_says_where_what_was_expected_and_what_was_found():
    error = FormatError.at("m.uai", "line 3", "a table entry", "'two'")
    assert isinstance(error, FormatError)
    assert str(error) == "m.uai: line 3: expected a table entry, found 'two'"


def test_a_message_is_one_line_whatever_a_file_holds():
    assert str(FormatError.at("m.bif", "line 3", "a name", "'a\n  b'")).endswith("found 'a b'")


def test_a_missing_extra_says_how_to_install_it():
    error = MissingExtra.named("SCIP (pyscipopt)", "scip")
    expected = f"SCIP (pyscipopt) is not installed; {how_to_install('scip')}"
    assert str(error) == expected


def test_an_interruption_carries_what_was_finished():
    answers = cmpe.solve(worked_example(), [[1, 1], [0, 1]], method="exhaustive")
    stop = Interrupted(answers, 1)
    assert str(stop) == "interrupted after 1 of 2 rows"
    assert stop.solutions is answers
    assert stop.finished == 1
    with pytest.raises(KeyboardInterrupt):
        raise stop
