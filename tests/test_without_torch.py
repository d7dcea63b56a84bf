"""The core without the extra `learn`: everything but networks works, and what needs torch says so.

One fresh interpreter does it all, in which torch and safetensors cannot be found.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from cmpe.errors import how_to_install

HIDDEN = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "safetensors"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
"""
WORK = """
import contextlib, io, json
from pathlib import Path

import cmpe
from cmpe.cli.main import main
from cmpe.generation import grid

found = {}
cmpe.write_uai(grid(3, 3, seed=1), "model.uai")
made = cmpe.generate(cmpe.read_model("model.uai"), cmpe.Recipe(samples=20))
problem, rows = made.problem, made.test
for method in ("auto", "exact", "search", "lagrangian", "local", "milp:highs"):
    answers = cmpe.solve(problem, rows, method=method)
    found[method] = [float(value) for value in answers.objective]
found["bound"] = [float(value) for value in cmpe.bound(problem, rows).upper]
found["front"] = cmpe.front(problem, rows[:1])[0].at(problem.constraints[0].limit).objective
found["best"] = float(cmpe.best(problem, rows[:1], 2)[0].objective[0])
found["sensitivity"] = cmpe.sensitivity(problem, rows[:1])[0].answer.objective
found["evaluated"] = cmpe.evaluate(answers, cmpe.reference(problem, rows)).every.regret.mean


def refusal(call):
    try:
        call()
    except cmpe.CmpeError as error:
        return str(error)
    return None


def run(*words):
    sys.argv = ["cmpe", *words]
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            main()
        except SystemExit as left:
            return [left.code, said.getvalue()]


found["fit"] = refusal(lambda: cmpe.fit(problem, rows))
found["device"] = refusal(
    lambda: cmpe.solve(problem, rows, method="lagrangian", running=cmpe.Running(device="cuda"))
)
Path("run").mkdir()
found["run"] = refusal(lambda: cmpe.solve(problem, rows, method="run"))
found["generate"] = run("generate", "model.uai", "--out", "problem", "--samples", "20")
found["solve"] = run("solve", "problem", "--output", "answers.jsonl")
found["train"] = run("train", "problem", "--out", "trained")
found["names"] = [name for name in cmpe.__all__ if refusal(lambda: getattr(cmpe, name))]
found["loaded"] = [name for name in ("torch", "safetensors") if name in sys.modules]
print(json.dumps(found))
"""
NEEDS = f"torch is not installed; {how_to_install('learn')}"


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN + WORK],
        capture_output=True,
        text=True,
        cwd=tmp_path_factory.mktemp("without"),
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_it_solves_bounds_and_evaluates(found):
    for method in ("auto", "milp:highs"):
        assert found[method] == pytest.approx(found["exact"])
    for method in ("search", "lagrangian", "local"):
        assert all(a <= b + 1e-6 for a, b in zip(found[method], found["exact"], strict=True))
    assert all(b >= a - 1e-6 for a, b in zip(found["exact"], found["bound"], strict=True))
    assert found["evaluated"] == pytest.approx(0.0, abs=1e-6)
    for question in ("front", "best", "sensitivity"):
        assert found[question] == found["exact"][0]
    assert found["generate"][0] == found["solve"][0] == 0
    assert found["loaded"] == []


def test_what_needs_torch_says_so(found):
    assert found["fit"] == found["run"] == found["device"] == NEEDS
    assert found["train"] == [2, f"error: {NEEDS}\n"]
    assert found["names"] == ["NeuralSolver", "Session", "cross_validate", "fit"]
