"""SCIP as a back-end."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import cmpe
from cmpe import Constraint, Factor, Limits, LogLinearModel, Problem
from cmpe.errors import BackendError, MissingExtra
from cmpe.execution.threads import Ending
from cmpe.solvers.milp import scip
from cmpe.solvers.milp.scip import load, maximise
from tests.solvers.milp import programs

pytest.importorskip("pyscipopt")


@pytest.mark.parametrize("check", programs.CHECKS)
def test_programs_with_known_answers(check):
    assert load() is maximise
    check(maximise)


def test_options_reach_the_solver():
    model, variables = scip.model_of(
        programs.program([1, 1], [], [], []), Limits(seconds=2.5, seed=7)
    )
    assert len(variables) == 2
    for name, value in (
        ("limits/time", 2.5),
        ("randomization/randomseedshift", 7),
        ("lp/threads", 1),
        ("limits/gap", 0.0),
    ):
        assert model.getParam(name) == value


def test_a_limit_that_evidence_alone_breaks_is_a_proof():
    """More assignments than are ever cut off: the row without columns itself must say it."""
    chain = tuple(Factor((i, i + 1), np.eye(2)) for i in range(8))
    t = LogLinearModel((2,) * 9, (Factor((0,), [0.0, 5.0]),))
    problem = Problem(LogLinearModel((2,) * 9, chain), (Constraint(t, 1.0),), (0,))
    found = cmpe.solve(problem, [[1], [0]], method="milp:scip")
    assert found.labels == ["infeasible", "optimal"]


def test_what_is_no_answer_is_raised(monkeypatch):
    class Stopped:
        def __getattr__(self, name):
            return lambda: "nodelimit"

    monkeypatch.setattr(scip, "model_of", lambda *_: (Stopped(), []))
    with pytest.raises(BackendError, match="status nodelimit"):
        maximise(programs.program([1], [], [], []), Limits(), None)


@pytest.mark.parametrize("ending", [Ending.CANCELLED, Ending.ABANDONED])
def test_ctrl_c_leaves_what_is_known(monkeypatch, ending):
    assert programs.after_ctrl_c(monkeypatch, scip, ending).interrupted


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyscipopt", None)
    with pytest.raises(MissingExtra, match=r"SCIP \(pyscipopt\) .* 'cmpe\[scip\]'"):
        load()


def test_a_search_that_was_stopped_without_an_answer_has_its_bound(monkeypatch):
    class Stopped:
        """The methods of PySCIPOpt that are asked."""

        def __getattr__(self, name):
            found = {"getStatus": "timelimit", "getDualbound": 4.5, "infinity": 1e20}
            return lambda: found.get(name, 0)

    monkeypatch.setattr(scip, "model_of", lambda *_: (Stopped(), []))
    found = maximise(programs.program([1], [], [], []), Limits(), None)
    assert (found.columns, found.bound, found.infeasible) == (None, 4.5, False)


@pytest.mark.parametrize("seed", range(4))
def test_an_optimum_that_ties_at_a_limit_is_not_reduced_away(seed):
    """With weak dual reductions SCIP 10.0 proved 0.967 with three seeds of twelve, 0 among them."""
    kept = json.loads(Path(__file__).with_name("weak_reduction.json").read_text(encoding="utf-8"))

    def model(factors):
        tables = tuple(Factor(tuple(scope), np.array(table)) for scope, table in factors)
        return LogLinearModel(tuple(kept["cardinalities"]), tables)

    limits = tuple(Constraint(model(factors), q) for factors, q in kept["constraints"])
    problem = Problem(model(kept["objective"]), limits)
    truth = cmpe.solve(problem, method="exhaustive").objective
    found = cmpe.solve(problem, method="milp:scip", seed=seed)
    np.testing.assert_allclose(found.objective, truth)
    assert (found.bound >= truth).all()
