"""Names beside UAI files."""

import json

import numpy as np
import pytest

from cmpe import LogLinearModel, read_model, read_uai, write_model, write_uai
from cmpe.domain import Domain
from cmpe.errors import FormatError, ModelError
from cmpe.formats.tables.names import names_file, parse_domain, read_names

TABLES = [(("Rain", "Level"), np.arange(6.0).reshape(2, 3))]
NAMED = LogLinearModel.from_tables([2, 3], TABLES, ["Rain", "Level"], [["no", "yes"], ()])


@pytest.mark.parametrize("name", ["m.uai", "m.LG", "m.uai.gz"])
def test_names_lie_beside_the_file(tmp_path, name):
    path = tmp_path / name
    write_model(NAMED, path)
    side = tmp_path / f"{name.removesuffix('.gz')}.names"
    assert json.loads(side.read_text()) == {"Rain": ["no", "yes"], "Level": 3}
    assert names_file(path) == side
    assert read_model(path).domain == NAMED.domain
    assert read_uai(path, names=["a", "b"]).names == ("a", "b")
    write_uai(NAMED.named(()), path)
    assert not side.exists()  # the names of another model
    assert read_uai(path).names == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "a JSON object"),
        ('{"a": 2}', "the variables: expected those of m.uai, found other numbers of states"),
        ('{"a": ["x", "y"], "b": true}', "variable 'b': expected a list of states"),
        ('{"a": ["x", 3], "b": 3}', "variable 'a': expected a list of states"),
        ('{"a": 0, "b": 3}', "variable 'a': expected a list of states, or their number, found 0"),
        ('{"a": ["x", "x"], "b": 3}', "states must be distinct"),
    ],
)
def test_broken_names_are_refused(tmp_path, text, message):
    write_uai(NAMED, tmp_path / "m.uai")
    (tmp_path / "m.uai.names").write_text(text)
    with pytest.raises(FormatError) as caught:
        read_uai(tmp_path / "m.uai")
    assert message in str(caught.value)
    assert "m.uai.names" in str(caught.value)


def test_other_values():
    assert parse_domain("f", {"a": 2}) == Domain((2,), ("a",))
    with pytest.raises(FormatError, match="an object of names and states, found list"):
        parse_domain("f", ["a"])


def test_a_wrong_number_of_names(tmp_path):
    write_uai(NAMED.named(()), tmp_path / "m.uai")
    with pytest.raises(ModelError, match="2 variables need as many names, found 1"):
        read_uai(tmp_path / "m.uai", names=["a"])
    with pytest.raises(FormatError):
        read_names(tmp_path / "m.uai")
