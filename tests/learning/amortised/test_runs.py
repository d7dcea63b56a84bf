"""Run directories: written, read, and refused in one line."""

from __future__ import annotations

import json

import pytest
import torch

from cmpe.learning.amortised.runs import AmortisedRun
from cmpe.learning.runs import read_trained
from tests.learning.amortised.cases import solver
from tests.refusals import refused


@pytest.fixture
def folder(tmp_path):
    solver().save(tmp_path / "run")
    return tmp_path / "run"


def test_a_run_is_read_as_it_was_written(folder):
    mine, again = solver().run, AmortisedRun.read(folder)
    assert (again.config, again.digest, again.depths) == (mine.config, mine.digest, mine.depths)
    for name, value in mine.parameters.items():
        assert torch.equal(again.parameters[name], value)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"training": 3}, "a trained solver"),
        ({"depths": [1]}, "a trained solver"),
        ({"updates": -1}, "updates must be at least 0"),
        ({"kind": "other"}, "field 'kind'"),
        ({"weights_sha256": "0"}, "sha256"),
        ({"format_version": 9}, "format_version"),
    ],
)
def test_another_file_is_refused(folder, changes, match):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    refused(lambda: AmortisedRun.read(folder), match)


def test_it_is_no_run_of_one_problem(folder):
    refused(lambda: read_trained(folder), "expected 'cmpe neural solver'")
