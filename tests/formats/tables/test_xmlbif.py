"""XMLBIF: what others write, and hostile files."""

import numpy as np
import pytest

from cmpe.errors import FormatError
from cmpe.formats.tables.xmlbif import read_xmlbif
from tests.formats.tables.networks import refused_file

NODE = "<VARIABLE TYPE='nature'><NAME>{}</NAME><OUTCOME>y</OUTCOME><OUTCOME>n</OUTCOME></VARIABLE>"
TEXT = (
    "<?xml version='1.0'?>\n<!DOCTYPE BIF [ <!ELEMENT BIF ( NETWORK )*> ]>\n<BIF VERSION='0.3'>"
    "<NETWORK><NAME>x</NAME>\n" + NODE.format("a") + NODE.format("b")
    + "<DEFINITION><FOR>a</FOR><TABLE>0.3 0.7</TABLE></DEFINITION>\n"
    "<DEFINITION><FOR>b</FOR><GIVEN>a</GIVEN><TABLE>0.1 0.9 <!-- c --> 0.6 0.4</TABLE></DEFINITION>"
    "</NETWORK></BIF>\n"
)  # fmt: skip


def read(tmp_path, text):
    (tmp_path / "m.xmlbif").write_text(text)
    return read_xmlbif(tmp_path / "m.xmlbif")


def test_tables_have_the_child_fastest(tmp_path):
    model = read(tmp_path, TEXT)
    assert model.names == ("a", "b")
    assert model.states == (("y", "n"),) * 2
    np.testing.assert_allclose(np.exp(model.value([[0, 1], [1, 0]])), [0.27, 0.42])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("</BIF>", "", "line 6: expected XML, found no element found"),
        ("<TABLE>0.3", "<TABLE>x", "numbers in a TABLE, found 'x 0.7'"),
        ("0.3 0.7", "0.3", "a TABLE of 2 numbers, found 1"),
        ("<FOR>a</FOR>", "", "one FOR and one TABLE, found 0 and 1"),
        ("<NAME>b</NAME>", "", "one NAME of a VARIABLE, found 0"),
        ("<GIVEN>a", "<GIVEN>c", "a variable of the network, found 'c'"),
        ("0.3", "-0.3", "probabilities of 'a', found -0.3"),
        ("<!ELEMENT BIF ( NETWORK )*>", '<!ENTITY a "aaaa">', "expected no entities"),
    ],
)
def test_hostile_files(tmp_path, old, new, message):
    refused_file(tmp_path / "m.xmlbif", TEXT.replace(old, new), message)


def test_an_encoding_that_nobody_knows_is_refused(tmp_path):
    path = tmp_path / "m.xmlbif"
    path.write_text('<?xml version="1.0" encoding="UTF-1e400-8"?><BIF></BIF>')
    with pytest.raises(FormatError, match="line 1: expected XML, found unknown encoding"):
        read_xmlbif(path)
