"""BIF: dialects of several programs, real networks, hostile files."""

import warnings
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from cmpe import LogLinearModel, read_model, write_model
from cmpe.errors import FormatError, TooLarge
from cmpe.formats.tables.bif import read_bif
from tests.formats.tables.networks import random_network, refused_file, same

HEAD = "network unknown {\n}\nvariable a {\n  type discrete [ 2 ] { yes, no };\n}\n"
BOTH = HEAD + "variable b {\n  type discrete [ 2 ] { on, off };\n}\n"
TABLE_A = "probability ( a ) {\n  table 0.3, 0.7;\n}\n"
DIALECTS = {
    "bnlearn": BOTH + TABLE_A
    + "probability ( b | a ) {\n  (yes) 0.1, 0.9;\n  (no) 0.6, 0.4;\n}\n",
    "pgmpy": BOTH + TABLE_A.replace(";", " ;")
    + "probability ( b | a ) {\n    ( no ) 0.6, 0.4;\n    ( yes ) 0.1, 0.9;\n\n}\n",
    "pyagrum": BOTH.replace("unknown {", '"unknown" {\n// written by aGrUM 3.3.1')
    .replace("discrete [ 2 ] { yes, no }", "discrete[2] {yes, no}")
    + "probability (a) {\n   default 0.3 0.7;\n}\n"
    + "probability (b | a) {\n   (yes) 0.1 0.9;\n   (no) 0.6 0.4;\n}\n",
    "smile": BOTH.replace("network unknown {", 'network "Net//1" {\n property software "G";')
    .replace("off };", 'off };\n property position = (73, 165) ;\n property "x { y }" ;')
    + TABLE_A + "probability ( b | a )\n{\n  default 0.6, 0.4 ;\n  (yes) 1e-1, 9.0E-1 ;\n}\n",
    "javabayes": BOTH.replace("variable a", 'variable  "a"').replace("yes, no", '"yes"  "no"')
    + 'probability (  "a" ) { //1 variable(s) and 2 values\n\ttable 0.3 0.7 ; }\n'
    + 'probability (  "b"  "a" ) { /* two\nlines */\n\ttable 0.1 0.6 0.9 0.4 ; }\n',
}  # fmt: skip


@pytest.mark.parametrize("name", DIALECTS)
def test_dialects(tmp_path, name):
    (tmp_path / "m.bif").write_text(DIALECTS[name])
    model = read_model(tmp_path / "m.bif")
    assert model.names == ("a", "b")
    assert model.states == (("yes", "no"), ("on", "off"))
    expected = np.log([[0.3 * 0.1, 0.3 * 0.9], [0.7 * 0.6, 0.7 * 0.4]])
    found = model.value([[0, 0], [0, 1], [1, 0], [1, 1]])
    np.testing.assert_allclose(found, expected.ravel(), rtol=1e-12)


def test_written_files_are_read_by_others(tmp_path):
    pytest.importorskip("pyagrum")
    from pgmpy.readwrite import BIFReader

    model = random_network(3, least=2)
    write_model(model, tmp_path / "m.bif")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pyagrum

        other = LogLinearModel.from_pyagrum(pyagrum.loadBN(str(tmp_path / "m.bif")))
        third = LogLinearModel.from_pgmpy(BIFReader(str(tmp_path / "m.bif")).get_model())
    for found in (other, third):
        joined = model - found if found.is_finite and model.is_finite else None
        assert set(found.names) == set(model.names)
        assert joined is None or np.abs(joined.value(np.zeros((1, 6), dtype=int))).max() < 1e-5


