"""Functions joined by name, and constraints as people write them."""

import numpy as np
import pytest
from hypothesis import given, settings

import cmpe
from cmpe import (
    Constraint,
    Distance,
    LogLinearModel,
    NeuralFunction,
    Problem,
    between,
    count,
    solve,
)
from cmpe.errors import ModelError
from tests.problems import all_assignments, random_cutset, random_problem, seeds

NO_YES, YES_NO = ("no", "yes"), ("yes", "no")


def table(names, values, states):
    values = np.asarray(values, dtype=float)
    return LogLinearModel.from_tables(values.shape, [(range(values.ndim), values)], names, states)


def test_two_networks_in_another_order_are_joined_by_name():
    """By position the answer would be 0.09 where 0.81 is possible."""
    h = table(("Rain", "Wet"), np.log([[0.09, 0.01], [0.09, 0.81]]), (NO_YES, NO_YES))
    t = table(("Wet", "Rain"), [[0.0, 9.0], [9.0, 0.0]], (NO_YES, YES_NO))
    # t at (Wet, Rain) = (yes, yes) is its entry [1, 0]; at (no, yes) it is [0, 0].
    answer = solve(Problem(h, [t <= 1.0]))
    assert np.exp(answer.objective[0]) == pytest.approx(0.09)
    other = table(("Wet", "Rain"), [[9.0, 0.0], [0.0, 9.0]], (NO_YES, YES_NO))
    answer = solve(Problem(h, [other <= 1.0]))
    assert np.exp(answer.objective[0]) == pytest.approx(0.81)
    assert answer.assignments[0].tolist() == [1, 1]


@settings(max_examples=15, deadline=None)
@given(seeds)
def test_shuffled_functions_give_the_same_values(seed):
    """Variables and states in random orders, each function over the variables it needs."""
    problem, _ = random_problem(seed)
    rng = np.random.default_rng(seed)
    cards = problem.domain.cardinalities
    names = [f"v{k}" for k in range(len(cards))]
    states = [[f"s{s}" for s in range(k)] for k in cards]
    named = [f.named(names, states) for f in problem.functions]
    joined = Problem(named[0], [_shuffled(f, rng) <= 1.0 for f in named[1:]])
    rows = all_assignments(cards)
    np.testing.assert_array_equal(joined.domain.names, names)
    for mine, theirs in zip(joined.functions, problem.functions, strict=True):
        np.testing.assert_allclose(mine.value(rows), theirs.value(rows), atol=1e-9)


def _shuffled(model, rng):
    """The model with its variables and states in another order; unused ones are left out."""
    used = sorted({v for f in model.factors for v in f.scope}) or [0]
    order = rng.permutation(used).tolist()
    place = {v: k for k, v in enumerate(order)}
    turns = {v: rng.permutation(model.cardinalities[v]) for v in order}
    tables = []
    for factor in model.factors:
        index = np.ix_(*(turns[v] for v in factor.scope))
        entries = factor.log_table[index] if factor.scope else factor.log_table
        tables.append(([place[v] for v in factor.scope], entries))
    states = [[model.domain.states_of(v)[s] for s in turns[v]] for v in order]
    cards = [model.cardinalities[v] for v in order]
    return LogLinearModel.from_tables(cards, tables, [model.names[v] for v in order], states)


def test_variables_of_a_constraint_alone_come_last():
    h = table(("a",), [0.0, 1.0], (NO_YES,))
    t = table(("b", "a"), [[0.0, 5.0], [5.0, 3.0]], (NO_YES, NO_YES))
    problem = Problem(h, [t <= 3.0])
    assert problem.domain.names == ("a", "b")
    assert solve(problem).assignments[0].tolist() == [1, 1]


