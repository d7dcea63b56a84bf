import inspect

import numpy as np
import pytest

import cmpe
from cmpe import errors
from cmpe.errors import CmpeError, FormatError, InputError, Interrupted, MissingExtra

KINDS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]


def test_the_docstring_draws_every_error():
    drawn = {line.split()[-1] for line in _tree()}
    assert drawn == {kind.__name__ for kind in KINDS}


def _tree():
    """The name of each line of the drawing, without what it is about."""
    lines = [line.strip(" │├└─") for line in errors.__doc__.splitlines() if line.startswith("    ")]
    return [line.split()[0] for line in lines]


@pytest.mark.parametrize("kind", KINDS)
def test_all_but_ctrl_c_can_be_caught_together(kind):
    assert issubclass(kind, CmpeError) != (kind is Interrupted)
    assert issubclass(Interrupted, KeyboardInterrupt)


def test_a_wrong_file_names_the_place():
    error = FormatError.at("m.uai", "line 3", "a number", "'x'")
    assert str(error) == "m.uai: line 3: expected a number, found 'x'"
    assert isinstance(error, InputError)


def test_a_missing_extra_names_the_command():
    assert "pip install 'cmpe[ray]'" in str(MissingExtra.named("ray", "ray"))


def test_ctrl_c_carries_what_is_finished():
    problem = cmpe.Problem(cmpe.LogLinearModel((2,), (cmpe.Factor((0,), np.zeros(2)),)))
    solutions = cmpe.solve(problem, np.full((3, 1), -1), method="exact")
    stop = Interrupted(solutions, 2)
    assert str(stop) == "interrupted after 2 of 3 rows"
    assert stop.solutions is solutions
    assert stop.finished == 2
