"""Problems shared by the tests: the worked example, and random small ones full of awkward cases."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from benchmarks.campaign.cases import random_forests
from hypothesis import strategies as st

from cmpe import (
    Constraint,
    CutsetNetwork,
    Factor,
    Instances,
    Limits,
    LogLinearModel,
    MultilinearPolynomial,
    Problem,
)

# The worked example of docs/mathematics.md: x1, x2, y1, y2 are variables 0, 1, 2, 3.
WORKED_H = MultilinearPolynomial(
    4,
    {(): 18, (0,): -3, (1,): 1, (2,): -7, (3,): -1, (0, 2): 5, (1, 3): -4, (2, 3): -1},
)
WORKED_T = MultilinearPolynomial(
    4, {(): 28, (0,): 2, (1,): -7, (2,): -4, (3,): -2, (0, 2): 2, (1, 3): -1}
)


def worked_example() -> Problem:
    return Problem(WORKED_H.to_model(), (Constraint(WORKED_T.to_model(), 20.0),), (0, 1))


@dataclass(frozen=True)
class Shape:
    """How awkward a random problem may be."""

    variables: int = 5
    values: int = 4
    arity: int = 4
    factors: int = 6
    constraints: int = 2
    zeros: bool = True


def random_model(rng: np.random.Generator, cards: list[int], shape: Shape) -> LogLinearModel:
    """Factors of mixed arity; half the tables are small whole numbers, so that ties are common."""
    factors = []
    for _ in range(int(rng.integers(0, shape.factors + 1))):
        arity = int(rng.integers(0, min(shape.arity, len(cards)) + 1))
        scope = tuple(int(v) for v in rng.choice(len(cards), arity, replace=False))
        size = [cards[v] for v in scope]
        table = (
            rng.integers(-3, 4, size).astype(float) if rng.random() < 0.5 else rng.normal(size=size)
        )
        if shape.zeros and rng.random() < 0.3:
            table = np.where(rng.random(size) < 0.3, -np.inf, table)
        factors.append(Factor(scope, table))
    return LogLinearModel(tuple(cards), tuple(factors))


def random_problem(seed: int, shape: Shape | None = None) -> tuple[Problem, np.ndarray]:
    """A problem and up to three rows of evidence: ties at q, infeasible rows, no constraint, ..."""
    shape = shape or Shape()
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, shape.variables + 1))
    cards = [int(k) for k in rng.integers(1, shape.values + 1, count)]
    constraints = tuple(
        random_constraint(rng, cards, shape)
        for _ in range(int(rng.integers(0, shape.constraints + 1)))
    )
    observed = tuple(
        int(v) for v in rng.choice(count, int(rng.integers(0, count + 1)), replace=False)
    )
    problem = Problem(random_model(rng, cards, shape), constraints, observed)
    rows = 3 if observed else 1
    evidence = np.zeros((rows, len(observed)), dtype=int)
    for column, variable in enumerate(observed):
        evidence[:, column] = rng.integers(0, cards[variable], rows)
    return problem, evidence


def random_constraint(rng: np.random.Generator, cards: list[int], shape: Shape) -> Constraint:
    """q is usually the value of some assignment: a tie; sometimes too low for any."""
    function = random_model(rng, cards, shape)
    values = function.value(np.stack([rng.integers(0, k, 40) for k in cards], axis=1))
    finite = values[np.isfinite(values)]
    if not len(finite) or rng.random() < 0.1:
        return Constraint(function, -30.0)
    return Constraint(function, float(rng.choice(finite)))


seeds = st.integers(0, 2**32 - 1)


def completions(instances: Instances, row: int) -> np.ndarray:
    """Every full assignment that agrees with the evidence of a row."""
    cards = instances.problem.objective.cardinalities
    free = instances.conditioning.free
    values = np.array(list(itertools.product(*(range(cards[v]) for v in free))), dtype=int)
    repeated = instances.evidence[row : row + 1].repeat(len(values), axis=0)
    return Instances(instances.problem, repeated).complete(values.reshape(len(values), len(free)))


def random_cutset(seed: int, *, variables: int = 5, values: int = 3) -> CutsetNetwork:
    """A small cutset network: mixed cardinalities, zeros, forests, paths of different lengths."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, variables + 1))
    return network_over(rng, [int(k) for k in rng.integers(1, values + 1, count)])


def network_over(
    rng: np.random.Generator, cards: list[int], *, zeros: bool = True
) -> CutsetNetwork:
    """A random network of the given variables; unnormalised, half of them with zeros."""
    contexts = random_contexts(rng, cards, np.full(len(cards), -1), int(rng.integers(0, 4)))
    shape = (len(contexts), len(cards))
    parents = random_forests(rng, contexts)
    tables = rng.normal(size=(*shape, max(cards), max(cards)))
    weights = rng.normal(size=len(contexts))
    if zeros and rng.random() < 0.5:
        tables[rng.random(tables.shape) < 0.15] = -np.inf
        weights[rng.random(len(weights)) < 0.1] = -np.inf
    return CutsetNetwork(tuple(cards), contexts, weights, parents, tables)


