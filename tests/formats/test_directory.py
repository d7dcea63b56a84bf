"""directory: what is written is read back, what does not fit is refused, nothing is half done."""

from __future__ import annotations

import hashlib
import json
import os
import shutil

import numpy as np
import pytest

import cmpe
from cmpe.errors import EvidenceError, FormatError, InputError, ModelError
from cmpe.flip import adversarial
from cmpe.formats.directory import ProblemDirectory, read_directory, write_directory
from cmpe.formats.labels import problem_digest
from cmpe.formats.uai import read_uai
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.models.neural import NeuralFunction
from cmpe.models.relu import ReluNetwork
from cmpe.problem import Constraint, Problem
from tests.refusals import fill_disk

FILES = ["constraint.uai", "objective.uai", "problem.json", "test.npy", "train.npy"]


def model(seed):
    entries = np.exp(np.random.default_rng(seed).normal(size=(2, 3)))
    table = np.where(entries < 0.3, -np.inf, np.log(entries))
    return LogLinearModel((2, 3, 2), (Factor((0, 1), table), Factor((), np.array(-np.log(3.0)))))


def content(constraints=1):
    limits = [1.1, -0.3, 1e300][:constraints]
    bounded = tuple(Constraint(model(k + 1), q) for k, q in enumerate(limits))
    problem = Problem(model(0), bounded, (2, 1), "a name: modèle")
    train, test = np.array([[1, 2], [0, 0], [1, 1]]), np.array([[0, 2]])
    return ProblemDirectory(problem, train, test, {"recipe": {"seed": 7}})


@pytest.fixture
def folder(tmp_path):
    write_directory(content(), tmp_path / "made" / "problem")
    return tmp_path / "made" / "problem"


@pytest.mark.parametrize("constraints", [0, 1, 2, 3])
def test_a_problem_comes_back(tmp_path, constraints):
    made = content(constraints)
    write_directory(made, tmp_path / "p")
    back = read_directory(tmp_path / "p")
    assert back.problem == made.problem
    assert np.array_equal(back.train, made.train)
    assert np.array_equal(back.test, made.test)
    assert back.provenance == made.provenance


def test_the_layout_that_outside_checks_rely_on(folder):
    assert sorted(os.listdir(folder)) == FILES
    described = json.loads((folder / "problem.json").read_bytes())
    assert described["at_most"] == 1.1
    assert described["evidence_variables"] == [2, 1]
    assert described["name"] == "a name: modèle"
    assert described["recipe"] == {"seed": 7}
    for name, digest in described["sha256"].items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
    assert np.load(folder / "train.npy").tolist() == [[1, 2], [0, 0], [1, 1]]
    assert read_uai(folder / "constraint.uai") == model(1)


def test_several_constraints_have_a_file_and_a_limit_each(tmp_path):
    write_directory(content(2), tmp_path)
    assert sorted(os.listdir(tmp_path)) == sorted([*FILES, "constraint_2.uai"])
    assert json.loads((tmp_path / "problem.json").read_bytes())["at_most"] == [1.1, -0.3]


def test_equal_content_gives_equal_bytes(tmp_path, folder):
    write_directory(content(), tmp_path / "again")
    for name in FILES:
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()


def test_a_full_disk_leaves_no_new_directory(tmp_path, monkeypatch):
    fill_disk(monkeypatch)
    with pytest.raises(InputError, match=r"objective\.uai: cannot be written: No space left"):
        write_directory(content(), tmp_path / "p")
    assert os.listdir(tmp_path) == []


def test_a_full_disk_leaves_the_old_directory_alone(folder, monkeypatch):
    before = {name: (folder / name).read_bytes() for name in FILES}
    fill_disk(monkeypatch)
    with pytest.raises(InputError, match="No space left on device"):
        write_directory(content(3), folder)
    assert {name: (folder / name).read_bytes() for name in os.listdir(folder)} == before


