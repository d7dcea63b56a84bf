"""Run directories: written, read, and refused in one line."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from cmpe.learning.amortised.runs import AmortisedRun
from cmpe.learning.runs import read_trained
from tests.learning.amortised.cases import solver
from tests.refusals import refused


@pytest.fixture
def folder(tmp_path):
    solver().save(tmp_path / "run")
    return tmp_path / "run"


def rewrite(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_a_run_is_read_as_it_was_written(folder):
    mine, again = solver().run, AmortisedRun.read(folder)
    assert (again.config, again.digest, again.rooms) == (mine.config, mine.digest, mine.rooms)
    assert (again.generations, again.finished, again.name) == (3, True, "grid4")
    np.testing.assert_array_equal(again.schedules, mine.schedules)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"training": 3}, "a network for any question"),
        ({"rooms": [1]}, "a network for any question"),
        ({"generations": -1}, "generations must be at least 0"),
        ({"kind": "other"}, "field 'kind'"),
        ({"weights_sha256": "0"}, "sha256"),
        ({"format_version": 9}, "format_version"),
    ],
)
def test_another_file_is_refused(folder, changes, match):
    rewrite(folder, **changes)
    refused(lambda: AmortisedRun.read(folder), match)


def test_runs_of_older_versions_say_that_they_must_be_trained_again(folder):
    settings = {**solver().run.config.to_json(), "network": "mlp"}
    rewrite(folder, training=settings)
    refused(lambda: AmortisedRun.read(folder), "no setting 'network'; train it again")


@pytest.mark.parametrize("weights", [{}, {"schedules": torch.zeros(2, 12)}])
def test_schedules_of_another_length_are_refused(folder, weights):
    save_file({"other": torch.zeros(1), **weights}, folder / "weights.safetensors")
    rewrite(folder, weights_sha256=None)
    refused(lambda: AmortisedRun.read(folder), "schedules of 18 numbers each")


def test_it_is_no_run_of_one_problem(folder):
    refused(lambda: read_trained(folder), "expected 'cmpe neural solver'")