def random_contexts(
    rng: np.random.Generator, cards: list[int], context: np.ndarray, depth: int
) -> np.ndarray:
    """The contexts of a random OR tree below `context`."""
    free = np.flatnonzero(context < 0)
    if depth == 0 or not len(free) or rng.random() < 0.2:
        return context[np.newaxis]
    variable = int(rng.choice(free))
    parts = []
    for value in range(cards[variable]):
        below = context.copy()
        below[variable] = value
        parts.append(random_contexts(rng, cards, below, depth - 1))
    return np.concatenate(parts)


def all_assignments(cards: Sequence[int]) -> np.ndarray:
    """Every assignment, (N, n)."""
    return np.array(list(itertools.product(*(range(k) for k in cards))), dtype=np.int32)


def random_network_problem(seed: int) -> tuple[Problem, np.ndarray]:
    """`random_problem` with a cutset network for at least one of its functions."""
    problem, evidence = random_problem(seed)
    rng = np.random.default_rng(seed)
    cards = list(problem.objective.cardinalities)
    functions = list(problem.functions)
    chosen = int(rng.integers(0, len(functions)))
    for number in range(len(functions)):
        if number == chosen or rng.random() < 0.5:
            functions[number] = network_over(rng, cards)
    constraints = []
    for function in functions[1:]:
        values = function.value(all_assignments(cards))
        finite = values[np.isfinite(values)]
        limit = float(rng.choice(finite)) if len(finite) and rng.random() < 0.9 else -30.0
        constraints.append(Constraint(function, limit))
    return Problem(functions[0], tuple(constraints), problem.evidence_variables), evidence


def random_start(problem: Problem, rows: int, seed: int) -> np.ndarray:
    """Assignments (rows, n), evidence variables too."""
    rng = np.random.default_rng(seed)
    cards = problem.objective.cardinalities
    return np.stack([rng.integers(0, k, rows) for k in cards], axis=1).astype(np.int32)


def assert_no_worse(problem: Problem, start: np.ndarray, *answers: np.ndarray) -> None:
    """Where a row of `start` is feasible, those of `answers` are too, and lose no h."""
    good = problem.is_feasible(start)
    before = problem.objective.value(start)[good]
    for rows in answers:
        assert problem.is_feasible(rows)[good].all()
        assert (problem.objective.value(rows)[good] >= before - 1e-9).all()


def ask(engine, problem, evidence=None, *, time_limit=None, seed=0, gap=0.0, running=None):
    """What an engine says without the door of `cmpe.solve` around it: equal rows stay apart."""
    limits = Limits.of(running, seconds=time_limit, seed=seed, gap=gap)
    return engine.answer(problem.given(evidence), limits)


def problem_of_magnitudes(seed: int) -> Problem:
    """Tables whose entries range from 1e-9 to 1e9, some of which cancel; q is attained, or nearly.

    Large entries have three decimals, as where someone multiplied by a large number.
    """
    rng = np.random.default_rng([seed, 9])
    cards = [int(k) for k in rng.integers(2, 4, int(rng.integers(1, 5)))]
    points = np.stack([rng.integers(0, k, 60) for k in cards], axis=1)
    constraints = []
    for _ in range(int(rng.choice([1, 1, 2]))):
        function = _model_of_magnitudes(rng, cards)
        values = np.sort(function.value(points))
        limit = values[int(rng.choice([0.0, 0.0, 0.1, 0.3, 0.6]) * len(values))]
        constraints.append(Constraint(function, limit + rng.choice([0.0, 0.0, 1e-6, -2e-6])))
    whole = rng.random() < 0.7
    objective = random_model(rng, cards, Shape(arity=2, zeros=False)) if whole else None
    return Problem(objective or _model_of_magnitudes(rng, cards), tuple(constraints))


def _model_of_magnitudes(rng: np.random.Generator, cards: list[int]) -> LogLinearModel:
    small = rng.random() < 0.3
    factors = []
    for _ in range(int(rng.integers(1, 5))):
        arity = int(rng.integers(1, min(3, len(cards)) + 1))
        scope = tuple(int(v) for v in rng.choice(len(cards), arity, replace=False))
        size = [cards[v] for v in scope]
        exponents = rng.uniform(-9, 9, size) if small else rng.choice([0, 3, 6, 7.5, 9], size)
        table = rng.normal(size=size) * 10.0**exponents
        table = table if small else np.round(table, 3)
        factors.append(Factor(scope, table))
        if rng.random() < 0.3:
            factors.append(Factor(scope, -table + np.round(rng.normal(size=size), 3)))
    return LogLinearModel(tuple(cards), tuple(factors))
