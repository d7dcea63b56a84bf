"""`cmpe generate`: the agreed layout, and one seed for everything."""

from __future__ import annotations

import json
import os

import numpy as np

from cmpe import read_uai
from tests.cli.test_cli import FILES, generated, output, run


def test_generate_writes_the_agreed_layout(problem, model):
    assert sorted(os.listdir(problem)) == FILES
    described = json.loads((problem / "problem.json").read_bytes())
    assert isinstance(described["at_most"], float)
    assert len(described["evidence_variables"]) == 6
    assert described["name"] == "small.grid"
    assert np.load(problem / "train.npy").shape == (54, 6)
    assert np.load(problem / "test.npy").shape == (6, 6)
    first, second = read_uai(problem / "objective.uai"), read_uai(problem / "constraint.uai")
    for before, h, t in zip(read_uai(model).factors, first.factors, second.factors, strict=True):
        np.testing.assert_allclose(h.log_table, before.log_table, atol=1e-12)
        assert before.scope == h.scope == t.scope
        assert not np.array_equal(h.log_table, t.log_table)


def test_one_seed_gives_identical_bytes_another_does_not(problem, model, tmp_path):
    code, _, _ = run(*generated(model, tmp_path / "same"), cwd=tmp_path)
    assert code == 0
    output(*generated(model, tmp_path / "other", seed=4))
    for name in FILES:
        assert (tmp_path / "same" / name).read_bytes() == (problem / name).read_bytes()
    different = [
        n for n in FILES if (tmp_path / "other" / n).read_bytes() != (problem / n).read_bytes()
    ]
    assert different == ["constraint.uai", "problem.json", "test.npy", "train.npy"]
