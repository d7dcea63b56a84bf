"""Certificates against enumeration: sound ones are verified, and nothing that does not hold is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from benchmarks.campaign.certificates import unit
from benchmarks.campaign.journal import Journal

import cmpe
from cmpe.certificates import checker
from cmpe.certificates.checker import check
from tests.problems import worked_example

CHECKER = Path(checker.__file__)


def test_random_problems_and_tampered_certificates():
    """Rules, limits, potentials and zeros; a third of the changes leaves a claim that holds."""
    journal = Journal()
    for seed in range(150):
        unit(np.random.default_rng([7, seed]), journal)
    assert journal.findings == []
    assert journal.counts["certified rows"] > 400
    assert journal.counts["tampered certificates that were refused"] > 150


def test_the_checker_stands_alone_and_is_short(tmp_path):
    path = tmp_path / "proof.json"
    cmpe.certify(worked_example(), [[1, 1]], path)
    copied = tmp_path / "alone.py"
    copied.write_text(CHECKER.read_text())
    done = subprocess.run(
        [sys.executable, "-I", "-S", copied, path], capture_output=True, text=True, check=False
    )
    expected = "row 0: verified: objective 11, nothing above 11 satisfies the constraints"
    assert expected in done.stdout
    assert done.returncode == 0
    assert "cmpe" not in "".join(
        line for line in CHECKER.read_text().splitlines() if "import" in line
    )
    assert len(CHECKER.read_text().splitlines()) <= 300


@pytest.fixture
def certificate(tmp_path):
    """That of the worked example, whose gap takes two cubes, with its model in a file."""
    problem = worked_example()
    model = tmp_path / "h.LG"
    cmpe.write_model(problem.objective, model)
    path = tmp_path / "proof.json"
    made = cmpe.certify(problem, [[1, 1], [0, 1]], path, models=[model])
    assert made.complete
    return path


def refusal(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    row, holds, words = list(check(path))[-1]
    assert not holds
    return row, words


def test_the_model_is_read_from_its_file(certificate):
    content = json.loads(certificate.read_text())
    assert content["problem"]["objective"] == [{"file": "h.LG"}]
    model = certificate.parent / "h.LG"
    words = model.read_text().split()
    words[-1] = "5.0"  # raises an entry of the objective
    model.write_text(" ".join(words))
    assert not all(holds for _, holds, _ in check(certificate))
    model.unlink()
    ((row, holds, words),) = check(certificate)
    assert row is None
    assert not holds
    assert "FileNotFoundError" in words


def first_row(**changes):
    return lambda content: content["rows"][0].update(changes)


def moves(change):
    """What moves between clusters is changed."""

    def changed(content):
        structure = content["structures"][0]
        structure["moves"] = [change(*move) for move in structure["moves"]]

    return changed


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (first_row(bound=10.9), "the sum of the maxima is"),
        (first_row(objective=12.0), "the assignment's objective is 11.0, not 12.0"),
        (first_row(assignment=[1, 1, 0, 0], objective=16.0), "constraint 0 is broken"),
        (first_row(assignment=[0, 1, 0, 1]), "the assignment must not have 0 for variable 0"),
        (first_row(cubes=[]), "the cubes do not cover"),
        (first_row(evidence=[[0, 1], [0, 1]]), "variable 0 is observed twice"),
        (first_row(evidence=[[-1, 1]]), "an observed variable must be from 0 to 3, found -1"),
        (first_row(limits=[]), "every constraint needs a limit"),
        (first_row(bound=float("nan")), "the bound must be a number, found nan"),
        (first_row(structure=9), "cannot be read as a certificate: IndexError"),
        (moves(lambda a, _, scope: [a, a, scope]), "must be from one cluster to another"),
        (moves(lambda a, b, scope: [a, b, b, scope]), "too many values to unpack"),
        (moves(lambda a, _, scope: [a, -1, scope]), "a cluster must be from 0"),
        (moves(lambda a, b, _: [a, b, [0]]), "needs them in"),
    ],
)
def test_the_first_step_that_fails_is_named(certificate, change, expected):
    row, words = refusal(certificate, change)
    assert row in (0, None)
    assert expected in words


def cube_with(**changes):
    def change(content):
        content["rows"][0]["cubes"][-1].update(changes)

    return change


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (cube_with(multipliers=[-1.0]), "every constraint needs a multiplier of at least 0"),
        (cube_with(multipliers=[]), "every constraint needs a multiplier of at least 0"),
        (cube_with(moved=[[0, [0.0] * 99]]), "numbers, found 99"),
        (cube_with(infeasible=True), "the sum of the maxima is"),
    ],
)
def test_a_cube_that_proves_nothing_is_named(certificate, change, expected):
    assert expected in refusal(certificate, change)[1]


def trees_alone(monkeypatch):
    """No row is narrow enough to eliminate."""
    monkeypatch.setattr("cmpe.certificates.proving.MOST_ENTRIES", -1)


def test_trees_of_random_problems_and_tampered_certificates(monkeypatch):
    trees_alone(monkeypatch)
    journal = Journal()
    for seed in range(60):
        unit(np.random.default_rng([8, seed]), journal)
    assert journal.findings == []
    assert journal.counts["certified rows"] > 150
    assert journal.counts["tampered certificates that were refused"] > 60


def test_a_wide_row_has_a_tree_of_cubes(tmp_path):
    """Couplings and labels of a picture: 8 x 8, 12 states, too wide to eliminate."""
    rng = np.random.default_rng(4)
    tables = [((v,), 3.0 * rng.normal(size=12)) for v in range(64)]
    for v in range(64):
        near = [v + 1] * (v % 8 < 7) + [v + 8] * (v < 56)
        tables += [((v, u), rng.normal(size=(12, 12))) for u in near]
    problem = cmpe.Problem(cmpe.LogLinearModel.from_tables((12,) * 64, tables))
    answers = cmpe.solve(problem, time_limit=20.0)
    made = cmpe.certify(problem, None, tmp_path / "p.json", answers=answers)
    assert made.complete
    ((_, holds, words),) = check(tmp_path / "p.json")
    assert holds, words
    (row,) = json.loads((tmp_path / "p.json").read_text())["rows"]
    assert row["objective"] <= row["bound"] <= row["objective"] + 1e-5 * abs(row["objective"])


def test_cubes_share_what_was_not_split(tmp_path):
    """Two components, of which the first alone has a constraint and is split."""
    rng = np.random.default_rng(0)
    tables = [((v, v + 1), rng.normal(size=(2, 2))) for v in range(19) if v != 9]
    model = cmpe.LogLinearModel.from_tables((2,) * 20, tables)
    costs = {v: {1: float(rng.random())} for v in range(10)}
    problem = cmpe.Problem(model, [cmpe.linear(costs) <= 2.0])
    made = cmpe.certify(problem, None, tmp_path / "p.json")
    assert made.complete
    assert made.cubes[0] > 1
    content = json.loads((tmp_path / "p.json").read_text())
    moves, cubes = content["structures"][0]["moves"], content["rows"][0]["cubes"]
    stated = [len(cube["moved"]) for cube in cubes]
    assert stated[0] == len(moves)
    assert np.mean(stated[1:]) < 0.8 * len(moves)


@pytest.fixture
def no_cubes(monkeypatch):
    monkeypatch.setattr("cmpe.certificates.proving.MOST_CUBES", 0)
    monkeypatch.setattr("cmpe.certificates.trees.MOST_CUBES", 0)


@pytest.mark.usefixtures("no_cubes")
def test_a_weaker_bound_is_proved_where_the_claim_takes_too_many_cubes(tmp_path):
    path = tmp_path / "proof.json"
    model = cmpe.LogLinearModel.from_tables((2, 2), [((0,), [0.0, 1.0]), ((1,), [0.0, 1.0])])
    problem = cmpe.Problem(model, [cmpe.linear({0: {1: 1.0}, 1: {1: 1.0}}) <= 1.5])
    made = cmpe.certify(problem, None, path)
    assert not made.complete
    assert made.weaker.all()
    assert made.failures == ("",)
    assert 1.0 < made.bound[0] < 2.0
    ((_, holds, words),) = check(path)
    assert holds
    assert words.startswith("verified: objective 1, nothing above 1.5")
    assert made.to_frame()["proof"].tolist() == ["weaker than the answer's bound"]
    assert "weaker" in made._repr_html_()


@pytest.mark.usefixtures("no_cubes")
def test_a_row_without_a_proof_is_not_verified(tmp_path):
    """Whether two sums over the same variables can be 0 takes cubes."""
    path = tmp_path / "proof.json"
    costs = {v: {1: 2.0} for v in range(3)}
    problem = cmpe.Problem(
        cmpe.LogLinearModel.from_tables((2,) * 3, []),
        [cmpe.linear(costs) <= 3.0, cmpe.linear(costs) >= 3.0],
    )
    made = cmpe.certify(problem, None, path)
    assert made.failures == ("no proof was found within its limits",)
    assert list(check(path)) == [(0, False, "no proof: no proof was found within its limits")]


def test_answers_of_other_rows_are_refused(tmp_path):
    problem = worked_example()
    answers = cmpe.solve(problem, [[1, 1]])
    with pytest.raises(cmpe.CmpeError, match="certify needs an answer to each of 2 rows, found 1"):
        cmpe.certify(problem, [[1, 1], [0, 1]], tmp_path / "p.json", answers=answers)


def test_a_bound_that_is_not_claimed_and_a_wrong_claim_have_no_proof(tmp_path):
    """A method that proves nothing; and answers that say more than holds."""
    problem = worked_example()
    local = cmpe.solve(problem, [[1, 1]], method="local")
    made = cmpe.certify(problem, [[1, 1]], tmp_path / "p.json", answers=local)
    assert made.failures == ("no bound is claimed",)
    low = local.bounded(10.0)
    object.__setattr__(low, "objective", np.array([10.0]))
    made = cmpe.certify(problem, [[1, 1]], tmp_path / "p.json", answers=low.bounded(10.0))
    assert made.failures == ("an assignment exceeds the claim",)


def test_functions_without_tables_are_refused(tmp_path):
    network = cmpe.learn_cutset(np.random.default_rng(0).integers(0, 2, (60, 6)))
    with pytest.raises(cmpe.CmpeError, match="certificates need log-linear models"):
        cmpe.certify(cmpe.Problem(network), None, tmp_path / "p.json")