@pytest.mark.parametrize("seed", [2, 6, 11])
def test_cutset_networks_are_joined_by_name(seed):
    network = random_cutset(seed)
    rng = np.random.default_rng(seed)
    names = [f"v{k}" for k in range(network.variables)]
    states = [[f"s{s}" for s in range(k)] for k in network.cardinalities]
    from dataclasses import replace

    named = replace(network, names=tuple(names), states=tuple(map(tuple, states)))
    order = rng.permutation(network.variables).tolist()
    h_states = [rng.permutation(states[v]).tolist() for v in order]
    h = LogLinearModel.from_tables(
        [network.cardinalities[v] for v in order] + [2], [], [names[v] for v in order] + ["more"],
        [*h_states, ["x", "y"]],
    )  # fmt: skip
    joined = Problem(h, [named <= 0.0]).constraints[0].function
    rows = all_assignments(h.cardinalities)
    translated = np.empty((len(rows), network.variables), dtype=np.int64)
    for k, v in enumerate(order):
        translated[:, v] = np.array([states[v].index(s) for s in h_states[k]])[rows[:, k]]
    np.testing.assert_allclose(joined.value(rows), network.value(translated), atol=1e-12)
    minus, nothing = network.negated()
    assert nothing is None
    np.testing.assert_allclose(minus.value(translated), -network.value(translated))


def test_functions_without_tables_are_joined_by_name():
    torch = pytest.importorskip("torch")
    distance = Distance((2, 2), ((0, 1),), names=("a", "c"))
    module = NeuralFunction(torch.nn.Linear(2, 1), (2, 2), names=("c", "b"))
    problem = Problem(distance, [module <= 1.0])
    assert problem.domain.names == ("a", "c", "b")
    rows = all_assignments((2, 2, 2))
    np.testing.assert_allclose(problem.objective.value(rows), distance.value(rows[:, :2]))
    found = problem.constraints[0].function.value(rows)
    np.testing.assert_allclose(found, module.value(rows[:, 1:]))
    named = Distance((2, 2), ((0, 1),), names=("a", "c"), states=(NO_YES, NO_YES))
    turned = LogLinearModel.from_tables([2], [], ["a"], [YES_NO])
    with pytest.raises(ModelError, match="'a' must have its states in one order everywhere"):
        Problem(turned, [named <= 1.0])
    with pytest.raises(ModelError, match="t >= q needs -t, which a function of kind Distance"):
        distance >= 1.0  # noqa: B015
    with pytest.raises(ModelError, match="needs an objective made of tables"):
        Problem(distance, [table(("a",), [0.0, -np.inf], ()) >= 0.0])


# --- at least ---


@settings(max_examples=25, deadline=None)
@given(seeds)
def test_at_least_agrees_with_enumeration(seed):
    """Also with potentials of 0 in t: -inf never reaches a limit."""
    problem, _ = random_problem(seed)
    h, *others = problem.functions
    t = others[0] if others else h
    rows = all_assignments(problem.domain.cardinalities)
    values, limit = t.value(rows), float(np.random.default_rng(seed).integers(-3, 4))
    asked = Problem(h, [t >= limit])
    by_hand = (values >= limit - asked.tolerances[0]) & np.isfinite(h.value(rows))
    np.testing.assert_array_equal(asked.is_feasible(rows), by_hand)
    answer = solve(asked)
    if not by_hand.any():
        assert answer.labels == ["infeasible"]
        return
    assert answer.labels == ["optimal"]
    assert answer.objective[0] == pytest.approx(h.value(rows)[by_hand].max())
    assert answer.constraint_values[0, 0] == pytest.approx(t.value(answer.assignments)[0])
    assert answer.violations[0, 0] == pytest.approx(limit - answer.constraint_values[0, 0])


