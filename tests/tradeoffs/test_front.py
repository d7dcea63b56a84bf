"""`cmpe.front` against enumeration, what it refuses, and what `Front` shows."""

import numpy as np
import pytest
from hypothesis import given, settings

import cmpe
from cmpe import Constraint, LogLinearModel, MultilinearPolynomial, Problem, Running
from cmpe.generation import Recipe, generate, grid
from cmpe.tradeoffs.front import Front
from cmpe.tradeoffs.points import ListedPoints, Steps, TracedPoints, joined, loosened
from tests.problems import Shape, random_network_problem, random_problem, seeds, worked_example
from tests.refusals import refused
from tests.tradeoffs.truth import enumerated


@pytest.fixture
def front():
    return cmpe.front(worked_example(), [[1, 1]])[0]


def traced(h, t, *, complete=True, steps=None):
    rows = np.arange(len(h))[:, np.newaxis].repeat(4, axis=1) % 2
    return TracedPoints(np.array(h), np.array(t), ListedPoints(rows), complete, steps)


def as_front(points, between=None):
    return Front(worked_example(), 0, points, np.zeros(4, dtype=bool), between)


def test_points_are_answers(front):
    assert len(front) == len(list(front)) == 4
    assert front[-1].objective == 16.0
    assert front[0].status is cmpe.Status.OPTIMAL
    assert front[1].constraints[0].value == front.values[1]
    assert front[1].free == {2: 0, 3: 1}
    with pytest.raises(IndexError, match="4 points"):
        front[4]


def test_the_bound_is_the_front_where_it_is_complete(front):
    assert front.bound(front.values[1]) == 11.0
    assert front.bound(front.values[0] - 1.0) == -np.inf
    assert front.steps == []


def test_a_limit_outside_the_window_is_refused():
    part = cmpe.front(worked_example(), [[1, 1]], between=(19.0, 21.0))[0]
    assert part.at(20.0).objective == 11.0
    refused(lambda: part.at(30.0), "between 19 and 21, found 30")


def test_supported_points_lie_on_the_hull():
    points = as_front(traced([0.0, 1.0, 4.0, 5.0], [0.0, 3.0, 4.0, 10.0]))
    assert points.supported.tolist() == [True, False, True, True]


def test_the_knee_is_farthest_above_the_line():
    points = as_front(traced([0.0, 8.0, 9.0, 10.0], [0.0, 2.0, 6.0, 10.0]))
    assert points.knee().assignment.tolist() == [1, 1, 1, 1]
    only = LogLinearModel.from_tables([2], [((0,), [-np.inf, -np.inf])])
    h = LogLinearModel.from_tables([2], [((0,), [0.0, 1.0])])
    assert cmpe.front(Problem(h, [only <= 0.0]))[0].knee().objective == 1.0


def test_steps_bound_what_is_not_complete():
    steps = Steps(np.array([1.0, 3.0, np.inf]), np.array([2.0, 5.0, 7.0]))
    points = as_front(traced([1.0, 4.0], [0.5, 2.0], complete=False, steps=steps))
    assert [points.bound(q) for q in (0.0, 0.9, 2.5, 9.0)] == [2.0, 2.0, 5.0, 7.0]
    assert points.at(2.5).status is not cmpe.Status.OPTIMAL
    assert points.steps[0] == (1.0, 2.0)
    assert "not complete" in repr(points)


def test_fronts_of_parts_are_joined():
    steps = Steps(np.array([2.0, np.inf]), np.array([1.5, 9.0]))
    whole = joined(
        [
            traced([1.0, 3.0], [1.0, 3.0]),
            traced([1.0, 2.0], [0.5, 4.0], complete=False, steps=steps),
        ]
    )
    assert whole.t.tolist() == [0.5, 3.0]
    assert not whole.complete
    assert whole.bound(np.array([1.0, 2.5, 3.5])).tolist() == [1.5, 9.0, 9.0]


def test_what_people_see(front):
    assert repr(front) == "Front(4 points, complete: proved; t 18 to 23, h 8 to 16)"
    assert "supported" in front._repr_html_()
    frame = front.to_frame()
    assert frame["value"].tolist() == front.values.tolist()
    assert frame["objective"].tolist() == [8.0, 11.0, 14.0, 16.0]
    assert frame["0"].tolist() == [1, 1, 1, 1]
    nothing = as_front(traced([], []))
    assert nothing.infeasible
    assert "no assignment" in repr(nothing)
    assert "<table>" in nothing._repr_html_()


def test_plot_draws_into_axes(front):
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    assert front.plot(axes) is axes.figure
    assert len(front.plot().axes) == 1


WIDER = Shape(variables=8, values=3, arity=2, factors=14)


