"""`cmpe.probability`: the probability of the evidence, each state and each explanation.

    P(z) = exp(h(z) + u(z)) / Z,   Z = the sum over assignments that agree with the evidence
                                       and satisfy the constraints

Exact by elimination where constraints are rules, counts or costs of whole steps. Another constraint
is judged on exact samples of the posterior without it; all numbers are then estimates with
intervals that contain the exact value with 95 % confidence (Clopper and Pearson 1934).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cmpe.arguments import whole_number
from cmpe.arrays import FREE, Floats, Values
from cmpe.core.compiler.notices import asked_for
from cmpe.display import html_table
from cmpe.errors import EvidenceError, MethodError
from cmpe.models.function import Function
from cmpe.problem import Evidence, Problem
from cmpe.problem.groups import full_rows
from cmpe.problem.posing import Conditions
from cmpe.problem.rows import Limits as RowLimits
from cmpe.problem.rows import Potentials, Rows
from cmpe.sampling import Samples, Seed
from cmpe.sampling import sample as sample_model
from cmpe.solution import Solutions
from cmpe.solvers.base import Running
from cmpe.tradeoffs.settings import TRADEOFFS
from cmpe.tradeoffs.sums import NotCounted, Summation

CONFIDENCE = 0.95
GIVEN = ("all", "evidence")


@dataclass(frozen=True)
class _Asked:
    """How the sums are made."""

    samples: int
    seed: int
    threads: int


@dataclass(frozen=True, eq=False, repr=False)
class Probability:
    """The posterior of every row, exact or estimated with 95 % intervals.

    Intervals are (B, ..., 2); their ends are equal where a number is exact. Rows without an allowed
    assignment have log_evidence -inf and marginals of 0.
    """

    problem: Problem
    log_evidence: Floats  # (B,) log of the sum of exp h: log P(evidence) of a normalised model
    marginals: dict[Any, Floats]  # of each variable: (B, states)
    estimated: bool
    log_evidence_interval: Floats  # (B, 2)
    marginal_intervals: dict[Any, Floats]  # (B, states, 2)
    _rows: Rows
    _asked: _Asked

    def __len__(self) -> int:
        return len(self.log_evidence)

    def of(self, assignment: Evidence | Solutions) -> Floats:
        """The posterior probability of each row's full or partial assignment: (B,).

        Answers of `solve`, or what evidence may be: {name: state}, rows of it, an array with -1
        where nothing is said. One row of evidence serves many assignments, and the reverse. NaN
        where there is no answer, and where an estimate has no sample.
        """
        return self._share(assignment)[0]

    def interval(self, assignment: Evidence | Solutions) -> Floats:
        """The interval of the same numbers: (B, 2)."""
        return self._share(assignment)[1]

    def to_frame(self) -> Any:
        """A pandas DataFrame: a line per row, variable and state (extra `frames`)."""
        from cmpe.errors import MissingExtra

        try:
            import pandas
        except ImportError:
            raise MissingExtra.named("pandas", "frames") from None
        names = ["row", "variable", "state", "probability"]
        names += ["low", "high"] if self.estimated else []
        return pandas.DataFrame([line[: len(names)] for line in self.lines()], columns=names)

    def lines(self) -> list[tuple[int, Any, Any, float, float, float]]:
        """Row, variable, state, probability and its interval, for every state."""
        domain = self.problem.domain
        return [
            (row, key, domain.label(v, state), *map(float, (values[row, state], *ends[row, state])))
            for row in range(len(self))
            for v, (key, values) in enumerate(self.marginals.items())
            for ends in (self.marginal_intervals[key],)
            for state in range(values.shape[1])
        ]

    def plot(
        self, row: int = 0, explanation: Evidence | Solutions | None = None, most: int = 20
    ) -> Any:
        """Draw the posterior of a row as bars, an explanation's states in colour (extra `report`).

        The `most` least certain free variables. `explanation` is one assignment, or the answers of
        `solve`, whose own row is taken.
        """
        from cmpe.pictures.marginals import draw_marginals

        explained = None
        if explanation is not None:
            wanted = _wanted(self.problem, explanation)
            explained = wanted[row if len(wanted) == len(self) else 0].tolist()
        values = [m[row] for m in self.marginals.values()]
        free = np.flatnonzero(self._rows.evidence[row] == FREE)
        chosen = sorted(free, key=lambda v: float(values[v].max()))[:most]
        return draw_marginals(self.problem.domain, [(int(v), values[v]) for v in chosen], explained)

    def __repr__(self) -> str:
        kind = "estimated from samples" if self.estimated else "exact"
        return f"Probability({len(self)} rows, {kind}; {self.summary(0)})"

    def summary(self, row: int) -> str:
        """log P(evidence) of a row in words."""
        if not len(self):
            return "no rows"
        low, high = self.log_evidence_interval[row]
        text = f"log P(evidence) {self.log_evidence[row]:.6g}"
        return text if low == high else f"{text} ({low:.6g} to {high:.6g})"

    def _repr_html_(self) -> str:
        cells = [
            (
                str(key),
                str(state),
                f"{value:.4g}",
                "" if low == high else f"{low:.4g} to {high:.4g}",
            )
            for row, key, state, value, low, high in self.lines()
            if row == 0
        ]
        heads = ("variable", "state", "probability", "95 % interval")
        width = 4 if self.estimated else 3
        return html_table(repr(self), heads[:width], [cell[:width] for cell in cells])

    def _share(self, assignment: Evidence | Solutions) -> tuple[Floats, Floats]:
        """The probabilities and their intervals."""
        rows, wanted, said = _together(self._rows, _wanted(self.problem, assignment))
        log_evidence, ends = self.log_evidence, self.log_evidence_interval
        if len(self) != len(rows):
            log_evidence = np.repeat(log_evidence, len(rows))
            ends = np.repeat(ends, len(rows), axis=0)
        agrees = ((rows.evidence == FREE) | (wanted == FREE) | (rows.evidence == wanted)).all(
            axis=1
        )
        joint = np.where(wanted == FREE, rows.evidence, wanted)
        both = replace(rows, evidence=np.where(agrees[:, np.newaxis], joint, rows.evidence))
        share = np.zeros((len(rows), 3))
        exact = ~np.zeros(len(rows), dtype=bool)
        if self.estimated:
            exact = (both.evidence != FREE).all(axis=1)
            part = np.flatnonzero(~exact & agrees)
            if len(part):
                found = _estimated(rows.take(part), self._asked, wanted[part])
                share[part] = found.agreeing
        part = np.flatnonzero(exact & agrees)
        if len(part):
            joint_sum = _log_partitions(both.take(part), self._asked)[:, np.newaxis]
            bounds = np.stack([log_evidence[part], ends[part, 1], ends[part, 0]], axis=1)
            with np.errstate(invalid="ignore"):
                share[part] = np.minimum(np.exp(joint_sum - bounds), 1.0)
            share[part[np.isneginf(log_evidence[part])], 0] = np.nan
        share[np.isneginf(ends[:, 1])] = np.nan
        share[~said] = np.nan
        return share[:, 0], share[:, 1:]


class _Estimate(NamedTuple):
    """Estimates from samples: value, low end, high end in the last axis."""

    log_evidence: Floats  # (B, 3)
    marginals: list[Floats]  # (B, states, 3) each
    agreeing: Floats  # (B, 3)


@asked_for("probability")
def probability(  # noqa: PLR0913
    problem: Problem | Function,
    evidence: Evidence | None = None,
    *,
    potentials: Potentials | None = None,
    limits: RowLimits | None = None,
    given: str = "all",
    samples: int = TRADEOFFS.samples,
    seed: int = 0,
    ignore_extra: bool = False,
    running: Running | None = None,
) -> Probability:
    """The log-probability of the evidence and the posterior of every variable, for every row.

    problem: a problem, or a model. evidence, potentials, limits: as in `solve`, with soft evidence.
    given: "all" conditions on the evidence and the constraints, "evidence" leaves the constraints
    out (rules are part of the model and stay). Constraints that are no rules, counts or costs of
    whole steps make estimates of `samples` exact samples of each row, drawn from `seed`:
    `estimated` says so, and all numbers have intervals.

    The sum is of exp h: where h is normalised, as a Bayesian network is, its logarithm is
    log P(evidence), and with constraints log P(evidence and constraints).
    """
    asked = problem if isinstance(problem, Problem) else Problem(problem)
    asked.need_tables("probability")
    if given not in GIVEN:
        raise MethodError(f"given must be one of {', '.join(GIVEN)}; found {given!r}")
    if given == "evidence":
        if limits is not None:
            raise MethodError('given="evidence" leaves the constraints out; found limits')
        asked = Problem(asked.objective, (), asked.evidence_variables, asked.name)
    how = _Asked(
        whole_number("samples", samples, 1),
        whole_number("seed", seed, 0),
        (running or Running()).cores,
    )
    rows = Rows.own(asked, evidence, potentials, limits, ignore_extra=ignore_extra)
    if rows is None:
        rows = Rows(asked, full_rows(asked, evidence, ignore_extra=ignore_extra))
    first, where, _ = rows.distinct()
    few = rows.take(first)
    try:
        found = Summation.of(few, how.threads).sums()
        log_evidence = np.repeat(found.log_partition[:, np.newaxis], 3, axis=1)
        marginals = [np.repeat(m[:, :, np.newaxis], 3, axis=2) for m in found.marginals]
        estimated = False
    except NotCounted:
        drawn = _estimated(few, how, np.full_like(few.evidence, FREE))
        log_evidence, marginals, estimated = drawn.log_evidence, drawn.marginals, True
    keys: tuple[Any, ...] = asked.domain.names or tuple(range(asked.variables))
    return Probability(
        asked,
        log_evidence[where, 0],
        {key: m[where, :, 0] for key, m in zip(keys, marginals, strict=True)},
        estimated,
        log_evidence[where, 1:],
        {key: m[where, :, 1:] for key, m in zip(keys, marginals, strict=True)},
        rows,
        how,
    )


def sample(
    model: Function | Problem,
    count: int,
    seed: Seed = 0,
    *,
    evidence: Evidence | None = None,
    constraints: Conditions = (),
    potentials: Potentials | None = None,
    **options: Any,
) -> Samples:
    """`count` assignments z drawn with probability proportional to exp h(z).

    With `evidence` (one row, soft evidence and `potentials` too) and `constraints`, among those
    that agree and satisfy them: exactly where elimination is possible. Samples that break a
    constraint that is no count are drawn again.

    Without them: exactly where elimination fits into `memory_limit` bytes, else by Gibbs chains
    (`gibbs`, settings); with a `time_limit` in seconds, exactly only where that fits too.
    """
    count = whole_number("count", count, 0)
    if (
        not isinstance(model, Problem)
        and evidence is None
        and potentials is None
        and not constraints
    ):
        return sample_model(model, count, seed, **options)
    if options:
        raise MethodError(f"{', '.join(options)} go with samples without evidence and constraints")
    problem = model if isinstance(model, Problem) else Problem(model)
    problem.need_tables("sample")
    if constraints:
        problem = problem.under(constraints)
    rows = Rows.own(problem, evidence, potentials)
    if rows is None:
        rows = Rows(problem, full_rows(problem, evidence))
    if len(rows) != 1:
        raise EvidenceError(
            f"sample takes one row of evidence, found {len(rows)}; call it once for each row"
        )
    sums = _countable(Summation.of(rows, 1))
    return Samples(_accepted(sums, count, seed), "exact", sums.problem.plan.width)


def _accepted(sums: Summation, count: int, seed: Seed) -> Values:
    """Samples of one row that satisfy every constraint."""
    sequence = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(
        whole_number("seed", seed, 0)
    )  # fmt: skip
    kept: list[Values] = []
    missing, tried = count, 0
    while missing > 0 and tried < TRADEOFFS.sample_rounds:
        (drawn,) = sums.drawn(count, sequence.spawn(1)[0])
        if not (drawn.samples >= 0).all():
            raise EvidenceError("no assignment agrees with the evidence and the constraints")
        kept.append(drawn.samples[0, drawn.feasible[0]][:missing])
        missing -= len(kept[-1])
        tried += 1
    if missing:
        raise MethodError(
            f"constraints must hold for some of {tried * count} samples of the posterior; found "
            f"{count - missing} of {count} samples: loosen the limits"
        )
    return np.concatenate([np.zeros((0, sums.variables), dtype=np.int32), *kept])


def _countable(sums: Summation) -> Summation:
    """The same question without the constraints that elimination cannot carry along."""
    while True:
        try:
            for _ in sums.parts():
                pass
        except NotCounted as found:
            sums = sums.without(found.numbers)
        else:
            return sums


def _log_partitions(rows: Rows, how: _Asked) -> Floats:
    """Log-partitions; constraints of any kind are counts where nothing is free."""
    return Summation.of(rows, how.threads).log_partitions()


def _estimated(rows: Rows, how: _Asked, wanted: Values) -> _Estimate:
    """Estimates of all numbers, and of the share of samples that have the wanted values."""
    whole = Summation.of(rows, how.threads)
    if not whole.problem.is_log_linear:
        raise MethodError(
            "estimates need log-linear models of discrete variables; found "
            f"{rows.problem.form.value} with a constraint that is no count"
        )
    sums = _countable(whole)
    total = sums.log_partitions()
    cards = rows.problem.domain.cardinalities
    log_evidence = np.zeros((len(rows), 3))
    marginals = [np.zeros((len(rows), k, 3)) for k in cards]
    agreeing = np.zeros((len(rows), 3))
    for part in sums.drawn(how.samples, np.random.SeedSequence(how.seed)):
        own, count = part.rows, part.feasible.sum(axis=1)
        share = _interval(count, np.full_like(count, how.samples))
        with np.errstate(divide="ignore"):
            log_evidence[own] = total[own, np.newaxis] + np.log(share)
        possible = np.isfinite(total[own])[:, np.newaxis]
        for v, k in enumerate(cards):
            seen = np.stack(
                [((part.samples[:, :, v] == s) & part.feasible).sum(axis=1) for s in range(k)], 1
            )
            found = _interval(seen, np.repeat(count[:, np.newaxis], k, axis=1))
            marginals[v][own] = np.where(possible[:, :, np.newaxis], found, 0.0)
        has = ((wanted[own, np.newaxis] == FREE) | (part.samples == wanted[own, np.newaxis])).all(2)
        agreeing[own] = _interval((has & part.feasible).sum(axis=1), count)
    return _Estimate(log_evidence, marginals, agreeing)


def _interval(seen: NDArray[np.int64], count: NDArray[np.int64]) -> Floats:
    """A share with the ends of its interval in a new last axis; NaN, 0, 1 of no samples."""
    from scipy.special import betaincinv

    tail = 0.5 * (1.0 - CONFIDENCE)
    with np.errstate(invalid="ignore", divide="ignore"):
        value = seen / count
    low = np.where(seen == 0, 0.0, betaincinv(np.maximum(seen, 1), count - seen + 1, tail))
    rest = np.maximum(count - seen, 1)
    high = np.where(seen == count, 1.0, betaincinv(seen + 1, rest, 1.0 - tail))
    return np.stack([value, low, high], axis=-1)


def _wanted(problem: Problem, assignment: Evidence | Solutions) -> Values:
    """Assignments (B, n), -1 where nothing is said."""
    if isinstance(assignment, Solutions):
        return assignment.assignments
    return full_rows(problem.observing(()), assignment)


def _together(rows: Rows, wanted: Values) -> tuple[Rows, Values, NDArray[np.bool_]]:
    """As many rows as assignments, and which of them say anything."""
    said = (wanted != FREE).any(axis=1)
    if len(rows) == 1 and len(wanted) != 1:
        rows = rows.take(np.zeros(len(wanted), dtype=np.intp))
    elif len(wanted) == 1:
        wanted, said = np.repeat(wanted, len(rows), axis=0), np.repeat(said, len(rows))
    if len(rows) != len(wanted):
        raise EvidenceError(
            f"assignments must be one, or as many as rows of evidence; found {len(wanted)} "
            f"assignments and {len(rows)} rows"
        )
    return rows, wanted, said