def test_an_interrupt_while_writing_leaves_the_old_directory_alone(folder, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("cmpe.formats.directory.write_array", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_directory(content(3), folder)
    assert sorted(os.listdir(folder)) == FILES
    assert read_directory(folder).problem == content().problem


def test_a_file_in_the_way_is_not_overwritten(tmp_path):
    (tmp_path / "p").write_text("mine")
    with pytest.raises(InputError, match="p: cannot be written: File exists"):
        write_directory(content(), tmp_path / "p")
    assert (tmp_path / "p").read_text() == "mine"


def test_a_changed_file_is_refused(folder):
    other = (folder / "objective.uai").read_text().replace("3", "4", 1)
    (folder / "objective.uai").write_text(other)
    with pytest.raises(
        FormatError, match=r"objective\.uai: sha256: expected [0-9a-f]{12}\.\.\. as"
    ):
        read_directory(folder)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(InputError, match=rf"{name}: cannot be read|found no {name} in it"):
        read_directory(folder)


def rewrite(folder, **fields):
    """Change fields of problem.json; None removes one. Hashes are dropped."""
    file = folder / "problem.json"
    described = json.loads(file.read_bytes()) | {"sha256": None} | fields
    file.write_text(json.dumps({k: v for k, v in described.items() if v is not None}))


def test_hashes_and_name_are_optional(folder):
    rewrite(folder, name=None, recipe=None)
    assert read_directory(folder).problem.name == "problem"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"format_version": None}, "field 'format_version': expected 1, found 'nothing'"),
        ({"format_version": 2}, "field 'format_version': expected 1, found 2"),
        ({"name": 5}, "field 'name': expected a string, found 5"),
        ({"at_most": None}, "field 'at_most': expected a finite number, or a list of them"),
        ({"at_most": "1"}, "field 'at_most': expected a finite number"),
        ({"at_most": True}, "field 'at_most': expected a finite number"),
        ({"at_most": float("nan")}, "field 'at_most': expected a finite number"),
        ({"at_most": 10**400}, "field 'at_most': expected a finite number"),
        ({"at_most": [1, None]}, "field 'at_most': expected a finite number"),
        ({"evidence_variables": 3}, "field 'evidence_variables': expected a list of variable"),
        ({"evidence_variables": [-1]}, "field 'evidence_variables': expected a list of variable"),
        ({"evidence_variables": [1.0]}, "field 'evidence_variables': expected a list of variable"),
        ({"evidence_variables": [2, 2]}, "evidence_variables must be distinct"),
        ({"evidence_variables": [2, 10**30]}, "evidence_variables: there is no variable 1000"),
        ({"sha256": ["objective.uai"]}, "field 'sha256': expected an object of file names"),
        ({"sha256": {"objective.uai": 5}}, "field 'sha256': expected an object of file names"),
    ],
)
def test_a_broken_description_is_refused_with_its_field(folder, fields, message):
    rewrite(folder, **fields)
    with pytest.raises(FormatError) as caught:
        read_directory(folder)
    assert f"problem.json: {message}" in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 10**5])
def test_a_description_that_is_no_object_is_refused(folder, data):
    (folder / "problem.json").write_bytes(data)
    with pytest.raises(
        FormatError, match=r"problem\.json: line 1.*: expected a JSON object, found"
    ):
        read_directory(folder)


def test_a_constraint_over_other_variables_is_refused(folder):
    rewrite(folder)
    (folder / "constraint.uai").write_text("MARKOV 2 2 3 0")
    with pytest.raises(FormatError, match=r"problem\.json: constraint 0 must have the same"):
        read_directory(folder)


@pytest.mark.parametrize(
    ("rows", "kind", "message"),
    [
        ([[0, 3]], EvidenceError, "row 0, variable 1: evidence must be from 0 to 2, found 3"),
        ([[-1, 0]], EvidenceError, "row 0, variable 2: evidence must be from 0 to 1, found -1"),
        ([[0]], FormatError, "every row: expected 2 columns, found 1"),
        ([[-1, 0, 1]], FormatError, "every row: expected 2 columns, found 3"),
        ([0, 1], FormatError, "the shape: expected two axes"),
    ],
)
def test_rows_that_do_not_fit_are_refused(folder, rows, kind, message):
    rewrite(folder)
    np.save(folder / "test.npy", np.array(rows))
    with pytest.raises(kind, match=rf"test\.npy: {message}"):
        read_directory(folder)


def test_what_is_no_directory_is_refused(tmp_path, folder):
    with pytest.raises(InputError, match="none: expected a problem directory, found nothing"):
        read_directory(tmp_path / "none")
    shutil.rmtree(folder)
    folder.touch()
    with pytest.raises(InputError, match="expected a problem directory, found a file"):
        read_directory(folder)


# Problems without tables.


def flips():
    """The least change that flips a network of three inputs; rows in [0, 1]."""
    rng = np.random.default_rng(5)
    sizes = [(4, 3), (2, 4)]
    network = ReluNetwork(
        tuple(rng.normal(size=size) for size in sizes),
        tuple(rng.normal(size=size[0]) for size in sizes),
    )
    return ProblemDirectory(adversarial(network), rng.random((0, 3)), rng.random((4, 3)))


@pytest.fixture
def arrays(tmp_path):
    write_directory(flips(), tmp_path / "flips")
    return tmp_path / "flips"