def assert_front(problem, evidence, over):
    for front, truth in zip(
        cmpe.front(problem, evidence, over=over), enumerated(problem, evidence), strict=True
    ):
        h, t = truth.front(over)
        assert front.complete
        np.testing.assert_allclose(front.traced.h, h, atol=1e-9)
        np.testing.assert_allclose(front.traced.t, t, atol=1e-9)
        rows = front.assignments()
        np.testing.assert_allclose(problem.objective.value(rows), front.objective, 1e-13, 1e-13)


@pytest.mark.parametrize("constraints", [1, 2, 3])
@settings(max_examples=25)
@given(seeds)
def test_small_problems_of_every_kind(constraints, seed):
    problem, evidence = random_problem(seed, Shape(constraints=constraints, variables=6))
    if problem.constraints:
        assert_front(problem, evidence, seed % len(problem.constraints))


@settings(max_examples=25)
@given(seeds)
def test_fronts_of_many_points(seed):
    problem, _ = random_problem(seed, WIDER)
    if problem.constraints:
        free = problem.observing(())
        assert_front(free, None, seed % len(problem.constraints))


@pytest.mark.parametrize("limits", [1, 2])
def test_long_lists_of_many_components(limits):
    """t follows h, so that fronts are long; rows after the first have learned budgets."""
    rng = np.random.default_rng(3)
    scopes = [(2 * c, 2 * c + 1) for c in range(7)] + [(2 * c, 14) for c in range(7)]
    tables = [(scope, rng.normal(size=(2, 2 + 2 * (scope[1] == 14)))) for scope in scopes]
    noisy = [(scope, table + 0.02 * rng.normal(size=table.shape)) for scope, table in tables]
    other = [(scope, rng.normal(size=table.shape)) for scope, table in tables]
    h, t, u = (LogLinearModel.from_tables([2] * 14 + [4], x) for x in (tables, noisy, other))
    problem = Problem(h, [t <= 0.0, u <= 1.0][:limits], [14])
    evidence = [[value] for value in range(4)]
    assert_front(problem, evidence, 0)
    assert min(map(len, cmpe.front(problem, evidence))) > (300 if limits == 1 else 60)


@settings(max_examples=25)
@given(seeds)
def test_cutset_networks(seed):
    problem, evidence = random_network_problem(seed)
    if problem.constraints:
        assert_front(problem, evidence, seed % len(problem.constraints))


@settings(max_examples=25)
@given(seeds)
def test_a_window_holds_what_answers_its_limits(seed):
    problem, evidence = random_problem(seed, WIDER)
    if not problem.constraints:
        return
    over = seed % len(problem.constraints)
    rng = np.random.default_rng(seed)
    for truth in enumerated(problem, evidence):
        h, t = truth.front(over)
        finite = t[np.isfinite(t)]
        if not len(finite):
            continue
        low, high = np.sort(rng.choice(finite, 2)) + rng.choice([0.0, 0.0, 0.3, -2.0], 2) * [1, 0]
        low, high = min(low, high), max(low, high)
        part = _front_of_row(problem, truth, over, (low, high))
        first = max(0, int(np.searchsorted(t, loosened(low), side="right")) - 1)
        last = int(np.searchsorted(t, loosened(high), side="right"))
        assert part.complete
        np.testing.assert_allclose(part.traced.t, t[first:last], atol=1e-9)
        np.testing.assert_allclose(part.traced.h, h[first:last], atol=1e-9)


def _front_of_row(problem, truth, over, between):
    seen = truth.rows[:1, list(problem.evidence_variables)]
    own = problem.constraints[over]
    pair = between if own.sign > 0 else (-between[1], -between[0])
    return cmpe.front(problem, seen, over=over, between=pair)[0]


def test_the_worked_example_has_one_front_for_every_q():
    front = cmpe.front(worked_example(), [[1, 1]])[0]
    assert front.objective.tolist() == [8.0, 11.0, 14.0, 16.0]
    assert front.values.tolist() == [18.0, 20.0, 21.0, 23.0]
    assert front.at(20.0).objective == 11.0
    assert front.at(20.0).status is cmpe.Status.OPTIMAL
    for q in np.linspace(15, 25, 21):
        solved = cmpe.solve(
            Problem(worked_example().objective, [worked_example().constraints[0].function <= q],
                    (0, 1)), [[1, 1]])[0]  # fmt: skip
        assert front.at(q).status is solved.status
        np.testing.assert_equal(front.at(q).objective, solved.objective)


