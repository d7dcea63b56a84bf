"""Hugin .net: what others write, and what is refused."""

import numpy as np
import pytest

from cmpe.formats.tables.hugin import read_net
from tests.formats.tables.networks import refused_file

TEXT = """net { node_size = (80 40); name = "x % y"; }
node a { states = ("yes" "no"); label = ""; position = (1 2); }
discrete node b { states = (on off ); }
potential ( a | ) { data = ( 0.3 0.7 ); }
potential ( b | a ) { % a comment
 data = (( 0.1 0.9 )   % a=yes
 ( 0.6 0.4 ));
}
"""


def read(tmp_path, text):
    (tmp_path / "m.net").write_text(text)
    return read_net(tmp_path / "m.net")


def test_tables_have_the_child_fastest(tmp_path):
    model = read(tmp_path, TEXT)
    assert (model.names, model.states) == (("a", "b"), (("yes", "no"), ("on", "off")))
    np.testing.assert_allclose(np.exp(model.value([[0, 1], [1, 0]])), [0.27, 0.42])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("discrete node b", "continuous node b", "line 3: expected net, node or potential"),
        ("net {", "utility u { } net {", "net, node or potential, found 'utility'"),
        ('("yes" "no")', "", "node NAME { states = (...); }"),
        ("data = ( 0.3 0.7 );", "", "line 4: expected potential ( CHILD | PARENTS )"),
        ("0.3 0.7", "0.3", "data of 2 numbers, found 1"),
        ("0.3 0.7", "0.3 x", "numbers in data"),
        ("( b | a )", "( b | c )", "a variable of the network, found 'c'"),
        ("( b | a )", "( b a )", "line 5: expected potential ( CHILD | PARENTS )"),
        ("( 0.6 0.4 ));\n}", "( 0.6 0.4 ));\n} }", "line 8: expected net, node or potential"),
    ],
)
def test_hostile_files(tmp_path, old, new, message):
    refused_file(tmp_path / "m.net", TEXT.replace(old, new), message)


def test_words_may_stand_close_to_quotes(tmp_path):
    """Mutations of sound files found that these ran together."""
    path = tmp_path / "m.net"
    path.write_text(
        'net { } node A { states = ("no""yes"x); } potential (A) { data = (0.2 0.3 0.5); }'
    )
    assert read_net(path).cardinalities == (3,)