def test_an_adversarial_problem_comes_back_bit_for_bit(arrays):
    made, back = flips(), read_directory(arrays)
    assert sorted(os.listdir(arrays)) == [
        "constraint.npz", "objective.npz", "problem.json", "test.npy", "train.npy"
    ]  # fmt: skip
    assert problem_digest(back.problem) == problem_digest(made.problem)
    assert back.problem.continuous == made.problem.continuous == tuple(range(6))
    assert (back.test.dtype, back.test.tobytes()) == (np.float64, made.test.tobytes())
    assert back.train.shape == (0, 3)
    assert back.provenance == {}
    rows = np.hstack([made.test, made.test[::-1]])
    for one, two in zip(back.problem.functions, made.problem.functions, strict=True):
        assert one.value(rows).tobytes() == two.value(rows).tobytes()


def test_tables_may_have_variables_between_their_values(tmp_path):
    made = Problem(model(0), (Constraint(model(1), 0.5),), (2,), "between", (0, 2))
    write_directory(ProblemDirectory(made, np.zeros((0, 1)), np.array([[0.25]])), tmp_path)
    back = read_directory(tmp_path)
    assert back.problem == made
    assert back.test.tolist() == [[0.25]]


def test_a_neural_objective_comes_back_with_its_rules(tmp_path):
    import torch

    h = NeuralFunction(torch.nn.Linear(3, 1), (2, 2, 2), names=["a", "b", "c"])
    rules = [cmpe.count({"a": 1, "b": 1}, name="few") <= 1, cmpe.implies({"b": 1}, {"c": 1})]
    problem = Problem(h, rules, ["a"])
    rows = np.array([[0], [1]])
    write_directory(ProblemDirectory(problem, rows, rows), tmp_path / "p")
    back = read_directory(tmp_path / "p").problem
    assert [c.name for c in back.constraints] == ["few", "b=1 implies c=1"]
    assert (back.rules, problem_digest(back)) == (problem.rules, problem_digest(problem))
    z = np.indices((2, 2, 2)).reshape(3, -1).T
    np.testing.assert_array_equal(back.is_feasible(z), problem.is_feasible(z))


def test_other_kinds_of_function_are_refused_before_anything_is_written(tmp_path):
    import torch

    problem = Problem(NeuralFunction(torch.nn.Bilinear(2, 1, 1), (2, 2)))
    none = np.zeros((0, 0), dtype=int)
    with pytest.raises(ModelError, match="a module of kind Bilinear is written with an import"):
        write_directory(ProblemDirectory(problem, none, none), tmp_path / "p")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"continuous": 3}, "field 'continuous': expected a list of variable numbers, found 3"),
        ({"continuous": [0.5]}, "field 'continuous': expected a list of variable numbers"),
        ({"continuous": [6]}, "continuous: there is no variable 6: numbers go from 0 to 5"),
        ({"continuous": [1, 1]}, "continuous must be distinct"),
    ],
)
def test_broken_continuous_variables_are_refused(arrays, fields, message):
    rewrite(arrays, **fields)
    with pytest.raises(FormatError) as caught:
        read_directory(arrays)
    assert f"problem.json: {message}" in str(caught.value)


@pytest.mark.parametrize(
    ("rows", "kind", "message"),
    [
        ([[0.5, np.nan, 0.0]], EvidenceError, r"row 0, variable 1: evidence must be in \[0, 1\]"),
        ([[0.5, 0.0, 1.5]], EvidenceError, r"row 0, variable 2: evidence must be in \[0, 1\]"),
        ([[0.5, 0.0]], FormatError, "every row: expected 3 columns, found 2"),
        ([[0.5j, 0.0, 0.0]], FormatError, "the array: expected numbers, found dtype complex128"),
    ],
)
def test_fractions_that_do_not_fit_are_refused(arrays, rows, kind, message):
    rewrite(arrays)
    np.save(arrays / "test.npy", np.array(rows))
    with pytest.raises(kind, match=rf"test\.npy: {message}"):
        read_directory(arrays)


def test_fractions_need_continuous_variables(folder):
    rewrite(folder)
    np.save(folder / "test.npy", np.array([[0.5, 0.0]]))
    with pytest.raises(FormatError, match=r"test\.npy: the array: expected whole numbers, found"):
        read_directory(folder)


def test_arrays_of_something_else_are_refused(arrays):
    rewrite(arrays)
    np.savez(arrays / "objective.npz", kind=np.array("forest"))
    with pytest.raises(FormatError, match=r"objective\.npz: array 'kind': expected chow-liu or"):
        read_directory(arrays)
