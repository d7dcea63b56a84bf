"""Gurobi as a back-end; the licence that comes with it is for small models."""

import sys

import pytest

import cmpe
from cmpe import Limits
from cmpe.errors import BackendError, InputError, MissingExtra
from cmpe.execution.threads import Ending
from cmpe.generation import grid
from cmpe.solvers.milp import gurobi
from cmpe.solvers.milp.gurobi import load, maximise
from tests.solvers.milp import programs

gurobipy = pytest.importorskip("gurobipy")


@pytest.mark.parametrize("check", programs.CHECKS)
def test_programs_with_known_answers(check):
    assert load() is maximise
    check(maximise)


def test_gurobi_without_a_licence_says_so():
    model = grid(40, 40, seed=0)
    with pytest.raises(InputError, match="licence"):
        cmpe.solve(cmpe.queries.mpe(model), method="milp:gurobi", time_limit=1)


@pytest.mark.parametrize(
    ("number", "error", "message"),
    [(10009, MissingExtra, "needs a licence for this problem"), (10001, BackendError, "failed")],
)
def test_an_error_of_gurobi_is_one_of_ours(monkeypatch, number, error, message):
    def fails(**_):
        raise gurobipy.GurobiError(number, "a reason")

    monkeypatch.setattr(gurobipy, "Env", fails)
    with pytest.raises(error, match=message) as caught:
        maximise(programs.program([1], [], [], []), Limits(), None)
    assert "a reason" in str(caught.value)


def test_what_is_no_answer_is_raised(monkeypatch):
    class Stopped(gurobipy.Model):
        Status = gurobipy.GRB.NUMERIC

    monkeypatch.setattr(gurobipy, "Model", Stopped)
    with pytest.raises(BackendError, match="stopped with status 12"):
        maximise(programs.program([1], [[1]], [0], [1]), Limits(), None)


@pytest.mark.parametrize("ending", [Ending.CANCELLED, Ending.ABANDONED])
def test_ctrl_c_leaves_what_is_known(monkeypatch, ending):
    assert programs.after_ctrl_c(monkeypatch, gurobi, ending).interrupted


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "gurobipy", None)
    with pytest.raises(MissingExtra, match=r"'cmpe\[gurobi\]'.* and obtain a Gurobi licence"):
        load()
