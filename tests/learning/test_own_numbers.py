"""Trained networks and rows with potentials and limits of their own."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings

import cmpe
from cmpe import Problem
from cmpe.errors import EvidenceError, FormatError, MethodError
from cmpe.generation import grid
from cmpe.learning.networks.reading import MOST, Reads
from cmpe.learning.prediction import Predictor
from cmpe.learning.solver import NeuralSolver
from cmpe.problem import Instances
from cmpe.problem.rows import Rows
from tests.learning.amortised.cases import posed
from tests.learning.amortised.cases import solver as amortised
from tests.learning.cases import quick, untrained
from tests.problems import Shape, random_problem, seeds
from tests.refusals import refused
from tests.solvers.test_own_numbers import truth

ROWS = 12
AREA = cmpe.count(dict.fromkeys(range(6), 1), name="area")
GRID = Problem(grid(2, 3, seed=1), [AREA <= 6], (0,))


def numbers(problem, seed, rows=ROWS):
    """Evidence (B, |X|), potentials of all variables and a pair, limits (B, m)."""
    rng = np.random.default_rng([seed, 3])
    cards = problem.domain.cardinalities
    evidence = np.stack(
        [rng.integers(0, cards[v], rows) for v in problem.evidence_variables] or [np.zeros(rows)],
        axis=1,
    )[:, : len(problem.evidence_variables)].astype(int)
    potentials = {v: rng.normal(size=(rows, k)) for v, k in enumerate(cards)}
    if len(cards) > 1:
        potentials[0, 1] = rng.normal(size=(rows, *cards[:2]))
    for table in potentials.values():
        table[rng.random(table.shape) < 0.1] = -np.inf
    points = np.stack([rng.integers(0, k, rows) for k in cards], axis=1)
    limits = problem.constraint_values(points)
    limits[~np.isfinite(limits)] = -3.0
    return evidence, potentials, limits * problem.signs


def lifted(rows):
    """Rows of `GRID` as those of their lifted problem."""
    return Instances(rows.lifted.observing([0, 6]), rows.numbered(rows.evidence)[:, [0, 6]])


def check(problem, found, evidence, potentials, limits):
    """No answer is above the truth, no bound below it, and statuses say what holds."""
    full = np.full((len(found), problem.variables), -1)
    full[:, list(problem.evidence_variables)] = evidence
    own = None if limits is None else limits * problem.signs
    best = np.array(truth(problem, full, potentials, own))
    value = np.where(found.feasible, found.objective, -np.inf)
    assert (value <= best + 1e-9).all()
    assert (found.bound >= best - 1e-9).all()
    assert np.isneginf(best[found.status == cmpe.Status.INFEASIBLE]).all()
    np.testing.assert_allclose(value[found.proved], best[found.proved], atol=1e-6)


@settings(max_examples=30)
@given(seeds)
def test_networks_that_read_none_answer_honestly(seed):
    problem, _ = random_problem(seed, Shape(constraints=2, variables=5))
    evidence, potentials, limits = numbers(problem, seed)
    solver = untrained(problem, seed % 1000)
    own = {"potentials": potentials, "limits": limits if problem.constraints else None}
    found = solver.solve(problem, evidence, **own)
    check(problem, found, evidence, potentials, own["limits"])
    again = cmpe.solve(problem, evidence, method=solver, **own)
    np.testing.assert_array_equal(found.assignments, again.assignments)


@pytest.mark.parametrize("loss", ["ss_cmpe", "distill"])
def test_networks_read_what_they_are_trained_with(loss, tmp_path):
    evidence, potentials, limits = numbers(GRID, 1, rows=60)
    own = {"potentials": potentials, "limits": {"area": limits[:, 0]}}
    solver = cmpe.fit(GRID, evidence, quick(loss), **own)
    assert solver.trained.reads.scopes == ((0,), (0, 1), (1,), (2,), (3,), (4,), (5,))
    assert len(solver.trained.reads.limits) == 1
    solver.save(tmp_path)
    again = NeuralSolver.load(tmp_path, GRID)
    evidence, potentials, limits = numbers(GRID, 2)
    own = {"potentials": potentials, "limits": limits}
    found = again.solve(GRID, evidence, **own)
    check(GRID, found, evidence, potentials, limits)
    np.testing.assert_array_equal(found.assignments, solver.predict(evidence, **own).assignments)
    blocks = [
        Rows.of(GRID, evidence, **own),
        Rows.of(GRID, evidence, limits=limits),
        Rows.of(GRID, evidence, potentials),
    ]
    asked = map(lifted, blocks)
    read = [Predictor(each.problem, solver.trained).relaxed(each)[0] for each in asked]
    assert not np.allclose(read[0], read[1])
    assert not np.allclose(read[0], read[2])
    check(GRID, solver.solve(GRID, evidence), evidence, {}, None)


def test_modules_and_soft_evidence():
    evidence, potentials, limits = numbers(GRID, 3, rows=30)
    width = 1 + 6 + 3 + 1  # evidence, potentials of each variable and of a pair, a limit
    module = torch.nn.Linear(width, 5)
    solver = cmpe.fit(GRID, evidence, quick(), network=module, potentials=potentials, limits=limits)
    found = solver.solve(GRID, evidence, potentials=potentials, limits=limits)
    check(GRID, found, evidence, potentials, limits)
    rows = [{0: 1, 1: [0.2, 0.8]}, {0: 0, 1: [0.6, 0.4]}] * 10
    soft = cmpe.fit(GRID, rows, quick())
    assert soft.trained.reads.scopes == ((1,),)
    check(GRID, soft.predict(rows[:2]), [[1], [0]], {1: np.log([[0.2, 0.8], [0.6, 0.4]])}, None)


def test_messages_read_limits():
    problem, solver = posed().observing(()), amortised()
    rng = np.random.default_rng(0)
    points = rng.integers(0, 2, (3, problem.variables))
    potentials = {v: rng.normal(size=(3, 2)) for v in range(0, problem.variables, 2)}
    seen = {0: [0, 1, 1], 5: [1, 0, 1], 7: [1, 1, 0], 12: [0, 0, 0]}
    points[:, list(seen)] = np.transpose(list(seen.values()))
    limits = problem.constraint_values(points)
    found = solver.solve(problem, seen, potentials=potentials, limits=limits)
    best = cmpe.solve(problem, seen, potentials=potentials, limits=limits)
    assert found.feasible.all()
    assert (found.objective <= best.objective + 1e-9).all()
    assert (found.bound >= best.objective - 1e-9).all()


def test_numbers_are_relative_and_cut_off():
    rows = Rows.of(GRID, [1], {1: [[2.0, 5.0]], 2: [[-np.inf, 0.0]]}, {"area": [3.0]})
    reads = Reads(((1,), (2,), (3,)), ((4.0, 0.5),))
    assert reads.numbers(GRID, rows, 1).tolist() == [[3.0, MOST, 0.0, -2.0]]
    assert reads.numbers(GRID, None, 2).tolist() == [[0.0, 0.0, 0.0, 4.0]] * 2
    assert Reads.from_json(reads.to_json()["reads"]) == reads
    assert Reads.of(Rows.of(GRID, [1])) == Reads()


def test_mistakes(tmp_path):
    evidence, potentials, limits = numbers(GRID, 1)
    refused(
        lambda: cmpe.fit(GRID, evidence, quick(rows=100), potentials=potentials),
        "found 100 to draw",
        MethodError,
    )
    refused(
        lambda: cmpe.fit(GRID, None, quick(), potentials=potentials),
        "evidence must have 1 columns",
        EvidenceError,
    )
    solver = cmpe.fit(GRID, evidence, quick(epochs=1), limits=limits)
    solver.save(tmp_path)
    config = (tmp_path / "config.json").read_text()
    (tmp_path / "config.json").write_text(config.replace('"scopes": []', '"scopes": 3'))
    refused(lambda: NeuralSolver.load(tmp_path, GRID), "a trained solver", FormatError)
