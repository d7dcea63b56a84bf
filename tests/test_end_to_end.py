"""Real networks from file to frame: named findings, two constraints, answers by name, certified.

The dear ones have few rows here; benchmarks/real_networks.py asks up to 200 of every network that
comes with pgmpy. pyAgrum's MPE answers two of the six, and fails on the others ("Empty tensor", or
no memory): there its network must give our answers the same probability, and HiGHS, toulbar2 where
HiGHS takes too long, must find the same objective.
"""

import warnings

import numpy as np
import pytest
from benchmarks.real_networks import evidence, folder, problems, pyagrum_mpe, pyagrum_network

import cmpe

pytest.importorskip("pgmpy")
pytest.importorskip("pyagrum")
PROVED = {"optimal", "infeasible"}


def asked(name, rows):
    """The file, the network in it, and rows of a frame with 20 named findings and gaps."""
    file = folder() / f"{name}.bif.gz"
    model = cmpe.read_model(file)
    frame = evidence(model, max(rows, 4), seed=0)[:rows]
    assert frame.shape == (rows, 20)
    return file, model, frame


def check_names(model, rows, answers):
    """Names and states come back, and findings are kept."""
    frame = answers.to_frame()
    assert list(frame.columns[: model.variables]) == list(model.names)
    known = rows.notna().to_numpy() & answers.feasible[:, np.newaxis]
    columns = frame[rows.columns].to_numpy().astype(str)  # whole numbers come back as numbers
    assert (columns == rows.to_numpy().astype(str))[known].all()


def check_probability(file, model, answers):
    """pyAgrum's own network gives an answer, by its names, the same logarithm."""
    network = pyagrum_network(file)
    logs = [
        sum(
            np.log(network.cpt(name)[{u: str(states[u]) for u in network.cpt(name).names}])
            for name in network.names()
        )
        for states in (dict(answers[i]) for i in np.flatnonzero(answers.feasible)[:2])
    ]
    np.testing.assert_allclose(logs, answers.objective[answers.feasible][:2], atol=1e-4)


@pytest.mark.parametrize(("name", "rows"), [("alarm", 200), ("insurance", 200), ("hepar2", 200)])
def test_a_network_with_and_without_constraints(name, rows):
    file, model, frame = asked(name, rows)
    assert frame.isna().any().any()
    for question, problem in problems(model, seed=0).items():
        answers = cmpe.solve(problem, frame)
        assert set(answers.labels) <= PROVED
        assert answers.feasible.any()
        check_names(model, frame, answers)
        check = cmpe.solve(problem, frame[:3], method="milp:highs", time_limit=30.0)
        assert check.labels == answers.labels[:3]
        np.testing.assert_allclose(check.objective, answers.objective[:3], atol=1e-5)
        if question == "mpe":
            check_probability(file, model, answers)
        else:
            assert (answers.violations[answers.feasible] <= problem.tolerances).all()
            assert len(answers[0].constraints) == 2


@pytest.mark.parametrize(
    ("name", "rows", "other"),
    [("munin1", 8, "milp:highs"), ("link", 3, "toulbar2"), ("diabetes", 1, None)],
)
def test_the_mpe_of_a_large_network(name, rows, other):
    file, model, frame = asked(name, rows)
    problem = cmpe.Problem(model)
    answers = cmpe.solve(problem, frame)
    assert set(answers.labels) == {"optimal"}
    check_names(model, frame, answers)
    check_probability(file, model, answers)
    if other is not None:
        pytest.importorskip("highspy" if other == "milp:highs" else "pytoulbar2")
        check = cmpe.solve(problem, frame[:1], method=other, time_limit=30.0)
        assert check.objective[0] == pytest.approx(answers.objective[0], abs=1e-4)


@pytest.mark.parametrize("name", ["munin1", "link", "diabetes"])
def test_a_large_network_under_two_constraints(name):
    """Within its limit a row has an answer below its bound, or, on a busy machine, none yet."""
    _, model, frame = asked(name, 1)
    problem = problems(model, seed=0)["constrained"]
    answers = cmpe.solve(problem, frame, time_limit=4.0)
    (answer,) = answers
    assert answers.labels[0] in {*PROVED, "feasible", "unknown"}
    if answers.feasible[0]:
        assert answer.objective <= answer.bound
        assert (answers.violations <= problem.tolerances).all()
        check_names(model, frame, answers)


@pytest.mark.parametrize("name", ["alarm", "insurance"])
def test_the_mpe_of_pyagrum(name):
    file, model, frame = asked(name, 3)
    ours = cmpe.solve(cmpe.Problem(model), frame)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = pyagrum_mpe(file, model.to_model(), frame)
    np.testing.assert_allclose(ours.objective, theirs, atol=1e-5)
