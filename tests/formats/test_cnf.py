"""Clauses of DIMACS files."""

import itertools

import numpy as np
import pytest

import cmpe
from cmpe.errors import FormatError, ModelError
from tests.problems import all_assignments

TEXT = "c made by hand\n\np cnf 3 3\n1 -3 0 2 3\n-1 0\n-2 0\n%\n0\n"


def test_clauses(tmp_path):
    (tmp_path / "f.cnf").write_text(TEXT)
    rules = cmpe.read_rules(tmp_path / "f.cnf")
    assert [str(rule) for rule in rules] == [
        "Rule(at least one of 0=1 2!=1)",
        "Rule(at least one of 1=1 2=1 0!=1)",
        "Rule(at least one of 1!=1)",
    ]
    rows = all_assignments((2, 2, 3))
    problem = cmpe.Problem(cmpe.LogLinearModel((2, 2, 3)), rules)
    a, b, c = rows.T == 1
    holds = (a | ~c) & (b | c | ~a) & ~b
    np.testing.assert_array_equal(np.isfinite(problem.objective.value(rows)), holds)
    named = cmpe.LogLinearModel((2, 2, 3), (), ("x", "y", "z"))
    other = cmpe.Problem(named, cmpe.read_rules(tmp_path / "f.cnf", names=["y", "x", "z"]))
    b, a, c = rows.T == 1
    holds = (a | ~c) & (b | c | ~a) & ~b
    np.testing.assert_array_equal(np.isfinite(other.objective.value(rows)), holds)


@pytest.mark.parametrize("seed", range(5))
def test_satisfiable_or_not(tmp_path, seed):
    rng = np.random.default_rng(seed)
    n, clauses = 8, 36
    chosen = [
        (rng.choice(n, 3, replace=False) + 1) * rng.choice([-1, 1], 3) for _ in range(clauses)
    ]
    lines = [f"p cnf {n} {clauses}", *(" ".join(map(str, c)) + " 0" for c in chosen)]
    (tmp_path / "f.cnf").write_text("\n".join(lines))
    answer = cmpe.solve(
        cmpe.Problem(cmpe.LogLinearModel((2,) * n), cmpe.read_rules(tmp_path / "f.cnf"))
    )
    expected = any(
        all(any((z[abs(x) - 1] == 1) == (x > 0) for x in c) for c in chosen)
        for z in itertools.product((0, 1), repeat=n)
    )
    assert answer.labels == ["optimal" if expected else "infeasible"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 0\n", "line 1: expected 'p cnf VARIABLES CLAUSES', found '1 0'"),
        ("p cnf 2 x\n", "line 1: expected 'p cnf VARIABLES CLAUSES'"),
        ("", "the end: expected a line 'p cnf"),
        ("p cnf 2 1\n1 3 0\n", "line 2: expected a literal from -2 to 2, or 0, found '3'"),
        ("p cnf 2 1\n1 x 0\n", "line 2: expected a literal from -2 to 2, or 0, found 'x'"),
        ("p cnf 2 1\n1 2\n", "expected 0 after the last clause"),
        ("p cnf 2 2\n1 2 0\n", "the end: expected 2 clauses, found 1"),
        ("p cnf 2 2\n1 2 0 0\n", "line 2: expected a literal before 0, found an empty clause"),
    ],
)
def test_mistakes_name_file_and_line(tmp_path, text, message):
    (tmp_path / "f.cnf").write_text(text)
    with pytest.raises(FormatError, match=message) as caught:
        cmpe.read_rules(tmp_path / "f.cnf")
    assert str(tmp_path / "f.cnf") in str(caught.value)


def test_names_and_models_must_fit(tmp_path):
    (tmp_path / "f.cnf").write_text(TEXT)
    with pytest.raises(FormatError, match="at most 2 variables, which have names, found 3"):
        cmpe.read_rules(tmp_path / "f.cnf", names=["x", "y"])
    with pytest.raises(ModelError, match="there is no variable 2: numbers go from 0 to 1"):
        cmpe.Problem(cmpe.LogLinearModel((2, 2)), cmpe.read_rules(tmp_path / "f.cnf"))
