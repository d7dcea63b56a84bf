"""`cmpe problem`: a problem directory from a pair of models, and what the README does with it."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

import cmpe
from cmpe.formats.uai import write_uai
from cmpe.generation import grid

README = Path(__file__).resolve().parents[2] / "README.md"
PAIR = ["--objective", "f.uai", "--constraint", "g.uai", "--at-most", "9"]


@pytest.fixture
def pair(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_uai(grid(3, 4, seed=1), "f.uai")
    write_uai(grid(3, 4, seed=2), "g.uai")
    return tmp_path


def test_rows_are_sampled_as_generate_does(call, pair):
    told = ["--samples", 60, "--evidence-fraction", 0.5, "--seed", 3]
    assert call("generate", "f.uai", "--out", "made", *told)[0] == 0
    code, out, err = call("problem", *PAIR, "--out", "own", *told)
    assert (code, err) == (0, "")
    assert (
        out == "own: 12 variables, 6 observed, t <= 9, 54 train and 6 test rows, exact sampling\n"
    )
    own, made = cmpe.read_directory("own"), cmpe.read_directory("made")
    np.testing.assert_array_equal(own.train, made.train)
    np.testing.assert_array_equal(own.test, made.test)
    assert own.problem.evidence_variables == made.problem.evidence_variables
    assert own.problem.limits.tolist() == [9.0]
    whole = np.random.default_rng(0).integers(0, 2, (20, 12))
    for stored, file in zip(own.problem.functions, ("f.uai", "g.uai"), strict=True):
        np.testing.assert_allclose(stored.value(whole), cmpe.read_model(file).value(whole))


def test_given_rows_say_what_is_observed(call, pair):
    rows = np.full((20, 12), -1)
    rows[:, [2, 5, 7]] = np.random.default_rng(1).integers(0, 2, (20, 3))
    np.save("rows.npy", rows)
    code, out, err = call("problem", *PAIR, "--out", "own", "--rows", "rows.npy", "--seed", 5)
    assert (code, err) == (0, "")
    assert out == "own: 12 variables, 3 observed, t <= 9, 18 train and 2 test rows\n"
    content = cmpe.read_directory("own")
    assert content.problem.evidence_variables == (2, 5, 7)
    found = np.concatenate([content.train, content.test])
    assert not np.array_equal(found, rows[:, [2, 5, 7]])  # shuffled
    assert sorted(found.tolist()) == sorted(rows[:, [2, 5, 7]].tolist())


def test_of_complete_rows_a_share_is_observed(call, pair):
    rows = np.random.default_rng(1).integers(0, 2, (10, 12))
    np.savetxt("rows.csv", rows, fmt="%d", delimiter=",")
    told = ["--rows", "rows.csv", "--evidence-fraction", 0.25]
    assert call("problem", *PAIR, "--out", "own", *told)[0] == 0
    content = cmpe.read_directory("own")
    observed = list(content.problem.evidence_variables)
    assert len(observed) == 3
    found = np.concatenate([content.train, content.test])
    assert sorted(found.tolist()) == sorted(rows[:, observed].tolist())


def test_several_constraints_of_both_senses(call, pair):
    limits = ["--objective", "f.uai", "--constraint", "g.uai", "--constraint", "f.uai"]
    limits += ["--at-most", "9", "--at-least", "-30"]
    code, out, _ = call("problem", *limits, "--out", "own", "--samples", 20)
    assert code == 0
    assert "t <= 9, t >= -30" in out
    assert cmpe.read_directory("own").problem.limits.tolist() == [9.0, 30.0]


def test_an_old_problem_is_not_replaced_without_a_word(call, pair):
    told = ["problem", *PAIR, "--out", "own", "--samples", 20]
    assert call(*told)[0] == 0
    code, _, err = call(*told)
    assert (code, err.count("\n")) == (2, 1)
    assert "own: holds a problem already; add --force" in err
    assert call(*told, "--force")[0] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--samples", "1"], "samples must be at least 2, found 1"),
        (["--evidence-fraction", "2"], "evidence_fraction must be from 0 to 1, found 2.0"),
        (["--rows", "rows.npy", "--samples", "5"], "give --rows ROWS or --samples N, not both"),
        (["--rows", "nowhere.npy"], "nowhere.npy: "),
        (["--rows", "rows.npy"], "all rows must observe the same variables; row 1 observes 11"),
        (["--rows", "one.npy"], "rows to train and to test on must be at least 2, found 1"),
        (["--rows", "some.npy", "--evidence-fraction", "0.5"], "say which variables are observed"),
        (["--at-most", "3"], "every --constraint needs one --at-most or --at-least: found 1 and 2"),
    ],
)
def test_bad_input_is_one_line(refused, pair, words, message):
    rows = np.zeros((3, 12), dtype=int)
    rows[1, 4] = -1
    np.save("rows.npy", rows)
    np.save("one.npy", rows[:1])
    np.save("some.npy", np.tile(rows[1], (4, 1)))
    assert message in refused("problem", *PAIR, "--out", "own", *words)
    assert not (pair / "own").exists()


@pytest.mark.filterwarnings("ignore")
def test_the_three_lines_of_the_readme(call, pair):
    block = re.search(
        r"```sh\n(cmpe problem .*?)```", README.read_text(encoding="utf-8"), re.DOTALL
    )
    assert block is not None
    made, trained, evaluated = (shlex.split(line)[1:] for line in block[1].splitlines())
    made[made.index("--at-most") + 1] = "5"
    assert call(*made, "--samples", 100)[0] == 0
    quick = ["--epochs", 1, "--set", "hidden=[4]", "--folds", 2]
    code, out, _ = call(*trained, *quick)
    assert code == 0
    assert out.startswith("2 folds, 6 settings, ")
    code, out, _ = call(*evaluated, "--format", "json")
    assert code == 0
    found = json.loads(out)
    assert found["constant"]["all"]["rows"] == found["stages"]["network"]["all"]["rows"] > 0
