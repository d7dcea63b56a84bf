"""One answer as a mapping from variable to state."""

import math

import numpy as np
import pytest

from cmpe import LogLinearModel, Problem, Solutions, Status, solve
from cmpe.errors import ModelError
from cmpe.solution import Answer, ConstraintValue

NAMES, STATES = ("Rain", "Level"), (("no", "yes"), ("low", "mid", "high"))
TABLE = np.arange(6.0).reshape(2, 3)
MODEL = LogLinearModel.from_tables([2, 3], [((0, 1), TABLE)], NAMES, STATES)
PROBLEM = Problem(MODEL, [MODEL <= 4.0, MODEL >= 1.0])


def test_a_row_is_a_mapping():
    answers = solve(PROBLEM, [{"Rain": "yes"}, {}])
    row = answers[0]
    assert isinstance(row, Answer)
    assert dict(row) == {"Rain": "yes", "Level": "mid"}
    assert row.free == {"Level": "mid"}
    assert (row["Level"], row[1], "Rain" in row, "rain" in row) == ("mid", "mid", True, False)
    assert (row.objective, row.status) == (4.0, Status.OPTIMAL)
    assert (row.bound, row.gap) == (pytest.approx(4.0), pytest.approx(0.0, abs=1e-9))
    assert [c._replace(multiplier=None) for c in row.constraints] == [
        ConstraintValue(4.0, "<=", 4.0, 0.0), ConstraintValue(4.0, ">=", 1.0, -3.0)
    ]  # fmt: skip
    assert row.proof == "proved: no feasible assignment has a higher objective"
    assert row.assignment.tolist() == [1, 1]
    assert row.method == "exact"
    assert row.seconds > 0
    assert repr(row) == "optimal, objective 4: Level=mid"
    assert "<td>Rain</td><td>yes</td>" in row._repr_html_()
    assert row == dict(answers[1])
    with pytest.raises(ModelError, match="no variable 'Levle'; did you mean 'Level'"):
        row["Levle"]


def test_without_names_and_without_an_answer():
    plain = Problem(MODEL.named(()), [MODEL.named(()) <= -1.0])
    (row,) = solve(plain)
    assert (len(row), dict(row), row.status) == (0, {}, Status.INFEASIBLE)
    assert math.isnan(row.objective)
    assert repr(row) == "infeasible, objective -: no assignment"
    with pytest.raises(KeyError, match="no assignment satisfies every constraint"):
        row[0]
    found = Solutions.of(Problem(MODEL.named(())), [[1, 2]], bound=7.0)
    assert dict(found[0]) == {0: 1, 1: 2}
    assert found[0].free == {0: 1, 1: 2}
    assert found[0].proof == (
        "satisfies every constraint; proved: no feasible assignment exceeds 7, which is 2 more"
    )
