"""Fronts, ranks and sensitivities of random problems against enumeration.

    python -m benchmarks.front_check [--problems 10000] [--seed 0]

Each problem has 1 to 6 variables of 1 to 5 values, 0 to 4 constraints, zeros, ties, limits that
some assignment attains and limits that none does. Its front over one constraint, its k best
(k = 1, 5, 100 in turn) and its sensitivities are compared with all assignments. Leaves
results/front_check.jsonl: counts, the seed of every problem that was wrong, and a hash of the code.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

import cmpe
from benchmarks.frame import Recorder, code_of, parser

RANKS = (1, 5, 100)
Numbers = NDArray[np.float64]
Rows = NDArray[np.int64]


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser(__doc__)
    options.add_argument("--problems", type=int, default=10_000)
    chosen = options.parse_args(arguments)
    with Recorder("front_check", chosen, "random problems") as recorder:
        totals = check(chosen)
        recorder.add(**totals)
    print(totals, flush=True)
    return int(bool(totals["wrong"]))


def check(options: argparse.Namespace) -> dict[str, object]:
    """Counts over all problems."""
    counts = dict.fromkeys(("rows", "infeasible", "fronts", "points", "ranked", "regrets"), 0)
    wrong: list[int] = []
    begin = time.process_time()
    for number in range(options.problems):
        seed = options.seed + number
        problem, evidence = random_problem(seed)
        rows = problem.given(evidence).full()
        truths = [_Truth(problem, row.astype(np.int64)) for row in rows]
        try:
            good = _fronts_agree(problem, evidence, truths, seed, counts)
            good &= _ranks_agree(problem, evidence, truths, RANKS[number % 3], counts)
            good &= _sensitivities_agree(problem, evidence, truths, counts)
        except Exception as error:
            print(f"seed {seed}: {type(error).__name__}: {error}", flush=True)
            good = False
        counts["rows"] += len(truths)
        counts["infeasible"] += sum(not truth.feasible.any() for truth in truths)
        if not good:
            wrong.append(seed)
            print(f"seed {seed} is wrong", flush=True)
    seconds = time.process_time() - begin
    found = {"problems": options.problems, **counts, "wrong": wrong, "cpu_seconds": seconds}
    return {**found, "code": code_of(("tradeoffs", "solvers/exact", "elimination"))}


def random_problem(seed: int) -> tuple[cmpe.Problem, Rows]:
    """Factors of mixed arity, half of them of whole numbers; up to two rows of evidence."""
    rng = np.random.default_rng([seed, 19])
    count = int(rng.integers(1, 7))
    cards = [int(k) for k in rng.integers(2, 6 if count < 5 else 4, count)]
    constraints = [_constraint(rng, cards) for _ in range(int(rng.integers(0, 5)))]
    seen = rng.choice(count, int(rng.integers(0, 1 + count // 2)), replace=False).tolist()
    problem = cmpe.Problem(_model(rng, cards), constraints, seen)
    rows = 2 if seen else 1
    evidence = np.stack([rng.integers(0, cards[v], rows) for v in seen], axis=1) if seen else None
    return problem, np.zeros((1, 0), dtype=np.int64) if evidence is None else evidence


def _model(rng: np.random.Generator, cards: Sequence[int]) -> cmpe.LogLinearModel:
    tables = []
    for _ in range(int(rng.integers(1, 8))):
        scope = rng.choice(len(cards), int(rng.integers(0, min(3, len(cards)) + 1)), replace=False)
        size = [cards[v] for v in scope]
        whole = rng.random() < 0.5
        table = rng.integers(-3, 4, size).astype(float) if whole else rng.normal(size=size)
        if rng.random() < 0.2:
            table = np.where(rng.random(size) < 0.25, -np.inf, table)
        tables.append((scope.tolist(), table))
    return cmpe.LogLinearModel.from_tables(cards, tables)


def _constraint(rng: np.random.Generator, cards: Sequence[int]) -> cmpe.Constraint:
    model = _model(rng, cards)
    values = model.value(np.stack([rng.integers(0, k, 30) for k in cards], axis=1))
    finite = values[np.isfinite(values)]
    low = not len(finite) or rng.random() < 0.1
    limit = -30.0 if low else float(np.quantile(finite, rng.uniform(0.2, 1.0)))
    return model >= limit - 1.0 if rng.random() < 0.15 else model <= limit


class _Truth:
    """Every assignment that agrees with one row of evidence."""

    def __init__(self, problem: cmpe.Problem, full: NDArray[np.integer]) -> None:
        sizes = problem.objective.cardinalities
        rows = np.array(list(itertools.product(*map(range, sizes))), dtype=np.int32)
        self.rows = rows[((full < 0) | (rows == full)).all(axis=1)]
        self.h = problem.objective.value(self.rows)
        self.t = problem.constraint_values(self.rows)
        self.within = self.t - problem.limits <= problem.tolerances
        self.feasible = np.isfinite(self.h) & self.within.all(axis=1)

    def without(self, over: int) -> NDArray[np.bool_]:
        """Which satisfy all constraints but one."""
        return np.isfinite(self.h) & np.delete(self.within, over, axis=1).all(axis=1)

    def front(self, over: int) -> tuple[Numbers, Numbers]:
        """h and t of the non-dominated pairs, by rising t."""
        good = self.without(over)
        return non_dominated(self.h[good], self.t[good, over])


def non_dominated(h: Numbers, t: Numbers) -> tuple[Numbers, Numbers]:
    """The pairs that no other dominates, by rising t; those within the tolerances once."""
    kept: list[int] = []
    for i in np.lexsort((-h, t)):
        if kept and h[i] - h[kept[-1]] <= 1e-6 * max(1.0, abs(h[i])):
            continue
        near = 1e-6 * max(1.0, abs(t[i])) if np.isfinite(t[i]) else 0.0
        if kept and t[i] <= t[kept[-1]] + near:
            kept.pop()
        kept.append(int(i))
    return h[kept], t[kept]


Counts = dict[str, int]


def _close(a: Numbers, b: Numbers) -> bool:
    return a.shape == b.shape and bool(np.allclose(a, b, atol=1e-8, rtol=1e-9))


def _fronts_agree(
    problem: cmpe.Problem, evidence: Rows, truths: Sequence[_Truth], seed: int, counts: Counts
) -> bool:
    if not problem.constraints:
        return True
    over = seed % len(problem.constraints)
    good = True
    for front, truth in zip(cmpe.front(problem, evidence, over=over), truths, strict=True):
        h, t = truth.front(over)
        good &= front.complete and _close(front.traced.h, h) and _close(front.traced.t, t)
        counts["fronts"] += 1
        counts["points"] += len(h)
    return good


def _ranks_agree(
    problem: cmpe.Problem, evidence: Rows, truths: Sequence[_Truth], k: int, counts: Counts
) -> bool:
    good = True
    for ranked, truth in zip(cmpe.best(problem, evidence, k), truths, strict=True):
        rows, h = truth.rows[truth.feasible], truth.h[truth.feasible]
        order = np.lexsort((*rows.T[::-1], -h))[:k]
        good &= ranked.complete and np.array_equal(ranked.assignments, rows[order])
        counts["ranked"] += len(order)
    return good


def _sensitivities_agree(
    problem: cmpe.Problem, evidence: Rows, truths: Sequence[_Truth], counts: Counts
) -> bool:
    good = True
    for found, truth in zip(cmpe.sensitivity(problem, evidence), truths, strict=True):
        if not truth.feasible.any():
            good &= found.answer.status is cmpe.Status.INFEASIBLE
            continue
        best = truth.h[truth.feasible].max()
        for j, constraint in enumerate(problem.constraints):
            higher = truth.without(j) & (truth.h > best + 1e-6 * max(1.0, abs(best)))
            end = truth.t[higher, j].min(initial=math.inf)
            shown = found.intervals[j][1] if constraint.sign > 0 else -found.intervals[j][0]
            good &= bool(shown == end or abs(shown - end) < 1e-8)
        for v in problem.free:
            for a, regret in enumerate(found.regrets[v]):
                same = truth.feasible & (truth.rows[:, v] == a)
                wanted = best - truth.h[same].max(initial=-math.inf)
                good &= bool(regret == wanted or abs(regret - wanted) < 1e-6)
                counts["regrets"] += 1
    return good


if __name__ == "__main__":
    raise SystemExit(main())
