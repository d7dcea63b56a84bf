"""Real networks from file to frame: named findings, two constraints, answers by name, all proved.

benchmarks/real_networks.py does this for every network that comes with pgmpy.
"""

import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks.real_networks import evidence, problems

import cmpe

FOUND = find_spec("pgmpy")
FOLDER = Path(FOUND.origin).parent / "utils" / "example_models" if FOUND and FOUND.origin else None
ROWS, CHECKED = 200, 2


@pytest.mark.skipif(FOLDER is None, reason="pgmpy is not installed")
@pytest.mark.parametrize("name", ["alarm", "insurance", "hepar2"])
def test_a_real_network(name):
    model = cmpe.read_model(FOLDER / f"{name}.bif.gz")
    rows = evidence(model, ROWS, seed=0)
    assert rows.isna().any().any()
    for question, problem in problems(model, seed=0).items():
        answers = cmpe.solve(problem, rows)
        assert set(answers.labels) <= {"optimal", "infeasible"}
        assert answers.labels.count("optimal") > 0
        frame = answers.to_frame()
        assert list(frame.columns[: model.variables]) == list(model.names)
        given = rows.notna().to_numpy()
        found = answers.feasible
        same = frame[rows.columns].to_numpy() == rows.to_numpy()
        assert (same | ~given)[found].all()
        check = cmpe.solve(problem, rows[:CHECKED], method="milp:highs", time_limit=30.0)
        assert check.labels == answers.labels[:CHECKED]
        np.testing.assert_allclose(check.objective, answers.objective[:CHECKED], atol=1e-5)
        if question == "constrained":
            assert (answers.violations[found] <= problem.tolerances).all()
            assert len(answers[0].constraints) == 2


def test_the_mpe_of_pyagrum():
    pyagrum = pytest.importorskip("pyagrum")
    network = pyagrum.fastBN("a->b<-c;b->d")
    named = cmpe.LogLinearModel.from_pyagrum(network)
    engine = pyagrum.LazyPropagation(network)
    engine.setEvidence({"a": 1})
    theirs = {name: int(value) for name, value in engine.mpe().todict().items()}
    ours = cmpe.solve(cmpe.Problem(named), {"a": 1})[0]
    value = named.value([[theirs[name] for name in named.names]])[0]
    assert ours.objective == pytest.approx(float(value), abs=1e-5)


def test_many_patterns_of_missing_values_are_charged():
    model = cmpe.LogLinearModel.from_tables(
        [2] * 12,
        [((v, v + 1), np.random.default_rng(v).normal(size=(2, 2))) for v in range(11)],
        [f"v{v}" for v in range(12)],
    )
    rng = np.random.default_rng(0)
    table = rng.integers(0, 2, (300, 12)).astype(object)
    table[rng.random((300, 12)) < 0.3] = None
    frame = pd.DataFrame(table, columns=model.names)
    cmpe.solve(cmpe.Problem(model), frame[:3])  # compiled code is loaded
    begin = time.perf_counter()
    answers = cmpe.solve(cmpe.Problem(model), frame)
    wall = time.perf_counter() - begin
    assert wall <= 2 * answers.seconds.sum() + 0.2
    assert set(answers.labels) == {"optimal"}
