"""Cost function networks as models: .wcsp and .cfn, read and written."""

import json

import numpy as np
import pytest

from cmpe import LogLinearModel, read_model, write_model
from cmpe.errors import InputError, TooLarge
from tests.formats.tables.networks import random_network, refused_file, same
from tests.problems import all_assignments, random_problem
from tests.refusals import refused

WCSP = "x 2 3 3 10\n2 3\n2 0 1 1 2\n0 2 10\n1 1 4\n1 1 0 1\n2 3\n0 5 0\n"
CFN = {
    "problem": {"name": "x", "mustbe": "<10.0"},
    "variables": {"a": ["no", "yes"], "b": 3},
    "functions": {
        "f": {"scope": ["a", "b"], "defaultcost": 1, "costs": ["no", 2, 10, 1, 1, 4.5]},
        "g": {"scope": [1], "costs": [0, 0, 3]},
        "k": {"scope": [], "costs": [5]},
    },
}


def test_wcsp_costs(tmp_path):
    (tmp_path / "m.wcsp").write_text(WCSP)
    model = read_model(tmp_path / "m.wcsp")
    rows = [[0, 0], [0, 2], [1, 1], [1, 2]]
    assert model.value(rows).tolist() == [-6.0, -np.inf, -9.0, -9.0]


def test_cfn_costs(tmp_path):
    (tmp_path / "m.cfn").write_text(json.dumps(CFN))
    model = read_model(tmp_path / "m.cfn")
    assert model.names == ("a", "b")
    rows = [[0, 0], [0, 2], [1, 1], [1, 2]]
    assert model.value(rows).tolist() == [-6.0, -np.inf, -9.5, -9.0]
    maximise = {**CFN, "problem": {"name": "x", "mustbe": ">0"}}
    (tmp_path / "m.cfn").write_text(json.dumps(maximise))
    assert read_model(tmp_path / "m.cfn").value([[1, 2]])[0] == 9.0


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("suffix", [".wcsp", ".cfn", ".cfn.gz"])
def test_round_trips(tmp_path, seed, suffix):
    model = random_problem(seed)[0].objective if seed % 2 else random_network(seed)
    write_model(model, tmp_path / f"m{suffix}")
    again = read_model(tmp_path / f"m{suffix}")
    assert again.cardinalities == model.cardinalities
    assert same(again, model, 1e-6 if suffix == ".wcsp" else 1e-12)
    if "cfn" in suffix and model.names:
        assert again.domain == model.domain


def test_toulbar2_finds_the_same_optimum(tmp_path):
    """Tables over at most three variables: toulbar2 1.4 adds costs of wider ones wrongly."""
    toulbar2 = pytest.importorskip("pytoulbar2")
    model = random_network(5, 3)
    write_model(model, tmp_path / "m.cfn")
    network = toulbar2.CFN()
    network.Read(str(tmp_path / "m.cfn"))
    _, cost, _ = network.Solve()
    assert -cost == pytest.approx(model.value(all_assignments(model.cardinalities)).max(), abs=1e-5)


def test_large_costs_are_refused(tmp_path):
    huge = LogLinearModel.from_tables([2], [((0,), [0.0, 1e300])])
    refused(lambda: write_model(huge, tmp_path / "m.wcsp"), "costs up to 1e", InputError)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("2 0 1 1 2", "9 0 1 1 2", "a variable from 0 to 1, found 2"),
        ("2 0 1 1 2", "2 0 1 1 -1", "the number of a function with shared costs, found -1"),
        ("2 0 1 1 2", "2 0 0 1 2", "distinct variables"),
        ("0 2 10", "0 3 10", "a value from 0 to 2, found '3'"),
        ("1 1 4", "1 1 x", "a cost, found 'x'"),
        ("0 5 0", "0 5", "the number of tuples"),
        ("x 2 3", "x 0 3", "the number of variables from 1"),
    ],
)
def test_hostile_wcsp(tmp_path, old, new, message):
    refused_file(tmp_path / "m.wcsp", WCSP.replace(old, new, 1), message)


def test_tables_that_cannot_be_held(tmp_path):
    (tmp_path / "m.wcsp").write_text("x 4 1000 1 9\n" + "1000 " * 4 + "\n4 0 1 2 3 0 0\n")
    with pytest.raises(TooLarge):
        read_model(tmp_path / "m.wcsp")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"problem": 3}, "field 'problem': expected an object or a list, found '3'"),
        (
            {"problem": {"mustbe": 3}},
            "field 'mustbe': expected '<' or '>' and a number of at most 30 decimals, found '3'",
        ),
        ({"problem": {"mustbe": "<--"}}, "field 'mustbe'"),
        (
            {"variables": {"a": 0}},
            "variable 'a': expected a number of states from 1 to 1048576, or a list of them",
        ),
        ({"variables": {"a": ["x", "x"]}}, "states must be distinct"),
        ({"functions": {"f": {"scope": ["z"], "costs": [1]}}}, "there is no 'z'"),
        (
            {"functions": {"f": {"scope": ["a"], "costs": [1]}}},
            "function 'f', line 1: expected one cost",
        ),
        ({"functions": {"f": {"scope": ["a"], "costs": ["x", 1]}}}, "one cost per entry"),
        (
            {"functions": {"f": {"scope": ["a"], "type": "salldiff", "costs": []}}},
            "function 'f', line 1: expected a list of params, found None",
        ),
        ({"functions": {"f": 3}}, "function '3': expected an object, found nothing"),
        (
            {"functions": {"f": {"scope": ["a"], "defaultcost": 0, "costs": [1]}}},
            "tuples of 2 items, 1 in all",
        ),
    ],
)
def test_hostile_cfn(tmp_path, change, message):
    refused_file(tmp_path / "m.cfn", json.dumps({**CFN, **change}), message)
