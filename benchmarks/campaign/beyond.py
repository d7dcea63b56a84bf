"""Functions without tables, variables in [0, 1]: methods against random points and each other.

Nothing enumerates these. A random feasible point is a lower bound on the truth, and so is every
answer that is feasible; no bound may be below them, and no optimum.
"""

from __future__ import annotations

import itertools
import traceback
from collections.abc import Sequence
from typing import Any

import numpy as np

import cmpe
from benchmarks.campaign.journal import Journal
from cmpe.arrays import Floats
from cmpe.errors import CmpeError

METHODS = ("auto", "local", "milp")
POINTS = 300
CLOSE = 1e-5  # relative to max(1, |h|)


def unit(rng: np.random.Generator, journal: Journal) -> None:
    """One problem of either kind, with two rows."""
    problem = flip_problem(rng) if rng.random() < 0.5 else continuous_problem(rng)
    kind = "flips" if cmpe.Distance in map(type, problem.functions) else "continuous"
    rows = rng.random((2, len(problem.evidence_variables)))
    journal.count(f"problems: {kind}")
    answers: dict[str, Any] = {}
    for method in METHODS:
        try:
            answers[method] = cmpe.solve(problem, rows, method=method, time_limit=10.0)
        except CmpeError as error:
            if "at most one free continuous variable" in str(error):  # products: milp refuses
                continue
            journal.find("wrong", f"{kind}, {method}: {error}\n{told(problem, rows)}")
        except Exception:
            about = f"{kind}, {method}: {traceback.format_exc(limit=-3)}\n{told(problem, rows)}"
            journal.find("leak", about)
    for row in range(len(rows)):
        journal.count("row-by-method checks", len(answers))
        journal.count("rows")
        here = {method: answer.take(np.array([row])) for method, answer in answers.items()}
        for sentence in judged(rng, problem, rows[row], here):
            journal.find("wrong", f"{kind}, row {row}: {sentence}\n{told(problem, rows)}")


def flip_problem(rng: np.random.Generator) -> cmpe.Problem:
    """The nearest input of another class, for a small ReLU network."""
    inputs, hidden, classes = (int(rng.integers(1, k)) for k in (4, 5, 4))
    sizes = [inputs, hidden, max(2, classes)]
    weights = tuple(rng.normal(size=(b, a)) for a, b in itertools.pairwise(sizes))
    return cmpe.queries.adversarial(
        cmpe.ReluNetwork(weights, tuple(rng.normal(size=b) * 0.3 for b in sizes[1:]))
    )


def continuous_problem(rng: np.random.Generator) -> cmpe.Problem:
    """Multilinear functions over [0, 1]^n, some variables of which are observed."""
    count = int(rng.integers(2, 6))

    def model() -> cmpe.LogLinearModel:
        tables = []
        for _ in range(int(rng.integers(1, 5))):
            arity = int(rng.integers(1, min(2, count) + 1))
            scope = tuple(int(v) for v in rng.choice(count, arity, replace=False))
            tables.append((scope, rng.normal(size=(2,) * arity)))
        return cmpe.LogLinearModel.from_tables((2,) * count, tables)

    t = model()
    q = float(value(t, rng.random((20, count))).mean())
    some = rng.choice(count, int(rng.integers(0, count)), replace=False)
    observed = tuple(int(v) for v in some)
    constraints = (cmpe.Constraint(t, q),)
    return cmpe.Problem(model(), constraints, observed, "", tuple(range(count)))


def value(function: Any, points: Floats) -> Floats:
    """A function at points (B, n) of [0, 1]^n, straight from its arrays."""
    if isinstance(function, cmpe.Distance):
        first, second = function.columns
        return np.asarray(-np.abs(points[:, first] - points[:, second]) @ function.weights)
    if isinstance(function, cmpe.ClassMargin):
        return np.array([_margin(function, point) for point in points])
    total = np.zeros(len(points))
    for factor in function.factors:
        for index in itertools.product(range(2), repeat=len(factor.scope)):
            weight = np.ones(len(points))
            for k, v in zip(index, factor.scope, strict=True):
                weight = weight * (points[:, v] if k else 1.0 - points[:, v])
            total = total + weight * factor.log_table[index]
    return total


def _margin(function: cmpe.ClassMargin, point: Floats) -> float:
    def logits(x: Floats) -> Floats:
        layers = list(zip(function.network.weights, function.network.biases, strict=True))
        for weights, biases in layers[:-1]:
            x = np.maximum(weights @ x + biases, 0.0)
        return layers[-1][0] @ x + layers[-1][1]

    kept = int(np.argmax(logits(point[list(function.original)])))
    after = logits(point[list(function.changed)])
    return float(after[kept] - np.delete(after, kept).max())


def _is_feasible(problem: cmpe.Problem, points: Floats) -> Any:
    sound = np.ones(len(points), dtype=bool)
    for constraint in problem.constraints:
        slack = 1e-6 * max(1.0, abs(constraint.at_most)) + 1e-9
        sound &= value(constraint.function, points) <= constraint.at_most + slack
    return sound


def judged(
    rng: np.random.Generator, problem: cmpe.Problem, row: Floats, answers: dict[str, Any]
) -> Sequence[str]:
    """What cannot be right about the answers of all methods to one row."""
    points = rng.random((POINTS, problem.variables))
    points[POINTS // 2 :] = np.rint(points[POINTS // 2 :])
    points[:, list(problem.evidence_variables)] = row
    strict = np.ones(len(points), dtype=bool)
    for constraint in problem.constraints:
        strict &= value(constraint.function, points) <= constraint.at_most
    best = float(value(problem.objective, points[strict]).max()) if strict.any() else -np.inf
    wrong = []
    for method, answer in answers.items():
        if not bool(answer.feasible[0]):
            continue
        own, said = np.asarray(answer.assignments[:1]), float(answer.objective[0])
        worth = float(value(problem.objective, own)[0])
        if not bool(_is_feasible(problem, own)[0]) or abs(worth - said) > CLOSE * max(1, abs(said)):
            wrong.append(f"{method}: says {said!r}, its assignment has {worth!r}")
        best = max(best, said)
    hair = CLOSE * max(1.0, abs(best)) if np.isfinite(best) else 0.0
    for method, answer in answers.items():
        status, bound = cmpe.Status.of(answer.status[0]), float(answer.bound[0])
        if bound < best - hair:
            wrong.append(f"{method}: bound {bound!r} is below {best!r}")
        if status is cmpe.Status.INFEASIBLE and best > -np.inf:
            wrong.append(f"{method}: says infeasible, found {best!r}")
        if status is cmpe.Status.OPTIMAL and float(answer.objective[0]) < best - hair:
            wrong.append(f"{method}: says optimal {float(answer.objective[0])!r}, found {best!r}")
    return wrong


def told(problem: cmpe.Problem, rows: Floats) -> str:
    """The numbers of a problem, in full."""
    parts = [f"evidence variables {problem.evidence_variables}, rows {rows.tolist()}"]
    parts += [f"t <= {c.at_most!r}" for c in problem.constraints]
    for function in problem.functions:
        if isinstance(function, cmpe.ClassMargin):
            network = function.network
            parts.append(f"weights {[w.tolist() for w in network.weights]}")
            parts.append(f"biases {[b.tolist() for b in network.biases]}")
        elif isinstance(function, cmpe.LogLinearModel):
            parts.append(str([(f.scope, f.log_table.tolist()) for f in function.factors]))
    return "\n".join(parts)
