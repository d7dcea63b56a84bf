"""HiGHS as a back-end."""

import highspy
import numpy as np
import pytest

from cmpe import Limits, Running
from cmpe.errors import BackendError
from cmpe.solvers.milp import highs
from cmpe.solvers.milp.highs import configure, load, maximise
from tests.solvers.milp import programs


@pytest.mark.parametrize("check", programs.CHECKS)
def test_programs_with_known_answers(check):
    assert load() is maximise
    check(maximise)


def test_options_reach_the_solver():
    solver = highspy.Highs()
    configure(solver, Limits(2.5, seed=2**31 + 7, running=Running(threads=2)))
    for name, value in (
        ("threads", 2),
        ("random_seed", 7),
        ("time_limit", 2.5),
        ("mip_rel_gap", 0.0),
        ("output_flag", False),
    ):
        assert solver.getOptionValue(name)[1] == value
    assert highs._threads == 2
    configure(highspy.Highs(), Limits())
    assert highs._threads == 1


@pytest.mark.parametrize(
    ("status", "error", "message"),
    [("kInterrupt", KeyboardInterrupt, "^$"), ("kSolveError", BackendError, "HiGHS stopped with")],
)
def test_what_is_no_answer_is_raised(monkeypatch, status, error, message):
    found = getattr(highspy.HighsModelStatus, status)
    monkeypatch.setattr(highspy.Highs, "getModelStatus", lambda self: found)
    with pytest.raises(error, match=message):
        maximise(programs.program([1], [[1]], [0], [1]), Limits(), None)


def test_a_linear_program_that_was_stopped_has_no_bound(monkeypatch):
    """Without integer columns its objective is a bound only at the optimum."""
    stopped = highspy.HighsModelStatus.kTimeLimit
    monkeypatch.setattr(highspy.Highs, "getModelStatus", lambda self: stopped)
    found = maximise(programs.program([1], [[1]], [0], [0.5], integer=False), Limits(), None)
    assert found.bound == np.inf
    np.testing.assert_allclose(found.columns, [0.5])
