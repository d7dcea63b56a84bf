import json

import numpy as np
import pytest
from hypothesis import given

from cmpe import LogLinearModel, Problem, Solutions, Status, solve
from tests.problems import random_problem, seeds, worked_example


def test_values_and_statuses_are_recomputed():
    problem = worked_example()
    rows = [[1, 1, 0, 1], [1, 1, 0, 1], [1, 1, 0, 0], [-1] * 4, [-1] * 4, [1, 1, 0, 1]]
    answers = Solutions.of(
        problem,
        rows,
        bound=[11 + 1e-6, 12, 16, 16, 16, 3],
        infeasible=[False, False, False, True, False, True],
        method="hand",
    )
    assert answers.objective[:3].tolist() == [11, 11, 16]
    assert answers.constraint_values[:3, 0].tolist() == [20, 20, 23]
    assert answers.violations[:3, 0].tolist() == [0, 0, 3]
    # A feasible answer refutes a claimed proof of infeasibility and lifts a bound below it.
    assert [Status(s).label for s in answers.status] == [
        "optimal", "feasible", "violated", "infeasible", "unknown", "optimal",
    ]  # fmt: skip
    assert answers.bound[3] == -np.inf
    assert answers.bound[5] == 11
    assert answers.feasible.tolist() == [True, True, False, False, False, True]
    np.testing.assert_allclose(answers.gap, [1e-6, 1, np.nan, np.nan, np.nan, 0], atol=1e-12)
    assert np.isnan(answers.objective[3])


def test_take_and_concatenate_keep_rows_whole():
    problem = worked_example()
    answers = Solutions.of(problem, [[1, 1, 0, 1], [0, 0, 1, 1]], method=["a", "b"], seconds=[1, 2])
    back = Solutions.concatenate([answers.take([1]), answers.take([0])])
    assert back.method.tolist() == ["b", "a"]
    assert back.seconds.tolist() == [2, 1]
    assert back.assignments.tolist() == [[0, 0, 1, 1], [1, 1, 0, 1]]
    one = answers.span(1, 2)
    assert one == answers.take([1])
    assert one.observed is None
    assert np.shares_memory(one.assignments, answers.assignments)


def test_an_assignment_of_weight_zero_violates_nothing():
    model = LogLinearModel.from_tables([2], [((0,), [-np.inf, 0.0])])
    answers = Solutions.of(Problem(model), [[0], [1]], bound=1.0)
    assert answers.labels == ["unknown", "feasible"]
    assert "weight" in Status.UNKNOWN.sentence


def test_every_status_has_a_sentence():
    assert all(status.sentence and status.label.islower() for status in Status)


@given(seeds)
def test_the_better_of_two_answers(seed):
    """Row by row by hand: feasible before not, then the higher objective; ties keep the first."""
    problem, evidence = random_problem(seed)
    rng = np.random.default_rng(seed)
    instances = problem.given(evidence)
    cards = np.array(problem.objective.cardinalities)[list(problem.free)]
    two = []
    for name in ("first", "second"):
        rows = instances.complete(rng.integers(0, cards, (len(instances), len(cards))))
        rows[rng.random(len(rows)) < 0.2] = -1
        two.append(Solutions.of(problem, rows, method=name))
    first, second = two
    kept = first.or_better(second)
    for row in range(len(instances)):
        takes = second.feasible[row] and (
            not first.feasible[row] or second.objective[row] > first.objective[row]
        )
        assert kept.method[row] == ("second" if takes else "first")
        assert (
            kept.assignments[row].tolist() == (second if takes else first).assignments[row].tolist()
        )


# --- as people use them ---


def named_answers(count=3):
    model = LogLinearModel.from_tables([2, 3], [((0, 1), [[0, 1, 2], [3, 4, 5]])], ["a", "b"])
    return solve(Problem(model, [model <= 4.0]), {"a": [k % 2 for k in range(count)]})


def test_indexing_iteration_and_equality():
    answers = named_answers()
    assert [row["b"] for row in answers] == [2, 1, 2]
    assert answers[-1] == answers[2]
    assert len(answers[1:]) == 2
    assert answers[[0, 2]].objective.tolist() == [2.0, 2.0]
    assert answers[np.array([True, False, False])].labels == ["optimal"]
    assert answers[0].free == {"b": 2}
    assert answers[1:][0].free == {"b": 1}
    assert answers == answers.take(range(3))
    assert answers != answers[:2]
    assert answers != "answers"
    with pytest.raises(IndexError, match="rows are numbered 0 to 2, found 3"):
        answers[3]


def test_reprs_are_short():
    answers = named_answers(40)
    text = repr(answers)
    assert text.startswith("Solutions(40 rows: 40 optimal)\n  0: optimal, objective 2: b=2\n")
    assert text.endswith("  ...")
    assert len(text.splitlines()) == 12
    page = answers._repr_html_()
    assert "<th>t &lt;= 4</th>" in page
    assert "<td>b=1</td>" in page
    assert repr(answers[:0]) == "Solutions(0 rows: none)"


def test_a_status_is_a_word_that_equals_its_code():
    codes = np.arange(len(Status), dtype=np.int8)
    for status in Status:
        assert (codes == status).tolist() == [code == status.code for code in codes]
        assert (codes != status).tolist() == [code != status.code for code in codes]
        assert Status(codes[status.code]) is status is Status(status.label)
        assert json.loads(json.dumps({"status": status})) == {"status": status.label}
        assert int(status) == status.code == status == status.label
        assert codes[status.code] in {status}
    with pytest.raises(ValueError, match="99"):
        Status(99)
