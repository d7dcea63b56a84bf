import numpy as np

import cmpe
from cmpe.generation import grid
from cmpe.inspection import describe, describe_branches, describe_directory, describe_evidence
from tests.problems import random_cutset, worked_example


def test_a_model():
    tables = [cmpe.Factor((0, 1), [[0.0, -np.inf], [1.0, 2.0]]), cmpe.Factor((2,), np.zeros(3))]
    facts = describe(cmpe.LogLinearModel((2, 2, 3, 2), tuple(tables)))
    assert facts["variables"] == 4
    assert facts["cardinalities"] == "2 to 3"
    assert facts["factors by arity"] == {"1": 1, "2": 1}
    assert facts["table entries"] == 7
    assert facts["zero potentials"] == 1
    assert facts["edges"] == 1
    assert facts["variables in no factor"] == 1
    assert facts["components"] == 3
    assert facts["induced width (found)"] == 1


def test_equal_cardinalities_are_one_number():
    assert describe(grid(3, 3))["cardinalities"] == "2"


def test_networks():
    network = random_cutset(7, variables=4)
    facts = describe(network)
    assert facts["leaves"] == network.leaves
    assert facts["depth"] == network.depth
    rows = np.random.default_rng(0).integers(0, 2, (50, 3))
    assert describe(cmpe.learn_chow_liu(rows))["kind"] == "Chow-Liu tree"


def test_what_evidence_leaves():
    facts = describe_evidence(worked_example())
    assert facts["evidence variables"] == 2
    assert facts["free variables"] == 2
    assert facts["components given evidence"] == 1
    assert facts["induced width given evidence"] == 1


def test_joint_leaves():
    network = random_cutset(7, variables=4)
    problem = cmpe.Problem(network, (cmpe.Constraint(network, 0.0),))
    assert describe_branches(problem)["joint leaves"] == len(problem.branches)


def test_a_directory():
    rows = np.array([[0, 1], [0, 1], [1, 1]], np.int32)
    facts = describe_directory(cmpe.ProblemDirectory(worked_example(), rows, rows[:1]))
    assert facts["constraints"] == ["<= 20.0"]
    assert facts["train rows"] == "3 (2 distinct)"
    assert facts["test rows"] == "1 (1 distinct)"
    assert facts["evidence variables"] == 2
