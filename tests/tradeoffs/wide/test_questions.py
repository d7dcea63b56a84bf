"""Questions about a band: what they are worth, and when none is left."""

import numpy as np

from cmpe import LogLinearModel, Problem
from cmpe.tradeoffs.wide.band import Band
from cmpe.tradeoffs.wide.questions import Kind, Profile

EVERYWHERE = (-np.inf, np.inf)


def band_of(h, t):
    """The band of one variable with these values, without any point."""
    tables = [LogLinearModel.from_tables([len(h)], [((0,), values)]) for values in (h, t)]
    return Band(Problem(tables[0], [tables[1] <= 0.0]), 0)


def asked(band, window=EVERYWHERE):
    """What is asked of each kind, the most worth first."""
    out = {}
    for question in Profile(band, window).questions():
        out.setdefault(question.kind, []).append(question)
    return out


def test_where_nothing_is_known_anything_may_help():
    band = band_of([0.0, 1.0], [0.0, 1.0])
    assert set(asked(band)) == {Kind.LINE, Kind.LEAST}
    band.add_line(0.0, -np.inf)
    assert not asked(band)
    zeros = band_of([0.0, 1.0], [0.0, -np.inf])
    assert set(asked(zeros)) == {Kind.LINE, Kind.LEAST, Kind.LOWEST}
    zeros.add(np.array([[1]]))
    zeros.floor = 1.0
    zeros.add_line(0.0, 1.0)
    assert not asked(zeros)


def test_an_edge_asks_for_its_slope_and_an_interval_for_a_limit():
    band = band_of([0.0, 1.0, 3.0, 4.0], [0.0, 1.0, 2.0, 3.0])
    band.add(np.array([[0], [2], [3]]))
    band.add_line(0.0, 4.0)
    band.least = 0.0
    lines = asked(band)[Kind.LINE]
    assert lines[0].at == 1.5  # from (0, 0) to (2, 3)
    assert lines[0].worth > lines[1].worth > 0.0
    limits = asked(band)[Kind.LIMIT]
    assert limits[0].at == 1.0  # the middle of the longest interval
    band.add_end(1.0 + 1e-6, 1.0)
    assert 1.999 < asked(band)[Kind.LIMIT][0].at < 2.0  # then its end


def test_lines_that_touch_leave_nothing_to_lines():
    band = band_of([0.0, 1.0, 3.0, 4.0], [0.0, 1.0, 2.0, 3.0])
    band.add(np.array([[0], [2], [3]]))
    for mu, bound in ((0.0, 4.0), (1.0, 1.0), (1.5, 0.0)):
        band.add_line(mu, bound)
    band.least = 0.0
    assert set(asked(band)) == {Kind.LIMIT}
    assert Profile(band, EVERYWHERE).slack(1.5) < 1e-6
    for end, bound in ((2.0, 1.0), (3.0, 3.0)):
        band.add_end(end - 1e-6, bound)
    band.add(np.array([[1]]))
    band.add_end(1.0 - 1e-6, 0.0)
    assert not asked(band)


def test_limits_below_the_first_point():
    band = band_of([0.0, 1.0], [0.0, 1.0])
    band.add(np.array([[1]]))
    band.add_line(0.0, 1.0)
    assert asked(band)[Kind.LEAST][0].worth > 0.0
    assert Kind.LEAST not in asked(band, (1.0, 2.0))
    band.least = 1.0
    assert not asked(band)
    zeros = band_of([0.0, 1.0], [-np.inf, 1.0])
    zeros.add(np.array([[0], [1]]))
    zeros.add_line(0.0, 1.0)
    zeros.floor = 0.0
    assert 0.99 < asked(zeros)[Kind.LIMIT][0].at < 1.0
    zeros.least = 1.0
    assert not asked(zeros)


def test_the_floor_is_asked_for_where_it_is_the_bound():
    band = band_of([0.0, 1.0, 0.5], [0.0, 1.0, -np.inf])
    band.add(np.array([[2], [1]]))
    band.add_line(0.0, 2.0)
    band.add_line(1.0, 0.0)
    band.floor = 2.0
    assert asked(band)[Kind.LOWEST][0].worth > 0.0


def test_a_window_ends_at_its_own_limit():
    band = band_of([0.0, 1.0], [0.0, 1.0])
    band.add(np.array([[0], [1]]))
    band.add_line(0.0, 1.0)
    band.least = 0.0
    assert asked(band, (0.0, 0.0))[Kind.LIMIT][0].at == 0.0
    assert Profile(band, (0.0, 0.5)).area < Profile(band, EVERYWHERE).area


def test_a_window_beyond_all_points_is_looked_at():
    band = band_of([0.0, 1.0], [0.0, 1.0])
    band.add(np.array([[1]]))
    band.add_line(0.0, 1.5)
    for window in ((4.0, 6.0), (4.0, np.inf)):
        assert Profile(band, window).area > 0.0
        assert asked(band, window)[Kind.LINE][0].at == 0.0
