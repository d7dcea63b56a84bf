"""`cmpe relax`: one line or object a row; the costs say what may change."""

import cmpe
from tests.cli.commands import output, rows_of, run

ALARM = ["--objective", str(cmpe.example("alarm"))]
COUNT = ["--count", "f: HYPOVOLEMIA=TRUE LVFAILURE=TRUE <= 1"]
BOTH = ["--evidence-values", "HYPOVOLEMIA=TRUE", "--evidence-values", "LVFAILURE=TRUE"]


def test_findings_at_one_each_by_default():
    line = output("relax", *ALARM, *COUNT, *BOTH).strip()
    assert "FALSE instead of TRUE (cost 1, proved to be the cheapest)" in line


def test_costs_of_findings_and_limits_and_json():
    priced = ["--cost", "f=0.5", "--cost", "HYPOVOLEMIA=2"]
    (row,) = rows_of(output("relax", *ALARM, *COUNT, *BOTH, *priced, "--format", "json"))
    expected = {"cost": 0.5, "proved": True, "findings": {}, "limits": {"f": [1.0, 2.0]}}
    assert row == {"index": 0, **expected}


def test_nothing_is_enough_and_a_wrong_cost(models):
    code, text, _ = run("relax", *models[:-1], "-99", "--evidence", "e.evid")
    assert code == 1
    assert text.splitlines()[0] == "row 0: no change is enough: proved"
    code, _, words = run("relax", *models, "--cost", "free")
    assert code == 2
    assert words.strip() == "error: --cost must be NAME=COST, as in faults=2; found 'free'"