def test_a_lower_limit_is_shown_in_its_own_sense():
    h = LogLinearModel.from_tables([2, 2], [((0,), [0.0, 1.0]), ((1,), [0.0, 2.0])])
    t = LogLinearModel.from_tables([2, 2], [((0,), [1.0, 0.0]), ((1,), [3.0, 0.0])])
    front = cmpe.front(Problem(h, [t >= 2.0]))[0]
    assert front.values.tolist() == [0.0, 1.0, 3.0, 4.0]
    assert front.objective.tolist() == [3.0, 2.0, 1.0, 0.0]
    assert front.at(2.0).objective == 1.0
    assert front.relation == ">="
    assert cmpe.front(Problem(h, [t >= 2.0]), between=(0.5, 2.0))[0].values.tolist() == [1.0, 3.0]


def test_equal_rows_and_different_sets_of_observed_variables():
    problem = worked_example()
    rows = [[1, 1, -1, -1], [0, -1, -1, -1], [1, 1, -1, -1]]
    fronts = cmpe.front(problem, rows)
    assert fronts[0].objective.tolist() == fronts[2].objective.tolist() == [8.0, 11.0, 14.0, 16.0]
    assert fronts[1].observed.tolist() == [True, False, False, False]
    assert cmpe.front(problem, np.zeros((0, 2), dtype=int)) == []


def test_threads_and_progress():
    made = generate(grid(5, 5, seed=3), Recipe(samples=60, percentile=30))
    seen = []
    one = cmpe.front(made.problem, made.test[:4])
    two = cmpe.front(
        made.problem, made.test[:4], running=Running(workers=2, progress=lambda *n: seen.append(n))
    )
    assert seen[-1] == (4, 4)
    for a, b in zip(one, two, strict=True):
        np.testing.assert_array_equal(a.objective, b.objective)
        np.testing.assert_array_equal(a.assignments(), b.assignments())


def test_an_infeasible_row_is_a_value():
    h = LogLinearModel.from_tables([2], [((0,), [0.0, 1.0])])
    t = LogLinearModel.from_tables([2], [((0,), [3.0, 4.0])])
    front = cmpe.front(Problem(h, [t <= 5.0, t <= 1.0]))[0]
    assert front.infeasible
    assert front.at(10.0).status is cmpe.Status.INFEASIBLE
    assert "no knee: no assignment is feasible" in refused(front.knee)
    nothing = LogLinearModel.from_tables([2], [((0,), [-np.inf, -np.inf])])
    assert cmpe.front(Problem(nothing, [t <= 5.0]))[0].infeasible


def test_a_short_time_limit_leaves_a_valid_bound(monkeypatch):
    from cmpe.tradeoffs import narrow

    made = generate(grid(8, 8, seed=1), Recipe(samples=40, percentile=30))
    whole = cmpe.front(made.problem, made.test[:2])
    monkeypatch.setattr(narrow, "TRADEOFFS", narrow.TRADEOFFS._replace(sums_per_second=0.0))
    for front, truth in zip(
        cmpe.front(made.problem, made.test[:2], time_limit=1e-3), whole, strict=True
    ):
        assert not front.complete
        assert 1 < len(front) < len(truth)
        for q in np.linspace(truth.values[0] - 1, truth.values[-1] + 1, 50):
            best = truth.at(q).objective if q >= truth.values[0] else -np.inf
            assert front.bound(q) >= best - 1e-9
            assert not front.at(q).objective > best + 1e-9


def test_points_that_miss_the_tolerance_are_left_out():
    h = LogLinearModel.from_tables([2, 2], [((0,), [0.0, 1.0]), ((1,), [0.0, 0.1])])
    t = LogLinearModel.from_tables([2, 2], [((1,), [0.0, 1.0])])
    other = LogLinearModel.from_tables([2, 2], [((0,), [0.0, 1e-6 + 1e-10])])
    front = cmpe.front(Problem(h, [t <= 5.0, other <= 0.0]))[0]
    assert front.complete
    assert front.objective.tolist() == [0.0, 0.1]


def test_refusals():
    problem = worked_example()
    refused(lambda: cmpe.front(Problem(problem.objective, ())), "needs a constraint")
    refused(
        lambda: cmpe.front(problem, [[1, 1]], over=1),
        "there is one constraint: over=0; found number 1",
    )
    refused(lambda: cmpe.front(problem, [[1, 1]])[0].at("1"), "q must be a number")
    refused(lambda: cmpe.front(problem, [[1, 1]])[0].at(np.nan), "q must be a number")
    refused(lambda: cmpe.front(problem, [[1, 1]], between=3), "between must")
    refused(lambda: cmpe.front(problem, [[1, 1]], between=(3, 1)), "must rise")
    refused(lambda: cmpe.front(problem.objective), "front needs a Problem")
    line = MultilinearPolynomial(1, {(0,): 1.0}).to_model()
    continuous = Problem(line, [Constraint(line, 1.0)], continuous=(0,))
    refused(lambda: cmpe.front(continuous), "needs tables")
