"""`cmpe generate`: a problem directory, the same bytes for the same seed."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from cmpe.formats.uai import read_uai
from tests.cli.commands import FILES, generated, output, run


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
    code, out, err = run(*generated(model, tmp_path / "same"), cwd=tmp_path)
    assert (code, err) == (0, "")
    assert out.startswith(f"{tmp_path / 'same'}: 12 variables, 6 observed, ")
    assert out.count("\n") == 1
    output(*generated(model, tmp_path / "other", seed=4))
    for name in FILES:
        assert (tmp_path / "same" / name).read_bytes() == (problem / name).read_bytes()
    different = [
        n for n in FILES if (tmp_path / "other" / n).read_bytes() != (problem / n).read_bytes()
    ]
    assert different == ["constraint.uai", "problem.json", "test.npy", "train.npy"]


USAGE = [
    (["generate", "m.uai"], "Missing option '--out'"),
    (["generate", "m.uai", "--out", "m.uai"], "m.uai: cannot be written: File exists"),
    (["generate", "m.uai", "--out", "o", "--evidence-fraction", "2"], "must be from 0 to 1, found"),
    (["generate", "m.uai", "--out", "o", "--noise-variance", "-1"], "must be at least 0, found -1"),
    (["generate", "m.uai", "--out", "o", "--percentile", "0"], "must be from 1 to 100, found 0"),
    (["generate", "m.uai", "--out", "o", "--samples", "1"], "samples must be at least 2, found 1"),
    (["generate", "m.uai", "--out", "o", "--seed", "-1"], "seed must be at least 0, found -1"),
]


@pytest.mark.parametrize(("arguments", "message"), USAGE)
def test_bad_arguments(refused, arguments, message):
    assert message in refused(*arguments)


def test_an_old_problem_is_not_replaced_without_a_word(call, model, tmp_path):
    told = generated(model, tmp_path / "p")
    assert call(*told)[0] == 0
    before = (tmp_path / "p" / "problem.json").read_bytes()
    other = generated(model, tmp_path / "p", seed=9)
    code, _, err = call(*other)
    assert (code, err.count("\n")) == (2, 1)
    assert f"{tmp_path / 'p'}: holds a problem already; add --force" in err
    assert (tmp_path / "p" / "problem.json").read_bytes() == before
    assert call(*other, "--force")[0] == 0
    assert (tmp_path / "p" / "problem.json").read_bytes() != before
