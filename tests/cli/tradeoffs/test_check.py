"""`cmpe solve --certificate` and `--explain`, and `cmpe check`."""

from __future__ import annotations

import json

from typer.testing import CliRunner

import cmpe
from tests.cli.commands import app, output

ALARM = ["--objective", str(cmpe.example("alarm")), "--evidence-values", "BP=LOW"]
NEVER = ["--count", "f: HYPOVOLEMIA=TRUE LVFAILURE=TRUE >= 2"]
NEVER += ["--require", "HYPOVOLEMIA=TRUE implies LVFAILURE=FALSE"]


def run(*words):
    return CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)


def test_what_solve_certifies_check_verifies(models, tmp_path):
    path = tmp_path / "proof.json"
    output("solve", *models, "--evidence", "e.evid", "--certificate", path)
    lines = output("check", path).splitlines()
    assert [line.split(":")[1] for line in lines] == [" verified"] * 2
    content = json.loads(path.read_text())
    assert content["problem"]["files"]
    content["rows"][1]["bound"] -= 1.0
    path.write_text(json.dumps(content))
    refused = run("check", path)
    assert "row 1: refused: cube 0: the sum of the maxima is" in refused.stdout


def test_infeasible_rows_are_explained_and_certified(tmp_path):
    path = tmp_path / "proof.json"
    done = run("solve", *ALARM, *NEVER, "--explain", "--certificate", path)
    assert done.stderr.strip() == (
        "row 0: cannot hold together: f >= 2, rule 'HYPOVOLEMIA=TRUE implies LVFAILURE=FALSE'"
    )
    assert output("check", path).startswith("row 0: verified: no assignment satisfies the")


def test_a_feasible_row_needs_no_explanation():
    assert run("solve", *ALARM, "--explain").stderr == ""
