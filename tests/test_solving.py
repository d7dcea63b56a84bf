"""`cmpe.solve` as people call it."""

import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import cmpe
from cmpe import LogLinearModel, Problem, Running
from cmpe.errors import MethodError, ModelError
from cmpe.solving import chosen
from tests.problems import worked_example
from tests.refusals import refused

NAMES, STATES = ("Rain", "Level"), (("no", "yes"), ("low", "mid", "high"))
TABLE = [((0, 1), np.arange(6.0).reshape(2, 3))]
PROBLEM = Problem(LogLinearModel.from_tables([2, 3], TABLE, NAMES, STATES))


@pytest.mark.parametrize(
    "start",
    [
        {"Rain": ["no", "yes"], "Level": "low"},
        [{"Rain": "no", "Level": "low"}, {"Rain": "yes", "Level": "low"}],
        pd.DataFrame({"Level": ["low", "low"], "Rain": ["no", "yes"]}),
        np.array([[0, 0], [1, 0]]),
        [[0, 0], [1, 0]],
        cmpe.Solutions.of(PROBLEM, [[0, 0], [1, 0]]),
    ],
)
def test_a_start_in_every_form(start):
    class Lazy:
        def answer(self, instances, limits):
            np.testing.assert_array_equal(limits.start, [[0, 0], [1, 0]])
            return cmpe.Solutions.of(instances.problem, np.full((2, 2), -1))

    answers = cmpe.solve(PROBLEM, {"Rain": ["no", "yes"]}, method=Lazy(), start=start)
    assert answers.objective.tolist() == [0.0, 3.0]  # never worse than its start


def test_workers_and_running():
    seen = []

    class Watching:
        def answer(self, instances, limits):
            seen.append((limits.workers, limits.threads))
            return cmpe.Solutions.of(instances.problem, [[1, 2]])

    cmpe.solve(PROBLEM, method=Watching(), workers=3)
    cmpe.solve(PROBLEM, method=Watching(), workers=3, running=Running(workers=2, threads=4))
    cmpe.solve(PROBLEM, method=Watching(), running=Running(threads=4))
    assert seen == [(3, 1), (3, 4), (1, 4)]
    refused(lambda: cmpe.solve(PROBLEM, running=2), "write running=cmpe.Running", MethodError)
    refused(lambda: cmpe.solve(PROBLEM, workers="2"), "workers must be a whole number", MethodError)


def test_progress_is_opt_in(capsys):
    cmpe.solve(PROBLEM, {"Rain": ["no", "yes"]})
    assert capsys.readouterr().err == ""
    cmpe.solve(PROBLEM, {"Rain": ["no", "yes"]}, progress=True)
    assert "2 of 2 rows" in capsys.readouterr().err
    calls = []
    cmpe.solve(PROBLEM, {"Rain": ["no", "yes"]}, progress=lambda *now: calls.append(now))
    assert calls[-1] == (2, 2)


def test_progress_in_a_notebook(monkeypatch, capsys):
    lines = []

    class Handle:
        def display(self, data, raw):
            lines.append(data["text/plain"])

        update = display

    shell = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=1))
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(DisplayHandle=Handle))
    cmpe.solve(PROBLEM, {"Rain": ["no", "yes"]}, progress=True)
    assert "2 of 2 rows" in lines[-2]
    assert (lines[0], lines[-1]) == ("", "")
    assert capsys.readouterr().err == ""


def test_methods_by_name_and_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "exact").mkdir()
    assert chosen("exact", PROBLEM) == "exact"  # names of methods win
    (tmp_path / "folder").mkdir()
    refused(lambda: cmpe.solve(PROBLEM, method="folder"), "which holds no run", MethodError)
    refused(lambda: cmpe.solve(PROBLEM, method="exxact"), "exxact", MethodError)
    refused(lambda: cmpe.solve(LogLinearModel((2,))), "solve needs a Problem", ModelError)


def test_a_run_by_its_directory(tmp_path):
    problem = worked_example()
    rows = [[0, 0], [0, 1], [1, 0], [1, 1]]
    solver = cmpe.fit(problem, np.array(rows * 3), cmpe.TrainingConfig(epochs=1))
    solver.save(tmp_path / "run")
    answers = cmpe.solve(problem, rows, method=str(tmp_path / "run"))
    assert len(answers) == 4
    assert "network" in answers.method[0]
    again = cmpe.solve(problem, rows, method=tmp_path / "run")
    np.testing.assert_array_equal(again.assignments, answers.assignments)
    np.testing.assert_array_equal(solver.predict(rows).assignments, answers.assignments)
