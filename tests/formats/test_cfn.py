"""cfn: what toulbar2 itself reads and solves, against enumeration."""

from __future__ import annotations

import gzip
import itertools
import json
import math

import numpy as np
import pytest

from cmpe.errors import EvidenceError, InputError
from cmpe.formats.cfn import CostNetwork, write_cfn
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.problem import Constraint, Problem
from cmpe.solution import Status
from cmpe.solving import solve

SEEDS = range(60)


def random_model(generator, cards, count):
    """Tables of up to 4 variables; whole numbers (ties) or normal; a third with zero potentials."""
    factors = []
    for _ in range(count):
        arity = int(generator.integers(0, min(4, len(cards)) + 1))
        scope = tuple(int(v) for v in generator.choice(len(cards), arity, replace=False))
        shape = [cards[v] for v in scope]
        table = generator.normal(size=shape)
        if generator.random() < 0.4:
            table = np.rint(2 * table)
        if generator.random() < 0.3:
            table = np.where(generator.random(shape) < 0.3, -np.inf, table)
        factors.append(Factor(scope, table))
    return LogLinearModel(cards, tuple(factors))


def random_problem(seed):
    """Zero, one or two constraints, by seed; limits that are attained, or (seldom) cannot be."""
    generator = np.random.default_rng(seed)
    cards = tuple(int(k) for k in generator.integers(1, 4, int(generator.integers(2, 6))))
    objective = random_model(generator, cards, int(generator.integers(1, 6)))
    constraints = []
    for _ in range(seed % 3):
        function = random_model(generator, cards, int(generator.integers(1, 5)))
        some = np.stack([generator.integers(0, k, 40) for k in cards], axis=1)
        values = function.value(some)
        values = values[np.isfinite(values)]
        attained = generator.random() < 0.85 and len(values)
        constraints.append(
            Constraint(function, float(generator.choice(values)) if attained else -20.0)
        )
    observed = (0,) if generator.random() < 0.5 else ()
    return Problem(objective, tuple(constraints), observed, f"seed {seed}")


def first_values(problem):
    return dict.fromkeys(problem.evidence_variables, 0)


def read_and_solve(path):
    """toulbar2's own answer: (cost, free values), or None if there is none."""
    package = pytest.importorskip("pytoulbar2")
    target = package.CFN(None, 9, verbose=-1)
    try:
        target.Read(str(path))
        answer = target.Solve()
    except target.Contradiction:
        return None
    return None if answer is None else (answer[1], answer[0])


@pytest.mark.parametrize("seed", SEEDS)
def test_toulbar2_finds_the_optimum_in_the_file(tmp_path, seed):
    problem = random_problem(seed)
    evidence = first_values(problem)
    best = solve(problem, evidence, method="exhaustive")
    write_cfn(problem, tmp_path / "p.cfn", evidence)
    answer = read_and_solve(tmp_path / "p.cfn")
    if best.status[0] == Status.INFEASIBLE:
        assert answer is None
        return
    assert answer is not None
    cost, values = answer
    assert cost == pytest.approx(-best.objective[0], abs=1e-6)
    free = problem.conditioning.free
    full = problem.given(evidence).complete(np.array([values[: len(free)]]))
    assert problem.is_feasible(full)[0]
    assert problem.objective.value(full)[0] == pytest.approx(best.objective[0], abs=1e-6)


def test_the_seeds_cover_what_they_should():
    problems = [random_problem(seed) for seed in SEEDS]
    statuses = [solve(p, first_values(p), method="exhaustive").status[0] for p in problems]
    kinds = {(len(p.constraints), int(s)) for p, s in zip(problems, statuses, strict=True)}
    wanted = itertools.product((0, 1, 2), (Status.OPTIMAL, Status.INFEASIBLE))
    assert kinds == {(count, int(status)) for count, status in wanted}
    assert max(len(f.scope) for p in problems for m in p.functions for f in m.factors) == 4
    assert any(not m.is_finite for p in problems for m in p.functions)


def pair(limit=0.5):
    h = LogLinearModel((2, 2), (Factor((0, 1), np.array([[0.25, -1.5], [-np.inf, 2.0]])),))
    t = LogLinearModel((2, 2), (Factor((1,), np.array([-np.inf, 1.0])),))
    return Problem(h, (Constraint(t, limit),), name='a "name", modèle')


def test_the_file_is_json_with_both_networks(tmp_path):
    write_cfn(pair(), tmp_path / "p.cfn")
    network = json.loads((tmp_path / "p.cfn").read_bytes())
    assert network["problem"]["name"] == "a__name___mod_le"
    assert network["variables"] == {"z0": 2, "z1": 2}
    inner = network["functions"]["limit0"]["params"]["cfn"]
    assert inner["variables"] == network["variables"]
    assert read_and_solve(tmp_path / "p.cfn") == (-0.25, [0, 0])


def test_a_compressed_file_holds_the_same(tmp_path):
    for name in ("p.cfn", "p.cfn.gz"):
        write_cfn(pair(), tmp_path / name)
    assert (
        gzip.decompress((tmp_path / "p.cfn.gz").read_bytes()) == (tmp_path / "p.cfn").read_bytes()
    )


@pytest.mark.parametrize(("limit", "expected"), [(1.5, (-2.0, [])), (0.5, None)])
def test_evidence_on_every_variable(tmp_path, limit, expected):
    write_cfn(pair(limit).observing((0, 1)), tmp_path / "p.cfn", {0: 1, 1: 1})
    assert read_and_solve(tmp_path / "p.cfn") == expected


@pytest.mark.parametrize("limits", [(1.5,), (1.5, 2.0), (1.5, 0.5)])
def test_a_constraint_that_evidence_makes_constant(tmp_path, limits):
    constant = LogLinearModel((2,), (Factor((), np.array(1.0)),))
    constraints = tuple(Constraint(constant, limit) for limit in limits)
    write_cfn(Problem(LogLinearModel((2,)), constraints), tmp_path / "p.cfn")
    answer = read_and_solve(tmp_path / "p.cfn")
    assert (answer is None) == (min(limits) < 1)


def test_costs_are_whole_and_loose_enough():
    network = CostNetwork(pair().given(), 0)
    costs = dict(network.objective)
    assert costs["z0", "z1"] == [-0.25e9, 1.5e9, math.inf, -2e9]
    rounding = len(network.structure.scopes) / 2
    assert network.limits[0].limit >= (0.5 + 1e-6) * network.scale + rounding


def test_one_row_of_evidence_at_a_time(tmp_path):
    problem = pair().observing((0,))
    with pytest.raises(
        InputError, match=r"p\.cfn: a \.cfn file holds one row of evidence, found 2"
    ):
        write_cfn(problem, tmp_path / "p.cfn", [[0], [1]])
    with pytest.raises(EvidenceError, match="evidence must have 1 columns"):
        write_cfn(problem, tmp_path / "p.cfn")
    assert not (tmp_path / "p.cfn").exists()


def test_tables_beyond_toulbar2s_integers_are_refused(tmp_path):
    model = LogLinearModel((2,), (Factor((0,), np.array([0.0, -1e16])),))
    with pytest.raises(
        InputError, match=r"counts costs up to 1e\+15; these tables add up to 1e\+16"
    ):
        write_cfn(Problem(model), tmp_path / "p.cfn")
