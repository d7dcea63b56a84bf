"""`Front`: answers at any limit, its ends and knee, frames, what it shows."""

import numpy as np
import pytest

import cmpe
from cmpe import LogLinearModel, Problem
from cmpe.tradeoffs.front import Front, Steps, TracedPoints, joined
from cmpe.tradeoffs.points import ListedPoints
from tests.problems import worked_example
from tests.refusals import refused


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
