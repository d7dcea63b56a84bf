"""HiGHS as a back-end."""

import os
import signal
import threading

import highspy
import numpy as np
import pytest
from scipy.sparse import csr_array

from cmpe import Limits
from cmpe.bounds.linearization import LinearProgram
from cmpe.errors import BackendError
from cmpe.execution.threads import Ending
from cmpe.solvers.milp import highs
from cmpe.solvers.milp.highs import configure, load, maximise
from tests.solvers.milp import programs


@pytest.mark.parametrize("check", programs.CHECKS)
def test_programs_with_known_answers(check):
    assert load() is maximise
    check(maximise)


def test_a_program_that_presolve_loses_is_not_infeasible():
    """x = (0, 1, 0) satisfies every row; HiGHS 1.15.1 with presolve says that nothing does."""
    rows = [
        [-1.0, -1.0, 1.0],
        [0.0, 1.0, -1.0],
        [1.0, 0.0, -1.0],
        [1.0627062270158364, -1.2936224834282338, -1.236856779540755],
        [-0.1217122635117426, -0.90895597827727, 1.413535093491573],
    ]
    lost = LinearProgram(
        cost=np.array([1.29558201, -1.66652933, -0.4001675]), offset=0.0, rows=csr_array(rows),
        lower=np.array([-1.0, 0.0, 0.0, -np.inf, -np.inf]),
        upper=np.array([-1.0, np.inf, np.inf, -0.69302423, 0.05320482]),
        column_lower=np.zeros(3), column_upper=np.ones(3), integer=np.array([True, True, False]),
    )  # fmt: skip
    answer = maximise(lost, Limits(), None)
    assert not answer.infeasible
    assert answer.columns == pytest.approx([0.0, 1.0, 0.0])


def test_options_reach_the_solver():
    solver = highspy.Highs()
    configure(solver, Limits(seconds=2.5, seed=2**31 + 7, threads=2))
    for name, value in (
        ("threads", 2),
        ("random_seed", 7),
        ("time_limit", 2.5),
        ("mip_rel_gap", 0.0),
        ("output_flag", False),
    ):
        assert solver.getOptionValue(name)[1] == value


def test_what_is_no_answer_is_raised(monkeypatch):
    found = highspy.HighsModelStatus.kSolveError
    monkeypatch.setattr(highspy.Highs, "getModelStatus", lambda self: found)
    with pytest.raises(BackendError, match="HiGHS stopped with"):
        maximise(programs.program([1], [[1]], [0], [1]), Limits(), None)


@pytest.mark.parametrize("ending", [Ending.CANCELLED, Ending.ABANDONED])
def test_ctrl_c_leaves_what_is_known(monkeypatch, ending):
    assert programs.after_ctrl_c(monkeypatch, highs, ending).interrupted


def test_ctrl_c_stops_the_search():
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    found = maximise(programs.hard(), Limits(seconds=30.0), np.zeros(60))
    assert found.interrupted
    assert found.bound < np.inf


def test_a_linear_program_that_was_stopped_has_no_bound(monkeypatch):
    """Without integer columns its objective is a bound only at the optimum."""
    stopped = highspy.HighsModelStatus.kTimeLimit
    monkeypatch.setattr(highspy.Highs, "getModelStatus", lambda self: stopped)
    found = maximise(programs.program([1], [[1]], [0], [0.5], integer=False), Limits(), None)
    assert found.bound == np.inf
    np.testing.assert_allclose(found.columns, [0.5])
