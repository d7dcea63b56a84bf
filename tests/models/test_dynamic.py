"""Unrolled networks against the sum of prior and transitions."""

import itertools

import numpy as np
import pytest
from hypothesis import given

import cmpe
from cmpe import LogLinearModel, Problem, unroll
from cmpe.errors import ModelError
from tests.problems import seeds
from tests.refusals import refused


def random_slices(seed):
    """A two-slice model of one or two variables, a shared one, and how many steps."""
    rng = np.random.default_rng(seed)
    stems = ["a", "b"][: int(rng.integers(1, 3))]
    cards = {stem: int(rng.integers(2, 4)) for stem in stems}
    endings = [("[0]", "[1]"), ("_0", "_1"), ("0", "t")][int(rng.integers(3))]
    names = [stem + end for stem in stems for end in endings] + ["shared"]
    rng.shuffle(names)
    size = [2 if n == "shared" else cards[n[0]] for n in names]
    of = names.index

    def table(*scope):
        values = rng.normal(size=[size[of(n)] for n in scope])
        values[rng.random(values.shape) < 0.1] = -np.inf
        return scope, values

    first, second = ([stem + end for stem in stems] for end in endings)
    tables = [table("shared"), table(*first), table(*second, "shared")]
    tables += [table(a, b) for a, b in zip(first, second, strict=True)]
    model = LogLinearModel.from_tables(size, tables, names=names)
    return model, stems, endings, tables, int(rng.integers(1, 4))


def expected(tables, endings, row, steps):
    """The sum of prior and transitions of one assignment by name."""

    def value(scope, values, step):
        index = []
        for name in scope:
            if name == "shared":
                index.append(row[name])
                continue
            place = 0 if name.endswith(endings[0]) else 1
            index.append(row[f"{name[0]}[{step + place}]"])
        return values[tuple(index)]

    total = 0.0
    for scope, values in tables:
        moves = any(n.endswith(endings[1]) and n != "shared" for n in scope)
        for step in range(steps - 1) if moves else (0,):
            total += value(scope, values, step)
    return total


@given(seeds)
def test_values_answers_evidence_and_counts(seed):
    model, stems, endings, tables, steps = random_slices(seed)
    whole = unroll(model, steps)
    rows = [
        dict(zip(whole.names, row, strict=True))
        for row in itertools.product(*map(range, whole.cardinalities))
    ]
    h = np.array([expected(tables, endings, row, steps) for row in rows])
    assert whole.value(rows) == pytest.approx(h)
    most = max(0, steps - 1)
    problem = Problem(whole, [cmpe.count({("a", t): 1 for t in range(steps)}, name="ones") <= most])
    last = (stems[-1], steps - 1)
    answer = cmpe.solve(problem, {last: 0})[0]
    allowed = [
        sum(row[f"a[{t}]"] == 1 for t in range(steps)) <= most and row[f"{last[0]}[{last[1]}]"] == 0
        for row in rows
    ]
    best = max(h[allowed], default=-np.inf)
    if best == -np.inf:
        assert answer.status is cmpe.Status.INFEASIBLE
    else:
        assert answer.objective == pytest.approx(best)
        assert answer[last] == 0


def test_order_names_and_states():
    net = LogLinearModel.from_tables(
        [2, 2, 3],
        [
            (("Raint", "Rain0"), np.zeros((2, 2))),
            (("Rain0",), [0.0, 1.0]),
            (("Soil",), np.zeros(3)),
        ],
        names=["Rain0", "Raint", "Soil"],
        states=[["no", "yes"], ["no", "yes"], []],
    )
    whole = unroll(net, 3)
    assert whole.names == ("Soil", "Rain[0]", "Rain[1]", "Rain[2]")
    assert whole.domain.states_of(3) == ("no", "yes")
    answer = cmpe.solve(Problem(whole), [{("Rain", 1): "yes"}])[0]
    assert [answer["Rain", t] for t in range(3)] == ["yes", "yes", "no"]
    assert unroll(net, 1).names == ("Soil", "Rain[0]")


def model(names, scope, states=()):
    table = np.zeros([2] * len(scope))
    return LogLinearModel.from_tables([2] * len(names), [(scope, table)], names, states)


PAIR = ["a[0]", "a[1]"]
MISTAKES = {
    "steps": (lambda: unroll(model(PAIR, PAIR), 0), "steps must be at least 1"),
    "names": (lambda: unroll(LogLinearModel((2,)), 2), "whose variables have names"),
    "slices": (lambda: unroll(model(["a", "b"], ["a"]), 2), "such as 'Rain\\[0\\]'"),
    "states": (
        lambda: unroll(model(PAIR, PAIR, [["x", "y"], ["y", "x"]]), 2),
        "must have the states of 'a\\[0\\]'",
    ),
    "alone": (
        lambda: unroll(model([*PAIR, "b[0]"], ["b[0]", "a[1]"]), 2),
        "is read by the second slice and must be in it too",
    ),
    "step": (
        lambda: Problem(unroll(model(PAIR, PAIR), 2), [cmpe.count({("a", 5): 1}) <= 1]),
        "there is no variable 'a\\[5\\]'",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name):
    ask, message = MISTAKES[name]
    refused(ask, message, ModelError)
