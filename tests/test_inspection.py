"""Facts of models, networks and problems, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from cmpe import Constraint, LogLinearModel, Problem, ProblemDirectory, learn_chow_liu
from cmpe.errors import ModelError
from cmpe.flip import adversarial
from cmpe.inspection import describe, describe_directory
from cmpe.models.relu import ReluNetwork
from cmpe.problem.problem import Form
from tests.models.tractable.test_branching import deep_network

MODEL = LogLinearModel.from_tables(
    (2, 3, 2, 2), [((0, 1), np.zeros((2, 3))), ((2,), [0.0, -np.inf]), ((), 1.0)]
)


def test_a_model():
    assert describe(MODEL) == {
        "variables": 4,
        "cardinalities": "2 to 3",
        "factors": 3,
        "factors by arity": {"0": 1, "1": 1, "2": 1},
        "table entries": 9,
        "zero potentials": 1,
        "edges": 1,
        "variables in no factor": 1,
        "components": 3,
        "induced width (found)": 1,
        "elimination memory, MiB": 0.0,
    }


def test_networks_and_trees():
    network = deep_network()
    facts = describe(network)
    assert facts["kind"] == "cutset network"
    assert (facts["leaves"], facts["depth"]) == (network.leaves, network.depth)
    tree = learn_chow_liu(np.random.default_rng(0).integers(0, 2, (20, 3)))
    assert describe(tree) == describe(tree.network)
    assert describe(tree)["kind"] == "Chow-Liu tree"
    assert describe(tree)["leaves"] == 1


def test_other_kinds_are_refused():
    with pytest.raises(ModelError, match="there is no description for a function of kind Form"):
        describe(Form.OTHER)


def test_a_directory_without_tables():
    network = ReluNetwork((np.ones((4, 3)), np.ones((2, 4))), (np.zeros(4), np.zeros(2)))
    problem = adversarial(network)
    facts = describe_directory(ProblemDirectory(problem, np.zeros((0, 3)), np.full((2, 3), 0.5)))
    assert (facts["kind"], facts["pairs"], facts["variables"]) == ("distance", 3, 6)
    assert (facts["evidence variables"], facts["free variables"]) == (3, 3)
    assert (facts["continuous variables"], facts["test rows"]) == (6, "2 (1 distinct)")
    assert "joint leaves" not in facts
    margin = describe(problem.constraints[0].function)
    assert (margin["kind"], margin["network"]) == ("class margin", "3-4-2")


def test_a_directory():
    problem = Problem(MODEL, (Constraint(MODEL, 1.5),), (1, 3), "few")
    rows = np.array([[0, 1], [0, 1], [2, 0]])
    facts = describe_directory(ProblemDirectory(problem, rows, rows[:1], {"recipe": {"seed": 7}}))
    assert facts["name"] == "few"
    assert facts["constraints"] == ["<= 1.5"]
    assert (facts["evidence variables"], facts["free variables"]) == (2, 2)
    assert facts["induced width given evidence"] == 0
    assert (facts["train rows"], facts["test rows"]) == ("3 (2 distinct)", "1 (1 distinct)")
    assert facts["recipe"] == {"seed": 7}


def test_a_directory_of_networks_counts_joint_leaves():
    network = deep_network()
    problem = Problem(network, (Constraint(network, 0.0),))
    none = np.zeros((1, 0), dtype=int)
    facts = describe_directory(ProblemDirectory(problem, none, none))
    assert facts["joint leaves"] == network.leaves
