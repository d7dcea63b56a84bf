"""What the stages hand to each other: problems, rows and answers as small files."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmpe.generation import Generated
from cmpe.models.loglinear import LogLinearModel
from cmpe.problem import Constraint, Instances, Problem
from cmpe.solution import Solutions
from study.paper.store import Artifact, arrays_file

PROBLEM, ANSWERS = "problem.npz", "answers.npz"
KEPT = 4  # problems that a process keeps: their plans and structures serve many tasks

Integers = NDArray[np.integer]


@dataclass(frozen=True)
class Rows:
    """A problem with its rows."""

    problem: Problem
    train: NDArray[np.int32]
    test: NDArray[np.int32]


def generated_file(made: Generated) -> bytes:
    """M1, M2, the evidence variables, the rows, and q of every percentile."""
    first, second = made.problem.models
    scopes = [f.scope for f in first.factors]
    if [f.scope for f in second.factors] != scopes:
        raise ValueError("M1 and M2 must have the same scopes")
    return arrays_file(
        cardinalities=np.array(first.cardinalities, dtype=np.int16),
        arities=np.array([len(s) for s in scopes], dtype=np.int16),
        scopes=np.array([v for s in scopes for v in s], dtype=np.int32),
        objective=first.flat.values,
        constraint=second.flat.values,
        evidence=np.array(made.problem.evidence_variables, dtype=np.int32),
        quantiles=made.quantiles,
        **packed("train", made.train, _cards(made.problem, made.problem.evidence_variables)),
        **packed("test", made.test, _cards(made.problem, made.problem.evidence_variables)),
    )


_known: OrderedDict[tuple[str, int], Rows] = OrderedDict()


def rows_of(artifact: Artifact, percentile: int) -> Rows:
    """The problem with q at a percentile, and its rows."""
    name = (artifact.key, percentile)
    if not artifact.key or name not in _known:
        _known[name] = _read_rows(artifact, percentile)
        while len(_known) > KEPT:
            _known.popitem(last=False)
    _known.move_to_end(name)
    return _known[name]


def _read_rows(artifact: Artifact, percentile: int) -> Rows:
    found = artifact.arrays(PROBLEM)
    cards = tuple(int(k) for k in found["cardinalities"])
    ends = np.cumsum(found["arities"])
    scopes = [tuple(s.tolist()) for s in np.split(found["scopes"], ends[:-1])]
    models = [_model(cards, scopes, found[name]) for name in ("objective", "constraint")]
    observed = tuple(int(v) for v in found["evidence"])
    limit = float(found["quantiles"][percentile - 1])
    problem = Problem(models[0], (Constraint(models[1], limit),), observed)
    shown = _cards(problem, observed)
    return Rows(problem, unpacked("train", found, shown), unpacked("test", found, shown))


def _model(cards: tuple[int, ...], scopes: Sequence[Any], values: Any) -> LogLinearModel:
    shapes = [tuple(cards[v] for v in scope) for scope in scopes]
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    tables = (t.reshape(s) for t, s in zip(np.split(values, ends[:-1]), shapes, strict=True))
    return LogLinearModel.from_tables(cards, zip(scopes, tables, strict=True))


def _cards(problem: Problem, variables: Sequence[int]) -> list[int]:
    return [problem.objective.cardinalities[v] for v in variables]


def packed(name: str, values: Integers, cards: Sequence[int]) -> dict[str, Any]:
    """Rows of values (B, k) as bits where all variables are binary, as bytes otherwise."""
    small = values.astype(np.uint8)
    bits = np.packbits(small, axis=1) if max(cards, default=2) <= 2 else small
    return {name: bits, f"{name}_count": len(values)}


def unpacked(name: str, found: dict[str, Any], cards: Sequence[int]) -> NDArray[np.int32]:
    """The inverse of `packed`."""
    small = found[name].reshape(int(found[f"{name}_count"]), -1)
    if max(cards, default=2) <= 2:
        small = np.unpackbits(small, axis=1, count=len(cards))
    return np.ascontiguousarray(small, dtype=np.int32)


def answers_file(problem: Problem, assignments: Integers, **more: Any) -> bytes:
    """Assignments (B, n) by their free variables; a row that starts with -1 has no answer."""
    found = assignments[:, 0] >= 0
    free = np.where(found[:, np.newaxis], assignments, 0)[:, list(problem.free)]
    values = packed("values", free, _cards(problem, problem.free))
    return arrays_file(found=np.packbits(found), **values, **more)


def assignments_of(instances: Instances, found: dict[str, Any]) -> NDArray[np.int32]:
    """Assignments (B, n) to the first rows of `instances`, -1 where there is no answer."""
    problem = instances.problem
    values = unpacked("values", found, _cards(problem, problem.free))
    whole = instances.complete(values)
    answered = np.unpackbits(found["found"], count=len(values)).astype(bool)
    whole[~answered] = -1
    return whole


def solutions_of(rows: Rows, artifact: Artifact) -> Solutions:
    """The answers of a `solve` or `train` task to the first test rows, recomputed."""
    found = artifact.arrays(ANSWERS)
    count = int(found["values_count"])
    instances = Instances(rows.problem, rows.test[:count])
    return Solutions.of(
        rows.problem,
        assignments_of(instances, found),
        bound=found.get("bound", np.inf),
        infeasible=found.get("infeasible", False),
        seconds=artifact.aside["row_seconds"],
    )
