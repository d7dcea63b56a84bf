"""`cmpe conflict`: one line or object a row."""

import cmpe
from tests.cli.commands import output, rows_of


def test_each_row_has_its_conflict(models):
    words = ["conflict", *models[:-1], "-99", "--evidence", "e.evid"]
    lines = output(*words).splitlines()
    assert lines == ["row 0: cannot hold: t0 <= -99", "row 1: cannot hold: t0 <= -99"]
    first, _ = rows_of(output(*words, "--format", "json", "--relax"))
    assert first["members"] == ["t0 <= -99"]
    assert first["minimal"]
    assert first["relaxed"] == {"cost": None, "proved": True, "findings": {}, "limits": {}}


def test_a_feasible_row_has_none(models):
    lines = output("conflict", *models, "--evidence", "e.evid").splitlines()
    assert lines[0] == "row 0: there is a feasible answer: nothing is in conflict"


def test_counts_rules_and_inline_evidence():
    words = ["--objective", str(cmpe.example("alarm")), "--evidence-values", "BP=LOW"]
    words += ["--count", "f: HYPOVOLEMIA=TRUE LVFAILURE=TRUE >= 2"]
    words += ["--require", "HYPOVOLEMIA=TRUE implies LVFAILURE=FALSE"]
    expected = "f >= 2, rule 'HYPOVOLEMIA=TRUE implies LVFAILURE=FALSE'"
    line = output("conflict", *words).strip()
    assert line == f"row 0: cannot hold together: {expected}"
