"""How methods and data sets are called, ordered and drawn."""

from itertools import combinations

import pytest

from study.reporting import names
from study.reporting.names import (
    by_rank,
    family_of,
    label_of,
    natural,
    q_text,
    slug_of,
    style_of,
)


def test_every_method_has_a_style_of_its_own():
    """Without colour, too: no two share marker, line and hatch."""
    styles = {method: style_of(method) for method in names.METHODS}
    for one, other in combinations(styles.values(), 2):
        assert (one.marker, one.line, one.hatch) != (other.marker, other.line, other.hatch)
    assert set(styles) <= set(names._STYLES)


def test_a_method_of_somebody_else_is_drawn_the_same_every_time():
    assert style_of("mine") == style_of("mine")
    assert style_of("mine") in names._SPARE
    assert label_of("mine") == "mine"
    assert label_of("ss_cmpe") == "SS-CMPE"


def test_the_papers_methods_come_first_then_ours_then_others():
    given = ["zeta10", "exact", "zeta9", "tuned", "ss_cmpe", "mae", "ilp", "mae"]
    assert by_rank(given) == ["ilp", "mae", "ss_cmpe", "tuned", "exact", "zeta9", "zeta10"]
    assert by_rank([]) == []


def test_numbers_in_names_are_sorted_as_numbers():
    given = ["Grids_10", "grids_9", "Grids_9b", "bbc", "2x", "10x"]
    assert sorted(given, key=natural) == ["2x", "10x", "bbc", "grids_9", "Grids_9b", "Grids_10"]


@pytest.mark.parametrize(
    ("dataset", "group", "family"),
    [
        ("Grids_12", "uai", "Grids"),
        ("Segmentation_15", "uai", "Segmentation"),
        ("or_chain", "uai", "UAI models"),
        ("Grids_12", "wide", "Wide problems"),
        ("bbc", "tractable", "Tractable models"),
        ("mine", "another", "another"),
    ],
)
def test_the_panel_of_a_data_set(dataset, group, family):
    assert family_of(dataset, group) == family


def test_texts():
    assert [q_text(q) for q in (None, 80, 80.0, 2.5)] == ["–", "80", "80", "2.5"]
    assert slug_of("SS-CMPE + penalty (q = 80)") == "ss-cmpe-penalty-q-80"
    assert slug_of("é!") == "x"
    assert len(slug_of("a" * 100)) == 60
