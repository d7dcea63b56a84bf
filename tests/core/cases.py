"""Small random problems for kernels: their arrays, and every assignment with its values."""

from __future__ import annotations

import math
from typing import Self

import numpy as np
from hypothesis import settings

from cmpe import LogLinearModel, Problem
from cmpe.bounds.base import loosened_limits, row_tables
from cmpe.bounds.descent import RelaxedRow
from cmpe.bounds.minibucket import MiniBucket
from cmpe.core.compiler.fence import IS_COMPILED
from cmpe.core.moves import DROP, FORBIDDEN, Notes, Point
from cmpe.solvers.local.graph import Rules, compiled
from tests.problems import Shape, all_assignments, completions, random_constraint, random_model

# Uncompiled loops are hundreds of times slower.
SMALL = Shape() if IS_COMPILED else Shape(variables=4, values=3, arity=3, factors=5)


def examples(count: int) -> settings:
    """Try so many random cases, and a fifth of them where nothing is compiled."""
    return settings(max_examples=count if IS_COMPILED else max(8, count // 5))


def plain_values(model: LogLinearModel, z: np.ndarray) -> np.ndarray:
    """The sum of the model's tables at each row of z (N, n), by numpy alone."""
    total = np.zeros(len(z))
    for factor in model.factors:
        total = total + factor.log_table[tuple(z[:, v] for v in factor.scope)]
    return total


def random_case(
    seed: int, shape: Shape = SMALL, least: int = 1
) -> tuple[Problem, np.ndarray, np.random.Generator]:
    """A problem, rows of evidence of at most half its variables, and random numbers."""
    rng = np.random.default_rng(seed)
    count = int(rng.integers(least, shape.variables + 1))
    cards = [int(k) for k in rng.integers(1, shape.values + 1, count)]
    constraints = tuple(
        random_constraint(rng, cards, shape)
        for _ in range(int(rng.integers(0, shape.constraints + 1)))
    )
    observed = rng.choice(count, int(rng.integers(0, count // 2 + 1)), replace=False)
    problem = Problem(random_model(rng, cards, shape), constraints, observed.tolist())
    rows = [rng.integers(0, cards[v], 3) for v in observed]
    return problem, np.array(rows, dtype=int).T if rows else np.zeros((1, 0), dtype=int), rng


class Case:
    """A problem with rows of evidence."""

    def __init__(self, problem: Problem, evidence: np.ndarray, rng: np.random.Generator) -> None:
        self.problem, self.rng = problem, rng
        self.instances = problem.given(evidence)
        self.structure = self.instances.conditioning

    @classmethod
    def random(cls, seed: int, shape: Shape = SMALL, least: int = 1) -> Self:
        """A random one, of at least so many variables."""
        return cls(*random_case(seed, shape, least))

    def tables(self, which: int) -> np.ndarray:
        """The entries of function `which` that evidence leaves: (E, B)."""
        rows = self.structure.tables(which, self.instances.evidence)
        return np.ascontiguousarray(rows.T)

    def every(self, row: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All assignments z (N, n) of a row, their h (N,) and their t (N, m)."""
        z = completions(self.instances, row)
        h, *t = (plain_values(model, z) for model in self.problem.models)
        return z, h, np.stack(t, axis=1) if t else np.zeros((len(z), 0))

    def of_choice(self, row: int, choice: np.ndarray) -> np.ndarray:
        """The assignment of a row whose bucket variables have the values of `choice` (K,)."""
        z = self.instances.full()[row].copy()
        z[z < 0] = 0
        z[self.problem.compiled_plan.buckets[:, 0]] = choice
        return z


class Relaxed(Case):
    """A random problem with a relaxation by copies, and every assignment of the copies."""

    def __init__(self, seed: int) -> None:
        super().__init__(*random_case(seed, Shape(6, 3, 3, 14), least=4))
        for i_bound in (1, 2, 3):
            self.relaxation = MiniBucket(i_bound).relaxation(self.structure)
            buckets = self.relaxation.plan.buckets
            self.cards = self.relaxation.plan.cardinalities
            used = [b.variable for b in buckets]
            if math.prod(self.cards[v] for v in used) <= 3000:
                break
        self.relaxed = self.relaxation.compiled
        variables = iter(used)
        self.eliminated = [next(variables) if v >= 0 else -1 for v in self.relaxation.decided]
        sizes = [self.cards[v] if v in used else 1 for v in range(len(self.cards))]
        self.z = all_assignments(sizes)
        self.row = RelaxedRow(self.relaxation, loosened_limits(self.instances))

    def begin(self, row: int, *, even: bool = True) -> RelaxedRow:
        """The arrays of a row, with its tables loaded."""
        self.row.begin(row_tables(self.instances, slice(row, row + 1))[0], even)
        return self.row

    def plain(self, values: np.ndarray) -> np.ndarray:
        """The sum of all tables at each assignment of the copies."""
        total, at = np.full(len(self.z), values[0]), 0
        for i, scope in enumerate(self.relaxation.plan.scopes):
            shape = [self.cards[v] for v in scope]
            own = self.relaxation.structure_scopes
            size = (
                math.prod(shape)
                if scope or i >= len(own)
                else math.prod(self.structure.cardinalities[v] for v in own[i])
            )
            if scope:
                table = values[at : at + size].reshape(shape)
                total = total + table[tuple(self.z[:, v] for v in scope)]
            at += size
        return total


class Moving(Case):
    """A random problem as the moves of `local` see it."""

    def __init__(self, problem: Problem, evidence: np.ndarray, rng: np.random.Generator) -> None:
        super().__init__(problem, evidence, rng)
        self.graph, self.gather = compiled(self.structure)
        self.rules = Rules.of(self.problem)
        self.free = list(self.structure.free)

    def start(self) -> np.ndarray:
        """A random assignment of every row: (B, n)."""
        cards = [self.problem.models[0].cardinalities[v] for v in self.free]
        rows = self.rng.integers(0, cards, (len(self.instances), len(self.free)))
        return self.instances.complete(rows)

    def point(self, row: int, z: np.ndarray) -> tuple[Point, Notes]:
        """Room for a search of a row that starts at z (n,)."""
        zeros, slots, free = self.rules.zeros, len(self.graph.owner), len(self.free)
        channels = max(len(zeros), int(zeros.max()) + 1)
        channels += channels % 2
        values = np.zeros((int(self.graph.offsets[-1]), channels))
        for k, counted in enumerate(zeros):
            table = self.tables(k)[:, row]
            values[:, k] = np.where(np.isneginf(table), 0.0, table)
            if counted >= 0:
                values[:, counted] = np.isneginf(table)
        at = z[self.free].astype(np.uint64)
        position = np.zeros(len(self.graph.offsets) - 1, dtype=np.uint64)
        point = Point(values, at, position, np.zeros(channels), np.zeros((slots + 1, channels)))
        trail, marked = np.zeros((2, free), dtype=np.uint64), np.zeros(free, dtype=np.bool_)
        state = np.array([12345], dtype=np.uint64)
        return point, Notes(np.zeros(slots, np.int64), at.copy(), trail, marked, state)

    def channels(self, row: int, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of h and every t at z (N, n): the finite part, and how many entries are -inf."""
        finite, zeros = np.zeros((2, len(z), len(self.problem.models)))
        offsets, cards = self.structure.layout.offsets, self.structure.cardinalities
        for k in range(len(self.problem.models)):
            own = self.tables(k)[:, row]
            for f, scope in enumerate(self.structure.scopes):
                table = own[offsets[f] : offsets[f + 1]].reshape([cards[v] for v in scope])
                entries = table[tuple(z[:, v] for v in scope)]
                finite[:, k] += np.where(np.isneginf(entries), 0.0, entries)
                zeros[:, k] += np.isneginf(entries)
        return finite, zeros

    def penalties(self, row: int, z: np.ndarray) -> np.ndarray:
        """How far assignments (N, n) are from feasible, by the rules of repair."""
        finite, zeros = self.channels(row, z)
        over = self.rules.weights * (finite[:, 1:] - self.rules.limits)
        over[(zeros[:, 1:] > 0) | (over <= DROP)] = 0.0
        return FORBIDDEN * zeros[:, 0] + over.sum(axis=1)

    def neighbours(self, z: np.ndarray) -> np.ndarray:
        """The assignments that differ from z (n,) in one free variable."""
        cards = self.problem.models[0].cardinalities
        rows = [(v, a) for v in self.free for a in range(cards[v]) if a != z[v]]
        out = np.repeat(z[np.newaxis], len(rows), axis=0)
        for row, (v, a) in zip(out, rows, strict=True):
            row[v] = a
        return out
