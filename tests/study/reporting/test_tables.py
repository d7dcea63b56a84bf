"""The rule that marks the best, and the forms of a figure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from study.reporting.study import Measured
from study.reporting.tables import (
    MOST_VIOLATIONS,
    Entry,
    count,
    mark_best,
    mark_smallest,
    number,
    seconds_text,
)


def entries(*values):
    return [number(None if v is None else Measured(v)) for v in values]


def test_violations_above_the_limit_disqualify():
    marked = mark_best(entries(0.01, 0.05, 0.04), entries(0.151, 0.15, 0.02))
    assert [(g.best, v.best) for g, v in marked] == [(False, False), (False, False), (True, True)]
    assert [(g.flagged, v.flagged) for g, v in marked] == [(True, True), (False,) * 2, (False,) * 2]


def test_equal_at_the_shown_precision_share_the_mark():
    marked = mark_best(entries(0.05101, 0.05099, 0.052), entries(0.0, 0.1, 0.0))
    assert [(g.best, v.best) for g, v in marked] == [(True, True), (True, False), (False, True)]


def test_a_missing_figure_is_never_best():
    marked = mark_best(entries(None, 0.2), entries(None, 0.3))
    assert not any(e.best for pair in marked for e in pair)
    assert mark_smallest([Entry("–")]) == [Entry("–")]


shares = st.lists(
    st.tuples(st.floats(0, 1), st.one_of(st.none(), st.floats(0, 1))), min_size=1, max_size=8
)


@given(shares)
def test_the_best_gap_is_smallest_among_those_that_qualify(pairs):
    marked = mark_best(entries(*(g for g, _ in pairs)), entries(*(v for _, v in pairs)))
    inside = [g for g, v in pairs if v is None or v <= MOST_VIOLATIONS]
    best = [g.value for g, _ in marked if g.best]
    assert bool(best) == bool(inside)
    if inside:
        assert min(best) == min(inside)
        assert max(best) - min(inside) <= 0.001
    for (_, violation), (gap, _) in zip(pairs, marked, strict=True):
        assert gap.flagged == (violation is not None and violation > MOST_VIOLATIONS)
        assert not (gap.flagged and gap.best)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0 s"),
        (4e-9, "0.004 µs"),
        (4.2e-5, "42 µs"),
        (0.0123, "12.3 ms"),
        (1.0, "1 s"),
        (57534.4, "57,534 s"),
    ],
)
def test_seconds(value, text):
    assert seconds_text(value) == text


@pytest.mark.parametrize(
    ("found", "form", "text"),
    [
        (Measured(0.053, 0.043), "ratio", "0.053 ± 0.043"),
        (Measured(0.053, 0.043, 0.002, 3), "ratio", "0.053 ± 0.043 (± 0.002)"),
        (Measured(0.0002), "ratio", "0.0002"),
        (Measured(0.00002), "ratio", "<0.0001"),
        (Measured(-0.00002), "ratio", ">-0.0001"),
        (Measured(0.008, 0.021, 3e-17, 3), "ratio", "0.008 ± 0.021 (± 0.000)"),
        (Measured(0.0046), "nats", "0.005"),
        (Measured(5e-6, 1e-21, 4e-7, 3), "seconds", "5 µs (± 0.4 µs)"),
        (Measured(5e-6, 2e-6), "seconds", "5 µs ± 2 µs"),
        (Measured(0.0), "ratio", "0.000"),
        (Measured(1234.5), "nats", "1,234.50"),
        (Measured(2879.4694), "objective", "2,879.469"),
        (Measured(0.0512), "percent", "5.1 %"),
        (None, "ratio", "–"),
    ],
)
def test_forms(found, form, text):
    assert number(found, form).text == text


def test_counts():
    assert count(9000.0).text == "9,000"
    assert count(None, note="why").note == "why"
