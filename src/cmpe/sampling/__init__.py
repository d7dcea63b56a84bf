"""Sampling assignments z with probability proportional to exp h(z).

Exact: a cutset network samples by itself; for tables, eliminate all variables, then draw them in
the reverse order, each from its conditional given the ones drawn before; all samples at once.
Where the width does not allow that: variable by variable along the arcs of a Bayesian network
(`ancestral`), which is exact too; else Gibbs sampling, one annealed chain per sample, several
restarts. Where zeros stop chains from arriving anywhere and the tables have a direction, chains
begin at such draws.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cmpe.arguments import whole_number
from cmpe.core.compiler import timing
from cmpe.core.compiler.notices import asked_for
from cmpe.elimination.compiled import compile_plan
from cmpe.elimination.plan import MEMORY_LIMIT, Plan, make_plan
from cmpe.elimination.rules import tabled_rules
from cmpe.elimination.sums import LogSum
from cmpe.errors import ModelError, TooLarge
from cmpe.models.function import Function
from cmpe.models.loglinear import LogLinearModel
from cmpe.models.ruled import RuledModel
from cmpe.models.tractable.chow_liu import ChowLiuTree
from cmpe.models.tractable.cutset import CutsetNetwork
from cmpe.sampling.ancestral import Directed

if TYPE_CHECKING:
    from cmpe.sampling.chains import GibbsTables

Seed = int | np.random.SeedSequence
LEAST_SWEEPS = 5  # of a chain, however short the time is
SECONDS_PER_ENTRY = 1e-7  # of an elimination with its samples


@dataclass(frozen=True)
class GibbsSettings:
    """Sweeps of one chain, the temperatures it falls through, and how often it may start again.

    A chain starts at a uniform assignment and at an inverse temperature near 0, which rises to 1
    over the first `annealing` of its sweeps, and ends in one sample: samples of different chains
    are independent. Zero potentials count as `floor` nats while annealing; a sample
    that still has probability 0 at the end is drawn again, at most `restarts` times.

    With a limit in `seconds`, chains get as many sweeps as fit, at least LEAST_SWEEPS; samples that
    have probability 0 when the time is over are replaced by others, drawn at random.
    """

    sweeps: int = 200
    annealing: float = 0.5
    floor: float = -30.0
    restarts: int = 20
    seconds: float | None = None


@dataclass(frozen=True)
class Samples:
    """Assignments (B, n) and how they were drawn."""

    assignments: NDArray[np.int32]
    sampler: str  # "exact" or "gibbs", and what a time limit cost
    width: int


@asked_for("sampling")
def sample(
    model: Function,
    count: int,
    seed: Seed,
    *,
    memory_limit: int = MEMORY_LIMIT,
    gibbs: GibbsSettings | None = None,
    time_limit: float | None = None,
) -> Samples:
    """`count` samples: exact where elimination fits into `memory_limit` bytes, else Gibbs.

    With a `time_limit` (seconds), exact only where that fits too; chains become shorter.
    """
    if time_limit is not None:
        gibbs = replace(gibbs or GibbsSettings(), seconds=time_limit)
    plan_seed, draw_seed = _seed_sequence(seed).spawn(2)
    return _sample(model, _SampleOrder(count, plan_seed, draw_seed, memory_limit, gibbs))


@dataclass(frozen=True)
class _SampleOrder:
    """The size of a sample, its seeds and its limits."""

    count: int
    plan_seed: np.random.SeedSequence
    draw_seed: np.random.SeedSequence
    memory_limit: int
    gibbs: GibbsSettings | None


@singledispatch
def _sample(model: Function, order: _SampleOrder) -> Samples:
    raise ModelError(f"there is no sampler for a function of kind {type(model).__name__}")


@_sample.register(ChowLiuTree)
@_sample.register(CutsetNetwork)
def _sample_network(model: ChowLiuTree | CutsetNetwork, order: _SampleOrder) -> Samples:
    return Samples(model.sample(order.count, order.draw_seed), "exact", width=1)


@_sample.register
def _sample_tables(model: LogLinearModel, order: _SampleOrder) -> Samples:
    plan = make_plan(
        model.cardinalities,
        [f.scope for f in model.factors],
        seed=int(order.plan_seed.generate_state(1)[0]),
    )
    settings = order.gibbs or GibbsSettings()
    try:
        plan.require(order.memory_limit)
        if settings.seconds is not None and SECONDS_PER_ENTRY * plan.operations > settings.seconds:
            raise TooLarge("elimination takes longer than the time limit")
    except TooLarge:
        directed = Directed.of(model)
        if directed is not None and directed.is_normalised:
            drawn = directed.draw(order.count, np.random.default_rng(order.draw_seed))
            if drawn is not None:
                return Samples(drawn, "exact", plan.width)
        rows, note = _sample_chains(model, order.count, order.draw_seed, settings)
        return Samples(rows, f"gibbs{note}", plan.width)
    rows = sample_exact(model, order.count, order.draw_seed, plan, order.memory_limit)
    return Samples(rows, "exact", plan.width)


@_sample.register
def _sample_ruled(model: RuledModel, order: _SampleOrder) -> Samples:
    drawn = _sample(tabled_rules(model).model, order)
    return replace(drawn, assignments=drawn.assignments[:, : model.variables])


def _seed_sequence(seed: Seed) -> np.random.SeedSequence:
    if isinstance(seed, np.random.SeedSequence):
        return seed
    return np.random.SeedSequence(whole_number("seed", seed, 0))


def sample_exact(
    model: LogLinearModel, count: int, seed: Seed, plan: Plan, memory_limit: int = MEMORY_LIMIT
) -> NDArray[np.int32]:
    """Exact samples (count, n) by elimination and backward sampling."""
    plan.require(memory_limit)
    total = LogSum.of(compile_plan(plan, model.flat), model.flat, memory_limit=memory_limit)
    generator, tables = np.random.default_rng(seed), model.flat.values[np.newaxis]
    rows = total.samples(tables, count, generator, model.variables)[0]
    if count and rows.size and rows[0, 0] < 0:
        raise ModelError("no assignment has a positive probability: nothing to sample")
    return np.asarray(rows)


def _sweeps_within(tables: GibbsTables, count: int, settings: GibbsSettings) -> int:
    """How many sweeps of `count` chains fit into half the time, by timing a few of one chain."""
    assert settings.seconds is not None
    one = np.ones(1, dtype=np.uint64)
    tables.run(one, 1, settings.annealing)  # loads compiled code
    begin = timing.now()
    tables.run(one, LEAST_SWEEPS, settings.annealing)
    each = (timing.now() - begin) / LEAST_SWEEPS
    fit = int(0.5 * settings.seconds / max(each * count, 1e-12))
    return max(LEAST_SWEEPS, min(settings.sweeps, fit))


def sample_gibbs(
    model: LogLinearModel, count: int, seed: Seed, settings: GibbsSettings
) -> NDArray[np.int32]:
    """Samples (count, n), each the end of an annealed Gibbs chain of its own."""
    return _sample_chains(model, count, seed, settings)[0]


def _sample_chains(
    model: LogLinearModel, count: int, seed: Seed, settings: GibbsSettings
) -> tuple[NDArray[np.int32], str]:
    """The samples, and what the time limit cost, in words that follow the sampler's name."""
    from cmpe.sampling.chains import GibbsTables

    begin = timing.now()
    tables = GibbsTables.of(model, settings.floor)
    attempt_seeds = _seed_sequence(seed).spawn(1 + settings.restarts)
    rows = np.zeros((count, model.variables), dtype=np.int32)
    missing, sweeps, note = np.arange(count), settings.sweeps, ""
    if settings.seconds is not None:
        sweeps = _sweeps_within(tables, count, settings)
        note = "" if sweeps == settings.sweeps else f" of {sweeps} sweeps"
    directed: Directed | None = None
    for number, attempt in enumerate(attempt_seeds):
        generator = np.random.default_rng(attempt)
        seeds = generator.integers(0, 2**32, size=count, dtype=np.uint64)
        begun = None if directed is None else directed.draw(len(missing), generator)
        rows[missing] = tables.run(seeds[missing], sweeps, settings.annealing, begun)
        missing = missing[np.isneginf(model.value(rows[missing]))]
        if not len(missing):
            return rows, note if directed is None else f"{note} from ancestral draws"
        over = settings.seconds is not None and timing.now() - begin > settings.seconds
        if over and len(missing) < count:
            samples = np.setdiff1d(np.arange(count), missing)
            rows[missing] = rows[generator.choice(samples, len(missing))]
            return rows, f"{note}, {len(missing)} of {count} repeated"
        if number == 0:
            directed = Directed.of(model)
        elif over:
            break
    raise ModelError(
        f"Gibbs sampling found no assignment of positive probability for {len(missing)} of "
        f"{count} samples after {number} restarts"
    )
