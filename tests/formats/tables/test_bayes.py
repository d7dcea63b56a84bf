"""Bayesian networks in every format: round trips, packed or not, and what is no network."""

import numpy as np
import pytest

from cmpe import LogLinearModel, read_model, write_model
from cmpe.errors import InputError
from cmpe.formats.tables.bayes import NotNormalised, conditionals, numbers_in
from tests.formats.tables.networks import random_network, same
from tests.refusals import refused

SUFFIXES = (".bif", ".xmlbif", ".bifxml", ".net", ".erg", ".bif.gz", ".xmlbif.xz")


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("seed", range(4))
def test_round_trips(tmp_path, suffix, seed):
    model = random_network(seed)
    write_model(model, tmp_path / f"m{suffix}")
    again = read_model(tmp_path / f"m{suffix}")
    assert again.domain == model.domain
    assert same(again, model)


@pytest.mark.parametrize("suffix", [".bif", ".xmlbif", ".net"])
def test_odd_names(tmp_path, suffix):
    model = random_network(1, 3).named(["a b", "c&d", "é|(x)"], [])
    write_model(model, tmp_path / f"m{suffix}")
    again = read_model(tmp_path / f"m{suffix}")
    assert same(again, model)
    if suffix != ".net":  # nodes of Hugin are identifiers
        assert again.names == model.names


def test_what_is_no_network_is_refused(tmp_path):
    tables = [((0, 1), np.zeros((2, 2)))]
    for model, message in (
        (LogLinearModel.from_tables([2, 2], tables), "the table over 0, 1 is none: write .uai"),
        (LogLinearModel.from_tables([2], []), "variable 0 needs a table of its own"),
        (
            LogLinearModel.from_tables(
                [2, 2], [((0, 1), np.log([[0.5, 0.5]] * 2)), ((1, 0), np.log([[0.5, 0.5]] * 2))]
            ),
            "found a cycle of parents",
        ),
    ):
        for suffix in SUFFIXES[:5]:
            refused(lambda m=model, s=suffix: write_model(m, tmp_path / f"m{s}"), message)
    with_spaces = random_network(1, 2).named(["a b", "c"])
    refused(
        lambda: write_model(with_spaces, tmp_path / "m.erg"), "names without spaces", InputError
    )
    assert list(tmp_path.iterdir()) == []


def test_children_may_be_any_axis():
    first = np.log([[0.5, 0.1], [0.5, 0.9]])  # sums to 1 over axis 0
    model = LogLinearModel.from_tables([2, 2], [((0, 1), first), ((1,), np.log([0.3, 0.7]))])
    parts = conditionals(model, "file")
    assert [(p.child, p.parents) for p in parts] == [(0, (1,)), (1, ())]
    np.testing.assert_allclose(parts[0].table, np.exp(first).T)


def test_numbers():
    assert numbers_in("1, 2.5\n3e-1").tolist() == [1.0, 2.5, 0.3]
    assert numbers_in(" ").tolist() == []
    for text in ("1_0", "x"):
        with pytest.raises(ValueError, match=r"_|x"):
            numbers_in(text)


def test_rows_that_do_not_sum_to_one_are_told_and_used(tmp_path):
    path = tmp_path / "slip.bif"
    text = (
        "network n {} variable A {{ type discrete [ 2 ] {{ yes, no }}; }}\n"
        "variable B {{ type discrete [ 2 ] {{ yes, no }}; }}\n"
        "probability ( A ) {{ table 0.3, {last}; }}\n"
        "probability ( B | A ) {{ (yes) 0.1, 0.9; (no) 0.6, {low}; }}\n"
    ).replace("network n {}", "network n {{}}")
    path.write_text(text.format(last=0.7, low=0.6))
    with pytest.warns(NotNormalised, match=r"slip.bif: P\(B \| A=no\) sums to 1.2, not to 1; used"):
        model = read_model(path)
    np.testing.assert_allclose(np.exp(model.value(np.array([[1, 0], [1, 1]]))), [0.42, 0.42])
    path.write_text(text.format(last=0.5, low=0.6))
    with pytest.warns(NotNormalised, match=r"P\(A\) sums to 0.8, the first of 2 rows"):
        read_model(path)
    path.write_text(text.format(last=0.7, low=0.405))  # files round: no warning, so no error here
    read_model(path)
