"""Problems with a special structure, each solved by a special method with a proof.

- `closure`: rules that are implications between binary variables, and tables over pairs of them
  that pull one way: a minimum cut.
- `matching`: rules of which each lets one of some literals hold, as `all_different`: an assignment.

Both need an objective of single variables apart from that, and no limits. Evidence, potentials of
rows and forbidden states are scores of single variables, so rows may observe what they like.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Protocol

import numpy as np

from cmpe.arrays import FREE, Floats, Values
from cmpe.core.compiler import timing
from cmpe.errors import Interrupted
from cmpe.models.logic import BoundRule
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.problem import Form, Problem
from cmpe.problem.rows import Rows
from cmpe.solution import Solutions
from cmpe.solvers.base import Limits
from cmpe.solvers.structures.closure import Closure
from cmpe.solvers.structures.matching import Matching

CHUNK_BYTES = 1 << 24  # of scores: rows that are answered at once


class Structure(Protocol):
    """A problem of a special structure, apart from scores of single variables."""

    @property
    def name(self) -> str:
        """What `Solutions.method` says."""
        ...

    def best(self, scores: Floats) -> tuple[Values, Floats]:
        """The best assignments (B, n), and bounds (B,), which are -inf where there is none.

        Scores (B, n, k) are finite or -inf; -inf where a variable has no such state.
        """
        ...


def structure_of(problem: Problem) -> Structure | None:
    """The structure that the problem is recognised to have."""
    known = problem.structures
    if not known:
        known.append(_recognised(problem))
    found: Structure | None = known[0]
    return found


def _recognised(problem: Problem) -> Structure | None:
    if problem.constraints or problem.form not in (Form.TABLES, Form.RULES) or not problem.rules:
        return None
    base, rules = problem.parts.apart()
    if not isinstance(base, LogLinearModel):
        return None
    cards = problem.domain.cardinalities
    pairs = [factor for factor in base.factors if sum(cards[v] > 1 for v in factor.scope) > 1]
    singles = _singles(cards, base, rules)
    if not pairs:
        matching = Matching.of(cards, singles, rules)
        if matching is not None:
            return matching
    return Closure.of(cards, singles, pairs, rules)


def _singles(cards: Sequence[int], base: LogLinearModel, rules: Sequence[BoundRule]) -> Floats:
    """Scores (n, k) of single variables: -inf where there is no such state."""
    scores = np.full((len(cards), max(cards)), -np.inf)
    for v, k in enumerate(cards):
        scores[v, :k] = 0.0
    own = [f for f in base.factors if sum(cards[v] > 1 for v in f.scope) <= 1]
    own += [
        Factor(rule.scope, rule.table(cards))
        for rule in rules
        if sum(cards[v] > 1 for v in rule.scope) <= 1
    ]
    for factor in own:
        v = next((v for v in factor.scope if cards[v] > 1), 0)
        scores[v, : cards[v]] += factor.log_table.ravel()
    return scores


def answer_structure(rows: Rows, structure: Structure, limits: Limits) -> Solutions | None:
    """One proved answer per row; None where rows have potentials over several variables."""
    if any(len(p.scope) != 1 for p in rows.potentials):
        return None
    problem, count, begin = rows.problem, len(rows), timing.now()
    assignments = np.full((count, problem.variables), FREE, dtype=np.int32)
    bounds = np.full(count, np.inf)
    done = 0

    def work(part: slice) -> None:
        assignments[part], bounds[part] = structure.best(_scores(rows, part))

    parts = list(_parts(rows, limits.cores))
    try:
        if limits.cores > 1 and len(parts) > 1:
            with ThreadPoolExecutor(limits.cores) as pool:
                for part, _ in zip(parts, pool.map(work, parts), strict=True):
                    done = part.stop
                    limits.report(done, count)
        else:
            for part in parts:
                work(part)
                done = part.stop
                limits.report(done, count)
    except KeyboardInterrupt:
        assignments[done:], bounds[done:] = FREE, np.inf
        raise Interrupted(_judged(rows, structure, assignments, bounds, begin), done) from None
    return _judged(rows, structure, assignments, bounds, begin)


def _parts(rows: Rows, cores: int) -> Iterator[slice]:
    cards = rows.problem.domain.cardinalities
    size = max(1, min(CHUNK_BYTES // (8 * len(cards) * max(cards)), -(-len(rows) // cores)))
    for first in range(0, len(rows), size):
        yield slice(first, min(first + size, len(rows)))


def _scores(rows: Rows, part: slice) -> Floats:
    """What each row adds to the scores of single variables: (B, n, k)."""
    cards, evidence = rows.problem.domain.cardinalities, rows.evidence[part]
    scores = np.zeros((len(evidence), len(cards), max(cards)))
    for (v,), values in rows.potentials:
        scores[:, v, : cards[v]] += values[part]
    observed = np.flatnonzero((evidence != FREE).any(axis=0))
    if len(observed):
        seen = evidence[:, observed, np.newaxis]
        other = (seen != FREE) & (seen != np.arange(max(cards)))
        scores[:, observed] = np.where(other, -np.inf, scores[:, observed])
    return scores


def _judged(
    rows: Rows, structure: Structure, assignments: Values, bounds: Floats, begin: float
) -> Solutions:
    """The answers with all values recomputed by the problem."""
    problem, count = rows.problem, len(rows)
    answered = (assignments >= 0).all(axis=1)
    objective = np.full(count, np.nan)
    chosen = assignments[answered]
    objective[answered] = problem.objective.value(chosen)
    for (v,), values in rows.potentials:
        objective[answered] += values[answered, chosen[:, v]]
    found = Solutions.evaluated(
        problem, assignments, (objective, np.zeros((count, 0))), bound=bounds,
        infeasible=np.isneginf(bounds), method=structure.name,
        seconds=(timing.now() - begin) / max(1, count),
    )  # fmt: skip
    return replace(found, observed=rows.evidence != FREE)
