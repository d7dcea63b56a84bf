"""Constraints by name: wherever answers are shown, and wherever a constraint is chosen."""

import json

import numpy as np
import pytest

import cmpe
from cmpe.cli.table import table_text
from cmpe.errors import EvidenceError, MethodError
from cmpe.formats.results import json_rows
from cmpe.inspection import describe_directory

NAMES, STATES = ("Pump", "Level"), (("ok", "worn"), ("low", "mid", "high"))
MODEL = cmpe.LogLinearModel.from_tables(
    [2, 3], [(("Pump", "Level"), np.arange(6.0).reshape(2, 3))], NAMES, STATES
)
FAULTS = cmpe.count({"Pump": "worn", "Level": "high"}, name="faults")
PROBLEM = cmpe.Problem(
    MODEL,
    [FAULTS <= 1, (MODEL <= 4.5).named("score"), cmpe.implies({"Pump": "ok"}, {"Level": "low"})],
)


def test_answers_show_names():
    answers = cmpe.solve(PROBLEM)
    names = list(answers.to_frame().columns)
    assert names[6:8] == ["faults <= 1", "score <= 4.5"]
    (line,) = json_rows(PROBLEM, answers)
    assert [c["name"] for c in json.loads(line)["constraints"]] == ["faults", "score"]
    for text in (answers._repr_html_(), table_text(PROBLEM, answers), repr(PROBLEM)):
        assert "faults <= 1" in text.replace("&lt;", "<")
    assert "; faults 1 &lt;= 1; score 4 &lt;= 4.5<" in answers[0]._repr_html_()
    assert "1 rule)" in repr(PROBLEM)
    assert "Pump=ok implies Level=low" in PROBLEM._repr_html_()
    faults = answers[0].constraint("faults")
    assert (faults.name, faults.value, faults.limit) == ("faults", 1.0, 1.0)
    assert faults.multiplier is None or faults.multiplier >= 0.0
    with pytest.raises(KeyError, match="there is 'faults', 'score'"):
        answers[0].constraint("costs")


def test_constraints_are_chosen_by_name():
    own = cmpe.solve(PROBLEM, limits={"faults": [0, 1, 2]})
    assert own.objective.tolist() == [0.0, 4.0, 4.0]
    assert [c for c in own.to_frame().columns if "faults" in c] == ["faults <= q1"]
    (front,) = cmpe.front(PROBLEM, over="faults")
    assert (front.name, front.values.tolist()) == ("faults", [0.0, 1.0])
    assert "faults 0 to 1" in repr(front)
    (by_number,) = cmpe.front(PROBLEM, over=0)
    assert by_number.objective.tolist() == front.objective.tolist()
    (sensitivity,) = cmpe.sensitivity(PROBLEM)
    assert repr(sensitivity).startswith("Sensitivity(faults: mu")


def test_mistakes():
    with pytest.raises(EvidenceError, match="no constraint 'fault'; there is 'faults', 'score'"):
        cmpe.solve(PROBLEM, limits={"fault": 1})
    with pytest.raises(EvidenceError, match="limits of constraint 'faults' must be one number per"):
        cmpe.solve(PROBLEM, limits={"faults": [[1, 2]], "score": [1, 2]})
    both = cmpe.Problem(MODEL, [FAULTS == 1])
    with pytest.raises(MethodError, match="has 2 limits; give one of the numbers 0 and 1 instead"):
        cmpe.front(both, over="faults")
    with pytest.raises(MethodError, match="there is no constraint 'a'; none has a name"):
        cmpe.front(cmpe.Problem(MODEL, [MODEL <= 1]), over="a")


def test_what_info_says():
    content = cmpe.ProblemDirectory(PROBLEM, np.zeros((0, 0)), np.zeros((0, 0)))
    facts = describe_directory(content)
    assert facts["constraints"] == ["faults <= 1.0", "score <= 4.5"]
    assert facts["rules"] == ["Pump=ok implies Level=low"]
