"""Files of toulbar2's validation set and their optima, where they are there.

`python -m benchmarks.peer` has all of them; those that take long are left out here.
"""

from __future__ import annotations

import pytest
from benchmarks.peer import DATA, files, is_equal

import cmpe
from cmpe.errors import FormatError
from tests.refusals import refused

LONG = {"10_1.wcsp", "1cb6.LG.xz", "cat_paths_60_170_0005_clq.wcsp", "celar6sub0.wcsp"}
REFUSED = {"sgrammardp1.cfn": "sgrammardp"}
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"{DATA} is not there")
ANSWERED = [
    file for file in (files(DATA) if DATA.is_dir() else ()) if file.name not in (LONG | {*REFUSED})
]


@pytest.mark.parametrize("file", ANSWERED, ids=[file.name for file in ANSWERED])
def test_the_optimum_of_a_file(file):
    answer = cmpe.solve(cmpe.read_problem(DATA / file.name))[0]
    assert answer.status.label == "optimal"
    assert is_equal(-answer.objective, file.optimum)


@pytest.mark.parametrize("name", sorted(LONG))
def test_long_files_are_read(name):
    assert cmpe.read_problem(DATA / name).variables > 0


def test_what_is_refused_is_named():
    for name, keyword in REFUSED.items():
        message = refused(lambda path=DATA / name: cmpe.read_problem(path), kind=FormatError)
        assert repr(keyword) in message