def test_operators():
    t = LogLinearModel.from_tables([2, 2], [((0, 1), [[0, 1], [2, 3]])])
    rows = all_assignments((2, 2))
    np.testing.assert_allclose((2 * t + t).value(rows), 3 * t.value(rows))
    np.testing.assert_allclose((t - 2 * t).value(rows), -t.value(rows))
    assert (t <= 3).at_most == 3.0
    assert (np.float64(3.0) >= t).at_most == 3.0
    below, above = t >= 1, t <= 3
    assert (below.limit, below.relation, below.at_most) == (1.0, ">=", -1.0)
    assert (above.limit, above.relation) == (3.0, "<=")
    assert repr(below) == "Constraint(LogLinearModel of 2 variables >= 1)"
    assert [c.limit for c in between(t, 1, 3)] == [1.0, 3.0]
    hard = LogLinearModel.from_tables([2], [((0,), [0.0, -np.inf])])
    for wrong, message in (
        (lambda: 1 <= t <= 3, r"1 <= t <= 3 is written cmpe.between\(t, 1, 3\)"),
        (lambda: between(t, 3, 1), "between needs least <= most, found 3 and 1"),
        (lambda: t <= "3", "at_most must be a number, as in at_most=12.5; found '3'"),
        (lambda: -hard, "-t needs finite tables; t >= q is right"),
    ):
        with pytest.raises(ModelError, match=message):
            wrong()
    np.testing.assert_allclose((t + 3).value(rows), t.value(rows) + 3.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda t: Problem(t, t <= 3), r"write Problem\(h, \[t <= q\]\)"),
        (lambda t: Problem(t, [t]), "constraint 0 must have a limit, found LogLinearModel; write"),
        (lambda t: Problem(t, [count({0: 1})]), "constraint 0 must have a limit, found Costs"),
        (lambda t: Problem(t, ["t <= 3"]), "constraint 0 must have a limit, found str"),
        (lambda t: Problem(t, 3), "constraints must be a list, found int"),
        (lambda t: Problem("model.uai"), "the objective needs a function such as a LogLinearModel"),
        (lambda t: Problem(t, [Constraint(None, 3)]), "a constraint needs a function"),
        (lambda t: Problem(t, (), ["Rain"]), "evidence_variables: these variables have no names"),
    ],
)
def test_mistakes(make, message):
    with pytest.raises(ModelError, match=message):
        make(LogLinearModel.from_tables([2], [((0,), [0.0, 1.0])]))


class Own:
    """A user's function that knows its cardinalities only."""

    cardinalities = (2, 2)
    variables = 2
    is_finite = True

    def value(self, assignments):
        return np.asarray(assignments).sum(axis=1).astype(float)

    def ceiling(self):
        return 2.0


def test_a_function_of_ones_own():
    problem = Problem(Own(), [Constraint(Own(), 1.0)])
    assert solve(problem, method="exhaustive").objective[0] == 1.0
    t = LogLinearModel.from_tables([2, 2], [], ["a", "b"])
    with pytest.raises(ModelError, match="constraint 0 names its variables and the objective does"):
        Problem(Own(), [t <= 1.0])


def neural(count):
    import torch

    return cmpe.NeuralFunction(torch.nn.Linear(count, 1), (2,) * count)


def test_rules_beside_an_objective_without_tables_are_constraints():
    rules = [cmpe.implies({0: 1}, {1: 1}), cmpe.all_different([2, 3], name="apart")]
    problem = cmpe.Problem(neural(4), rules)
    z = np.indices((2,) * 4).reshape(4, -1).T
    expected = ((z[:, 0] == 0) | (z[:, 1] == 1)) & (z[:, 2] != z[:, 3])
    np.testing.assert_array_equal(problem.is_feasible(z), expected)
    assert problem.constraints[0].name == "0=1 implies 1=1"
    wider = problem.under([cmpe.count({0: 1, 1: 1}) <= 1])
    assert (wider.is_feasible(z) <= problem.is_feasible(z)).all()
    assert len(wider.constraints) == 3


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (cmpe.exactly_one(dict.fromkeys(range(9), 1)), r"cmpe.count\(\{...\}\) == 1"),
        (cmpe.implies({0: 1}, {1: 1}, weight=2.0), "a weight needs an objective made of tables"),
    ],
)
def test_rules_that_need_tables_are_refused(rule, said):
    with pytest.raises(ModelError, match=said):
        cmpe.Problem(neural(9), [rule])
