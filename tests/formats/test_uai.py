"""uai: round trips bit by bit, every white space, and hostile files refused where they lie."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cmpe.errors import FormatError, InputError
from cmpe.formats import uai
from cmpe.formats.uai import read_uai, storable, write_uai
from cmpe.models.loglinear import Factor, LogLinearModel
from tests.problems import all_assignments
from tests.refusals import refused

DATA = Path(__file__).parents[2].parent / "shared" / "data"
SUFFIXES = ("", ".gz", ".xz", ".bz2")
SMALL = "MARKOV 3 2 1 3  2 2 0 2 0   6 1 2 .5 4e0 0 6  1 7"
thorough = settings(deadline=None, derandomize=True, max_examples=150)


def factor(scope, entries, cards):
    shape = [cards[v] for v in scope]
    return Factor(tuple(scope), np.reshape(entries, shape))


@st.composite
def models(draw, logs):
    """Any arity to 4, any cardinality to 4, tables of `logs`."""
    cards = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    variables = st.integers(0, len(cards) - 1)
    scopes = draw(st.lists(st.lists(variables, unique=True, max_size=4), max_size=5))
    sizes = [math.prod(cards[v] for v in scope) for scope in scopes]
    tables = [draw(st.lists(logs, min_size=size, max_size=size)) for size in sizes]
    pairs = zip(scopes, tables, strict=True)
    return LogLinearModel(tuple(cards), tuple(factor(s, t, cards) for s, t in pairs))


def log(potential):
    with np.errstate(divide="ignore"):
        return float(np.log(np.float64(potential)))


logs_of_potentials = st.one_of(
    st.floats(min_value=0, allow_infinity=False, allow_nan=False), st.floats(0.5, 2)
).map(log)
any_logs = st.one_of(st.just(-math.inf), st.floats(allow_nan=False, allow_infinity=False))


def bits(model):
    return model.cardinalities, [(f.scope, f.log_table.tobytes()) for f in model.factors]


def save(tmp_path, content, name="m.uai"):
    path = tmp_path / name
    path.write_text(content, newline="")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("uai")


@thorough
@given(models(logs_of_potentials), st.sampled_from(SUFFIXES))
def test_tables_of_potentials_come_back_bit_by_bit(folder, model, suffix):
    path = folder / f"m.uai{suffix}"
    write_uai(model, path)
    assert bits(read_uai(path)) == bits(model)


@thorough
@given(models(any_logs), st.sampled_from(SUFFIXES))
def test_log_files_hold_any_table_bit_by_bit(folder, model, suffix):
    path = folder / f"m.LG{suffix}"
    write_uai(model, path)
    assert bits(read_uai(path)) == bits(model)


@thorough
@given(models(st.one_of(st.just(-math.inf), st.floats(-700, 700))))
def test_storable_is_what_a_file_gives_back(folder, model):
    path = folder / "m.uai"
    write_uai(model, path)
    stored = storable(model)
    assert bits(read_uai(path)) == bits(stored)
    for before, after in zip(model.factors, stored.factors, strict=True):
        np.testing.assert_allclose(after.log_table, before.log_table, rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("log", [800.0, -800.0])
def test_a_log_without_a_potential_needs_a_log_file(tmp_path, log):
    model = LogLinearModel((1,), (Factor((0,), np.array([log])),))
    with pytest.raises(InputError, match=rf"factor 0: the logarithm {log} .* write a \.LG file"):
        write_uai(model, tmp_path / "m.uai")
    assert not (tmp_path / "m.uai").exists()
    write_uai(model, tmp_path / "m.LG")
    assert bits(read_uai(tmp_path / "m.LG")) == bits(model)


def test_the_tables_are_read_last_variable_fastest(tmp_path):
    model = read_uai(save(tmp_path, SMALL))
    assert model.cardinalities == (2, 1, 3)
    assert [f.scope for f in model.factors] == [(0, 2), ()]
    with np.errstate(divide="ignore"):
        expected = np.log([[1, 2, 0.5], [4, 0, 6]])
    assert np.array_equal(model.factors[0].log_table, expected)
    assert model.factors[1].log_table == np.log(7)


@pytest.mark.parametrize("kind", ["MARKOV", "BAYES"])
@pytest.mark.parametrize("space", [" ", "\n", "\t", "\r\n", "\r", "  \n\n \f\v "])
def test_any_white_space_separates(tmp_path, kind, space):
    content = SMALL.replace("MARKOV", kind).split()
    path = save(tmp_path, space + space.join(content) + space)
    assert bits(read_uai(path)) == bits(read_uai(save(tmp_path, SMALL, "same.uai")))


def test_numbers_may_have_any_notation(tmp_path):
    words = ["1e-3", "1E+2", ".5", "5.", "+2", "007", "1.5e0", "-0.0", "0e5", "5e-324"]
    model = read_uai(save(tmp_path, f"MARKOV 1 10 1 1 0 10 {' '.join(words)}"))
    with np.errstate(divide="ignore"):
        expected = np.log([1e-3, 100, 0.5, 5, 2, 7, 1.5, 0, 0, 5e-324])
    assert np.array_equal(model.factors[0].log_table, expected)


def test_a_potential_beyond_float64_is_not_silently_zero(tmp_path):
    model = read_uai(save(tmp_path, "MARKOV 1 3 1 1 0 3 1e-400 2e400 0.0"))
    tenfold = math.log(10)
    expected = [-400 * tenfold, math.log(2) + 400 * tenfold, -math.inf]
    np.testing.assert_allclose(model.factors[0].log_table, expected, rtol=1e-15)


def test_log_files_read_minus_infinity(tmp_path):
    model = read_uai(save(tmp_path, "MARKOV 1 3 1 1 0 3 -inf -2.5 -Infinity", "m.LG"))
    assert model.factors[0].log_table.tolist() == [-math.inf, -2.5, -math.inf]


HOSTILE = {
    "": "line 1, word 1: expected MARKOV or BAYES, found the end of the file",
    "MARKOW 1 2 0": "word 1: expected MARKOV or BAYES, found 'MARKOW'",
    "MARKOV 0 0": "word 2: expected the number of variables from 1, found 0",
    "MARKOV 1.5 2 0": "word 2: expected the number of variables, found '1.5'",
    "MARKOV\n999999999999\n2 2": "line 3, word 1: expected 999999999999 x a cardinality",
    "MARKOV 2 2 0 0": "word 4: expected a cardinality from 1",
    "MARKOV 2 2 99999999999 0": "word 4: expected a cardinality from 1 to 1048576",
    "MARKOV 1 2 88888888888": "word 5: expected 88888888888 x the arity of a factor, found only 0",
    "MARKOV 1 2 1 7": "word 5: expected the arity of factor 0 from 0 to 1, found 7",
    "MARKOV 2 2 2 1 1 2": "word 7: expected a variable of factor 0 from 0 to 1, found 2",
    "MARKOV 2 2 2 1 1 -1": "word 7: expected a variable of factor 0, found '-1'",
    "MARKOV 2 2 2\n1\n2 1 1\n4 1 1 1 1": "line 3, word 2: expected distinct variables in factor 0",
    "MARKOV 1 2 1 1 0 3 1 1 1": "word 7: expected the table size 2 of factor 0, found 3",
    "MARKOV 1 2 1 1 0 2 1": "word 8: expected 2 x a table entry, found only 1 more words",
    "MARKOV 1 2 1 1 0 2 1 one": "word 9: expected a table entry, found 'one'",
    "MARKOV 1 2 1 1 0\n2\n1\n-0.5": "line 4, word 1: expected a finite potential of at least 0",
    "MARKOV 1 2 1 1 0 2 nan 1": "word 8: expected a finite potential of at least 0, found 'nan'",
    "MARKOV 1 2 1 1 0 2 1 inf": "word 9: expected a finite potential of at least 0, found 'inf'",
    "MARKOV 1 2 1 1 0 2 1 1e99999999999999999999": "word 9: expected a finite potential",
    "MARKOV 1 2 1 1 0 2 1 -1e-999": "line 1, word 9: expected a finite potential of at least 0",
    "MARKOV 1 2 1 1 0 2 1 1_0": "line 1: expected numbers, found '_'",
    "MARKOV 1 2 1 1 0 2 1 1 1": "word 10: expected the end of the file, found '1'",
}


@pytest.mark.parametrize(("content", "message"), HOSTILE.items())
def test_a_hostile_file_is_refused_where_it_lies(tmp_path, content, message):
    with pytest.raises(FormatError) as caught:
        read_uai(save(tmp_path, content))
    assert str(caught.value).startswith(str(tmp_path / "m.uai"))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("word", ["nan", "inf", "x"])
def test_log_files_refuse_what_is_no_logarithm(tmp_path, word):
    with pytest.raises(FormatError, match=f"line 1, word 9: expected .*, found '{word}'"):
        read_uai(save(tmp_path, f"MARKOV 1 2 1 1 0 2 1 {word}", "m.LG"))


@pytest.mark.parametrize("count", range(len(SMALL.split())))
def test_every_truncation_is_refused(tmp_path, count):
    with pytest.raises(FormatError, match=r"line 1, word [0-9]+: expected .* the end of the file"):
        read_uai(save(tmp_path, " ".join(SMALL.split()[:count])))


@pytest.mark.parametrize("word", ["x", "nan", "-1", "--", "1e5e5", "0x1"])
def test_every_word_is_checked_where_it_stands(tmp_path, word):
    for place in range(len(SMALL.split())):
        words = SMALL.split()
        words[place] = word
        with pytest.raises(FormatError, match=f"line {place + 1}, word 1: expected "):
            read_uai(save(tmp_path, "\n".join(words)))


HUGE = {
    "variables": "MARKOV 999999999999999 2 2",
    "factors": "MARKOV 1 2 999999999999999 1 0",
    "arity": "MARKOV 999 " + "2 " * 999 + "1 999 " + "0 " * 999,
    "table": "MARKOV 60 " + "2 " * 60 + "1 60 " + " ".join(map(str, range(60))) + f" {2**60} 1",
    "digits": "MARKOV 64 " + "99999 " * 64 + "1 64 " + " ".join(map(str, range(64))) + " 9 1",
    "cardinality": "MARKOV 1 999999999999999 1 1 0 999999999999999 1",
}


@pytest.mark.parametrize("content", HUGE.values(), ids=HUGE)
def test_claims_are_refused_without_being_allocated(tmp_path, content):
    path = save(tmp_path, content)
    tracemalloc.start()
    try:
        with pytest.raises(FormatError) as caught:
            read_uai(path)
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()
    assert len(str(caught.value)) < 300 + len(str(path))


def test_the_widest_scope_an_array_can_have(tmp_path):
    def content(arity):
        scope = " ".join(map(str, range(arity)))
        return f"MARKOV {arity} {'1 ' * arity} 1 {arity} {scope} 1 2.5"

    assert read_uai(save(tmp_path, content(64))).factors[0].log_table.ndim == 64
    with pytest.raises(FormatError, match="expected the arity of factor 0 from 0 to 64, found 65"):
        read_uai(save(tmp_path, content(65)))


SHARED = {
    "uai/Grids_17": (400, 1160, {2}, 2, False),
    "uai/Grids_18": (400, 1160, {2}, 2, False),
    "uai/Segmentation_12": (229, 851, {2}, 2, False),
    "uai/Segmentation_14": (226, 845, {2}, 2, False),
    "uai/Segmentation_15": (232, 863, {2}, 2, False),
    "uai_formats/ObjectDetection_28": (None, None, {11}, 2, True),
    "uai_formats/CSP_12": (None, None, {2, 4}, 3, False),
    "uai_formats/water": (None, None, None, 6, True),
    "uai_formats/Promedus_24": (None, None, {2}, 3, True),
}


@pytest.mark.parametrize("name", SHARED)
def test_public_models(tmp_path, name):
    path = DATA / f"{name}.uai"
    if not path.exists():
        pytest.skip(f"{path} is not here")
    variables, factors, sizes, arity, zeros = SHARED[name]
    model = read_uai(path)
    words = iter(path.read_text().split())
    assert next(words) in ("MARKOV", "BAYES")
    assert int(next(words)) == model.variables == (variables or model.variables)
    assert list(map(int, itertools.islice(words, model.variables))) == list(model.cardinalities)
    assert int(next(words)) == len(model.factors) == (factors or len(model.factors))
    for made in model.factors:
        assert list(map(int, itertools.islice(words, 1 + len(made.scope))))[1:] == list(made.scope)
    for made in model.factors:
        assert int(next(words)) == made.log_table.size
        entries = list(map(float, itertools.islice(words, made.log_table.size)))
        np.testing.assert_allclose(np.exp(made.log_table).ravel(), entries, rtol=1e-12)
    assert next(words, None) is None
    assert sizes is None or set(model.cardinalities) == sizes
    assert max(len(f.scope) for f in model.factors) == arity
    assert model.is_finite is not zeros
    for suffix in (".uai", ".LG.gz"):
        write_uai(model, tmp_path / f"copy{suffix}")
        assert bits(read_uai(tmp_path / f"copy{suffix}")) == bits(model)


def test_more_factors_or_variables_than_can_be_kept_are_refused(tmp_path, monkeypatch):
    path = save(tmp_path, "MARKOV 3 2 2 2 2 0 0 1 1 1 1")
    assert len(read_uai(path).factors) == 2
    for name, message in (("MOST_FACTORS", "at most 1, found 2"), ("MOST_VARIABLES", "found 3")):
        with monkeypatch.context() as changed:
            changed.setattr(uai, name, 1)
            changed.setattr("cmpe.formats.tables.uai_numbers.MOST_CHARACTERS", 0)
            with pytest.raises(FormatError, match=message):
                read_uai(path)


def test_comments_are_left_out(tmp_path):
    """As pyAgrum writes them; the names in them may have any letters."""
    text = "MARKOV # kind_of\n2 # nbr Nodes\n2 2\n1\n2 1 0  # größe_a # b\n4 # {0, 1}\n1 2 3 4\n#"
    (tmp_path / "m.uai").write_text(text, encoding="utf-8")
    (tmp_path / "plain.uai").write_text("MARKOV 2 2 2 1 2 1 0 4 1 2 3 4")
    assert read_uai(tmp_path / "m.uai") == read_uai(tmp_path / "plain.uai")
    (tmp_path / "m.uai").write_text(text.replace("2 1 0", "2 1 x"), encoding="utf-8")
    message = refused(lambda: read_uai(tmp_path / "m.uai"))
    assert "line 5, word 3: expected a variable of factor 0" in message
    (tmp_path / "m.uai").write_text(text.replace("2 1 0", "2 1 ß"), encoding="utf-8")
    assert "line 5: expected plain ASCII text" in refused(lambda: read_uai(tmp_path / "m.uai"))


@pytest.mark.parametrize("seed", range(30))
def test_bayesian_networks_of_pyagrum(tmp_path, seed):
    """Variables with several parents, added in any order: the tables are not as the scopes say."""
    gum = pytest.importorskip("pyagrum")
    gum.initRandom(seed + 1)
    rng = np.random.default_rng(seed)
    network = gum.BayesNet()
    sizes = rng.integers(2, 5, 5).tolist()
    ids = [network.add(gum.LabelizedVariable(f"v_{i}", "", k)) for i, k in enumerate(sizes)]
    order = rng.permutation(ids).tolist()
    arcs = [(order[i], order[j]) for i in range(5) for j in range(i + 1, 5) if rng.random() < 0.6]
    for place in rng.permutation(len(arcs)):
        network.addArc(*arcs[place])
    network.generateCPTs()
    gum.saveBN(network, str(tmp_path / "m.uai"))
    same_as_pyagrum(tmp_path / "m.uai", LogLinearModel.from_pyagrum(network))


@pytest.mark.parametrize("seed", range(10))
def test_markov_networks_of_pyagrum(tmp_path, seed):
    gum = pytest.importorskip("pyagrum")
    gum.initRandom(seed + 1)
    network = gum.fastMRF("A--B[3]--C;C--D_e[4];A--D_e")
    network.saveUAI(str(tmp_path / "m.uai"))
    same_as_pyagrum(tmp_path / "m.uai", LogLinearModel.from_pyagrum(network))


def same_as_pyagrum(path, wanted):
    model = read_uai(path)
    assert model.cardinalities == wanted.cardinalities
    rows = all_assignments(model.cardinalities)
    np.testing.assert_allclose(model.value(rows), wanted.value(rows), atol=1e-3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uai, "read_at_once", lambda *_: None)  # word by word
        assert read_uai(path) == model