def test_networks_of_pgmpy(tmp_path):
    """Three small ones; benchmarks/real_networks.py reads all of them."""
    spec = find_spec("pgmpy")
    if spec is None or spec.origin is None:
        pytest.skip("pgmpy is not installed")
    folder = Path(spec.origin).parent / "utils" / "example_models"
    sizes = {"asia": 8, "alarm": 37, "insurance": 27}
    for name, variables in sizes.items():
        model = read_model(folder / f"{name}.bif.gz")
        assert model.variables == variables
        write_model(model, tmp_path / f"{name}.bif")
        again = read_model(tmp_path / f"{name}.bif")
        rows = np.random.default_rng(0).integers(0, model.cardinalities, (50, variables))
        np.testing.assert_allclose(again.value(rows), model.value(rows), rtol=1e-12)
    assert same(read_model(folder / "asia.bif.gz"), read_model(folder / "asia.bif.gz"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: expected a block: network, variable or probability, found ''"),
        ("network x { }\nfoo bar", "line 2: expected a block"),
        ("network x { }", "line 1: expected variables, found none"),
        ("variable a b { type discrete [ 1 ] { x }; }", "one name of a variable, found 'a b'"),
        ("variable a { type continuous; }", "type discrete [ N ] { states } of 'a'"),
        ("variable a { type discrete [ 2 ] { x }; }", "expected 2 states of 'a', found 1"),
        (HEAD + HEAD[20:], "line 6: expected distinct variables, found 'a' twice"),
        (HEAD, "the end: expected a table of 'a', found none"),
        (HEAD + "probability ( ) { table 1; }", "line 6: expected ( CHILD | PARENTS )"),
        (HEAD + "probability ( c ) { table 1; }", "a variable of the network, found 'c'"),
        (HEAD + TABLE_A + TABLE_A, "line 9: expected one table per variable"),
        (HEAD + "probability ( a | a ) { table 1; }", "distinct variables in a table"),
        (HEAD + "probability ( a ) { table 0.5; }", "a table of 2 numbers, found 1"),
        (HEAD + "probability ( a ) { table x, y; }", "line 6: expected numbers, found 'x, y'"),
        (HEAD + "probability ( a ) { table 1_0, 2; }", "line 6: expected numbers"),
        (HEAD + "probability ( a ) { table -1, 2; }", "probabilities of 'a', found -1.0"),
        (HEAD + "probability ( a ) { table nan, 2; }", "probabilities of 'a', found nan"),
        (HEAD + "probability ( a ) { table 1, 2; table 1, 2; }", "one table, one default, or rows"),
        (HEAD + "probability ( a ) { }", "expected 1 rows of probabilities, or a default, found 0"),
        (BOTH + TABLE_A + "probability ( b | a ) { (yes) 0.1, 0.9; }", "expected 2 rows"),
        (BOTH + TABLE_A + "probability ( b | a ) { (up) 0.1, 0.9; }", "a state of each of 1 par"),
        (BOTH + TABLE_A + "probability ( b | a ) { (yes) 0.1; }", "rows of 2 numbers, found 1"),
        (
            BOTH + TABLE_A + "probability ( b | a ) { (yes) 0.1, 0.9; (yes) 0.1, 0.9; }",
            "each combination of states once, found one twice",
        ),
        (BOTH + TABLE_A + "probability ( b | a ) { default 1, 2, 3; }", "a default of 2 numbers"),
        ('variable "', "expected a block"),
        (HEAD.replace("yes", '"yes"m') + TABLE_A, "2 states of 'a', found 3"),
        (
            HEAD.replace("variable a", 'variable "a"b') + TABLE_A,
            "one name of a variable, found '\"a\"b'",
        ),
        (HEAD + 'probability ( "a""b" ) { table 1, 2; }', "a variable of the network, found 'b'"),
        (
            BOTH + TABLE_A + "probability ( b | a ) { (up\n down) 0.1, 0.9; }",
            "a state of each of 1 parents, found (up down)",
        ),
        ("variable a { {{{{", "expected a block"),
    ],
)
def test_hostile_files(tmp_path, text, message):
    refused_file(tmp_path / "m.bif", text, message)


def test_a_small_file_cannot_ask_for_much_memory(tmp_path):
    many = ", ".join(f"s{k}" for k in range(100))
    variables = "".join(
        f"variable v{k} {{ type discrete [ 100 ] {{ {many} }}; }}\n" for k in range(6)
    )
    text = variables + "probability ( v0 | v1, v2, v3, v4, v5 ) { default 0.01; }"
    (tmp_path / "m.bif").write_text(text)
    with pytest.raises(TooLarge, match="more than 67108864 entries"):
        read_bif(tmp_path / "m.bif")


@pytest.mark.parametrize("name", DIALECTS)
def test_truncations_are_refused_or_read(tmp_path, name):
    """Every cut of a file is either refused in one sentence or a whole network."""
    text = DIALECTS[name]
    for end in range(0, len(text), 7):
        (tmp_path / "m.bif").write_text(text[:end])
        with pytest.raises(FormatError):
            read_bif(tmp_path / "m.bif")
