"""Problem directories of problems under rules, labels and samples of them."""

import json

import numpy as np
import pytest

import cmpe
from cmpe.errors import FormatError
from cmpe.formats.labels import problem_digest
from cmpe.generation import Recipe, from_pair
from cmpe.problem import Form
from tests.problems import all_assignments

NAMES = [f"v{i}" for i in range(9)]
STATES = [["no", "yes"]] * 8 + [["low", "mid state", "high"]]


def problem_under_rules():
    rng = np.random.default_rng(0)
    scopes = [(NAMES[i], NAMES[i + 1]) for i in range(8)]
    tables = [(s, rng.normal(size=(2, 3 if "v8" in s else 2))) for s in scopes]
    h = cmpe.LogLinearModel.from_tables([2] * 8 + [3], tables, NAMES, STATES)
    return cmpe.Problem(
        h,
        [
            cmpe.count(dict.fromkeys(NAMES[:4], "yes"), name="how many").between(1, 3),
            cmpe.implies({"v0": "yes"}, {"v8": "mid state"}, name="small"),
            cmpe.exactly_one({**dict.fromkeys(NAMES[:8], "yes"), "v8": "high"}, name="a large one"),
            cmpe.parity({**dict.fromkeys(NAMES[:8], "no"), "v8": ["low", "mid state"]}, weight=0.3),
        ],
    )


def test_directories_come_back(tmp_path):
    problem = problem_under_rules()
    made = from_pair(problem, Recipe(samples=20))
    assert np.isfinite(made.problem.objective.value(full(made))).all()
    content = cmpe.ProblemDirectory(made.problem, made.train, made.test)
    cmpe.write_directory(content, tmp_path / "p")
    back = cmpe.read_directory(tmp_path / "p")
    assert back.problem.form is Form.RULES
    assert back.problem.rules == problem.rules
    assert [c.name for c in back.problem.constraints] == ["how many", "how many"]
    rows = all_assignments(problem.domain.cardinalities)
    np.testing.assert_allclose(
        back.problem.objective.value(rows), problem.objective.value(rows), atol=1e-12
    )
    first, second = (cmpe.solve(p, made.test) for p in (made.problem, back.problem))
    assert first.assignments.tolist() == second.assignments.tolist()
    assert problem_digest(back.problem) == problem_digest(made.problem)
    assert len(json.loads((tmp_path / "p/problem.json").read_text())["rules"]) == 3
    other = problem.under([cmpe.at_least_one({name: [0, 1] for name in NAMES})])
    assert problem_digest(other) != problem_digest(problem)
    assert len(other.rules) == 4


def full(made):
    """The first training rows, completed by the answer."""
    return cmpe.solve(made.problem, made.train[:3]).assignments


def test_samples_keep_the_rules():
    problem = problem_under_rules()
    drawn = cmpe.sample(problem.objective, 4000, 0)
    rows = all_assignments(problem.domain.cardinalities)
    weights = np.exp(problem.objective.value(rows))
    place = np.ravel_multi_index(drawn.assignments.T, problem.domain.cardinalities)
    shares = np.bincount(place, minlength=len(rows)) / len(place)
    np.testing.assert_allclose(shares, weights / weights.sum(), atol=0.03)


def test_rules_that_do_not_fit_are_refused(tmp_path):
    made = from_pair(problem_under_rules(), Recipe(samples=20))
    cmpe.write_directory(cmpe.ProblemDirectory(made.problem, made.train, made.test), tmp_path / "p")
    file = tmp_path / "p/problem.json"
    text = json.loads(file.read_text())
    text["rules"] = ["exactly one of v9=yes"]
    file.write_text(json.dumps(text))
    with pytest.raises(
        FormatError, match=r"problem\.json: rule 'exactly one of v9=yes': there is no"
    ):
        cmpe.read_directory(tmp_path / "p")
    text["rules"] = 3
    file.write_text(json.dumps(text))
    with pytest.raises(FormatError, match="field 'rules': expected a list of rules in words"):
        cmpe.read_directory(tmp_path / "p")
