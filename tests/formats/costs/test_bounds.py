"""The bound of a cost function network: a strict limit on the sum of costs."""

from __future__ import annotations

import json
from decimal import ROUND_DOWN, Decimal

import numpy as np
import pytest

import cmpe
from tests.problems import all_assignments

TWICE = (
    '{"problem":{"name":"p","mustbe":"MUSTBE"},"variables":{"a":2,"b":2},"functions":'
    '{"c":{"scope":["b"],"costs":[B]},"f":{"scope":["a","b"],"costs":[AB]}}}'
)
BOTH = "p 2 2 2 TOP\n2 2\n1 0 0 2\n0 3\n1 4\n1 1 0 2\n0 3\n1 4\n"


def answer(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    answers = cmpe.solve(cmpe.read_problem(tmp_path / name))
    return answers.labels[0], answers.objective[0], answers.assignments[0].tolist()


@pytest.mark.parametrize(
    ("mustbe", "b", "ab", "expected"),
    [
        ("<-5.0", "-4,-3", "-2,-4,-1,0", ("optimal", 8.0 - 1.0, [0, 1])),
        (">4.0", "3,4", "3,1,4,4", ("optimal", 8.0, [1, 1])),
        ("<-7.0", "-4,-3", "-2,-4,-1,0", ("infeasible",)),
        (">8.0", "3,4", "3,1,4,4", ("infeasible",)),
    ],
)
def test_the_bound_limits_the_sum_and_not_each_entry(tmp_path, mustbe, b, ab, expected):
    text = TWICE.replace("MUSTBE", mustbe).replace("AB", ab).replace("B]", f"{b}]")
    assert answer(tmp_path, "m.cfn", text)[: len(expected)] == expected


@pytest.mark.parametrize(
    ("top", "expected"),
    [(5, ("infeasible",)), (6, ("infeasible",)), (7, ("optimal", -6.0, [0, 0]))],
)
def test_a_sum_that_reaches_the_top_is_no_solution(tmp_path, top, expected):
    text = BOTH.replace("TOP", str(top))
    assert answer(tmp_path, "m.wcsp", text)[: len(expected)] == expected


def test_large_bounds_are_as_strict(tmp_path):
    """Where the tolerance of a limit is wider than a unit, the limit makes up for it."""
    million = BOTH.replace("3", "3000000").replace("4", "4000000")
    assert answer(tmp_path, "m.wcsp", million.replace("TOP", "6000000"))[0] == "infeasible"
    expected = ("optimal", -6000000.0, [0, 0])
    assert answer(tmp_path, "m.wcsp", million.replace("TOP", "6000001")) == expected
    text = TWICE.replace("AB", "0,0,0,0").replace("B]", "100.000001,200]")
    assert answer(tmp_path, "m.cfn", text.replace("MUSTBE", "<100.000001"))[0] == "infeasible"
    assert answer(tmp_path, "m.cfn", text.replace("MUSTBE", "<100.000002"))[0] == "optimal"


def test_functions_of_one_name_are_all_kept(tmp_path):
    text = TWICE.replace('"f"', '"c"').replace("MUSTBE", "<99").replace("AB", "1,2,3,4")
    assert answer(tmp_path, "m.cfn", text.replace("B]", "10,20]")) == ("optimal", -11.0, [0, 0])


def test_costs_have_the_decimals_of_the_bound(tmp_path):
    """Further ones are dropped, as toulbar2 does."""
    text = TWICE.replace("AB", "0.29,0.3,0.30000000000000004,2").replace("B]", "-0.26,9]")
    one = answer(tmp_path, "m.cfn", text.replace("MUSTBE", "<10.0"))
    assert (one[0], one[2]) == ("optimal", [0, 0])
    assert one[1] == pytest.approx(-0.2 + 0.2, abs=1e-15)
    two = answer(tmp_path, "m.cfn", text.replace("MUSTBE", "<10.00"))
    assert two[1] == pytest.approx(-0.29 + 0.26)
    assert cmpe.read_model(tmp_path / "m.cfn").factors[0].log_table.tolist() == [0.26, -9.0]


def test_a_bound_that_no_sum_reaches_is_no_constraint(tmp_path):
    (tmp_path / "m.wcsp").write_text(BOTH.replace("TOP", "9"))
    assert not cmpe.read_problem(tmp_path / "m.wcsp").constraints
    (tmp_path / "m.wcsp").write_text(BOTH.replace("TOP", "8"))
    (constraint,) = cmpe.read_problem(tmp_path / "m.wcsp").constraints
    assert (constraint.relation, constraint.limit) == (">=", -7.0)


def test_a_model_has_no_bound_but_lacks_entries_beyond_it(tmp_path):
    (tmp_path / "m.wcsp").write_text(BOTH.replace("TOP", "7"))
    model = cmpe.read_model(tmp_path / "m.wcsp")
    assert [f.log_table.tolist() for f in model.factors] == [[-3.0, -np.inf], [-3.0, -np.inf]]
    (tmp_path / "m.wcsp").write_text(BOTH.replace("TOP", "8"))
    assert cmpe.read_model(tmp_path / "m.wcsp").value([[1, 1]]) == -8.0


def test_problems_of_other_files(tmp_path):
    model = cmpe.LogLinearModel.from_tables([2], [((0,), [0.0, 1.0])])
    cmpe.write_model(model, tmp_path / "m.uai")
    problem = cmpe.read_problem(tmp_path / "m.uai")
    assert (problem.name, problem.constraints) == ("m", ())
    assert cmpe.solve(problem)[0][0] == 1


def random_file(seed):
    """A .cfn with a bound near attained sums, and the least cost by its definition."""
    rng = np.random.default_rng(seed)
    cards = rng.integers(1, 4, int(rng.integers(1, 5))).tolist()
    digits = int(rng.integers(0, 3))
    sign = 1 if rng.random() < 0.5 else -1
    functions, costs = [], np.zeros(cards, dtype=object)
    for _ in range(int(rng.integers(1, 5))):
        arity = int(rng.integers(0, min(3, len(cards)) + 1))
        scope = sorted(rng.choice(len(cards), arity, replace=False).tolist())
        shape = [cards[v] for v in scope]
        words = np.array(
            [
                "inf" if rng.random() < 0.1 else f"{rng.normal(0, 3):.{rng.integers(0, 4)}f}"
                for _ in range(int(np.prod(shape, dtype=int)))
            ]
        )
        unit = Decimal(1).scaleb(-digits)
        exact = [
            Decimal(w) if w == "inf" else sign * Decimal(w).quantize(unit, ROUND_DOWN)
            for w in words
        ]
        table = np.array(exact, dtype=object).reshape(shape)
        costs = costs + table.reshape([cards[v] if v in scope else 1 for v in range(len(cards))])
        functions.append({"scope": scope, "costs": words.tolist()})
    sums = [cost for cost in costs.ravel() if cost.is_finite()] or [Decimal(0)]
    bound = (sums[int(rng.integers(len(sums)))] + int(rng.integers(-1, 2)) * unit).quantize(unit)
    feasible = [cost for cost in sums if cost < bound] if costs.size else []
    if not any(cost.is_finite() for cost in costs.ravel()):
        feasible = []
    text = json.dumps(
        {
            "problem": {"name": "p", "mustbe": f"{'<' if sign > 0 else '>'}{sign * bound:f}"},
            "variables": {f"v{v}": k for v, k in enumerate(cards)},
            "functions": {f"f{k}": f for k, f in enumerate(functions)},
        }
    )
    return text, cards, (-float(min(feasible)) if feasible else None), costs


@pytest.mark.parametrize("seed", range(200))
def test_random_files_by_their_definition(tmp_path, seed):
    text, cards, best, costs = random_file(seed)
    label, objective, values = answer(tmp_path, "m.cfn", text)
    if best is None:
        assert label == "infeasible"
        return
    assert label == "optimal"
    assert objective == pytest.approx(best, abs=1e-9)
    assert -float(costs[tuple(values)]) == pytest.approx(best, abs=1e-9)
    problem = cmpe.read_problem(tmp_path / "m.cfn")
    rows = all_assignments(cards)
    is_solution = [float(costs[tuple(row)]) <= -objective + 1e-9 for row in rows]
    assert problem.is_feasible(rows)[is_solution].all()
