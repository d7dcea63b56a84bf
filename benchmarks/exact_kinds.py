"""Parts `kinds` and `growth` of `benchmarks.exact`: generated models of other shapes and sizes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

import cmpe
from benchmarks.exact_measure import (
    Cell,
    Rows,
    Settings,
    largest,
    least,
    measure,
    run_cell,
    total,
    unconstrained,
)
from benchmarks.exact_paper import HIGHS, correctness
from benchmarks.frame import Record, Recorder, print_table
from benchmarks.targets import Check
from cmpe.generation import grid
from cmpe.sampling import GibbsSettings, sample_gibbs

EVIDENCE = 0.6
VARIANCE = 0.1
PERCENTILE = 30
SAMPLER_MEMORY = 1 << 26  # bytes; above it samples come from Gibbs chains
BRIEF = GibbsSettings(sweeps=50)
CONSTRAINED = 0.75  # share of the rows of part `growth`
KINDS_COLUMNS = (
    "model", "variables", "free", "width", "constraints", "constrained", "infeasible", "unproved",
    "handed_on", "wrong", "mean_us", "ready_us", "constrained_ready_us", "same_mean_us", "highs_ms",
    "times_highs", "cpu_share",
)  # fmt: skip
GROWTH_COLUMNS = (
    "model", "variables", "free", "width", "rows", "constrained", "unproved", "handed_on",
    "ready_us", "mean_us", "plan_ms", "ns_per_variable", "cpu_share",
)  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """A model and how many constraints it gets."""

    name: str
    model: cmpe.LogLinearModel
    constraints: int = 1


def kinds(settings: Settings, recorder: Recorder) -> list[Check]:
    """Several constraints, several values, tables of three variables."""
    for kind in generated_kinds(settings.seed):
        cell = generated_cell(kind, settings)
        methods = settings.available(HIGHS)
        recorder.add(**run_cell(cell, methods, settings.few, settings.limit))
    cells = list(recorder.records)
    print_table(cells, KINDS_COLUMNS)
    return [
        *correctness(cells),
        Check("times HiGHS, least, on the same rows", least(cells, "times_highs"), ">=", 1),
    ]


def generated_kinds(seed: int) -> Iterator[Kind]:
    binary, valued = (2,) * 80, tuple(3 + v % 3 for v in range(80))
    for count in (2, 3):
        yield Kind(f"grid 15x15, {count} constraints", grid(15, 15, seed=seed), count)
        graph = _random_model(binary, _random_scopes(80, 160, 2, seed), seed)
        yield Kind(f"graph of 160 pairs, {count} constraints", graph, count)
    for values in (3, 4, 5):
        yield Kind(f"grid 12x12, {values} values", grid(12, 12, values=values, seed=seed))
    pairs = _random_model(valued, _random_scopes(80, 160, 2, seed), seed)
    yield Kind("graph of 160 pairs, 3-5 values", pairs)
    yield Kind("graph of 160 pairs, 3-5 values, 2 constraints", pairs, 2)
    corners = _random_model((2,) * 144, _corners(12), seed)
    yield Kind("grid 12x12, arity 3", corners)
    triples = _random_scopes(80, 80, 3, seed)
    yield Kind("graph of 80 triples", _random_model(binary, triples, seed))
    yield Kind("graph of 80 triples, 3-5 values", _random_model(valued, triples, seed))


def _random_model(
    cardinalities: tuple[int, ...], scopes: Iterable[tuple[int, ...]], seed: int
) -> cmpe.LogLinearModel:
    """N(0, 1) log-tables over every variable and every scope."""
    generator = np.random.default_rng(seed)
    alone = ((v,) for v in range(len(cardinalities)))
    tables = [
        (scope, generator.normal(size=[cardinalities[v] for v in scope]))
        for scope in (*alone, *scopes)
    ]
    return cmpe.LogLinearModel.from_tables(cardinalities, tables)


def _random_scopes(variables: int, count: int, arity: int, seed: int) -> list[tuple[int, ...]]:
    generator = np.random.default_rng(seed)
    drawn = (generator.choice(variables, size=arity, replace=False) for _ in range(count))
    return [tuple(sorted(scope.tolist())) for scope in drawn]


def _corners(side: int) -> list[tuple[int, ...]]:
    """Every vertex of a grid with its right and its lower neighbour."""
    inner = (r * side + c for r in range(side - 1) for c in range(side - 1))
    return [(v, v + 1, v + side) for v in inner]


def generated_cell(kind: Kind, settings: Settings) -> Cell:
    """Constraints and rows as `generate` makes them, for any number of constraints."""
    rows, *noise = np.random.SeedSequence(settings.seed).spawn(1 + kind.constraints)
    observed = _observed(kind.model.variables, settings.seed)
    constraints = tuple(_constraint(kind.model, seed) for seed in noise)
    problem = cmpe.Problem(kind.model, constraints, observed, kind.name)
    sampled = _samples(kind.model, settings.made_rows, rows)
    about = {"model": kind.name, "evidence": EVIDENCE, "constraints": kind.constraints}
    return Cell(about, problem, sampled[:, list(observed)])


def _constraint(model: cmpe.LogLinearModel, seed: np.random.SeedSequence) -> cmpe.Constraint:
    noise, quantile = seed.spawn(2)
    function = model.perturb(VARIANCE, noise)
    values = np.sort(function.value(_samples(function, 100, quantile)))
    return cmpe.Constraint(function, values[PERCENTILE - 1])


def _samples(model: cmpe.LogLinearModel, count: int, seed: np.random.SeedSequence) -> Rows:
    return cmpe.sample(model, count, seed, memory_limit=SAMPLER_MEMORY).assignments


def _observed(variables: int, seed: int) -> tuple[int, ...]:
    size = round(EVIDENCE * variables)
    chosen = np.random.default_rng(seed).choice(variables, size=size, replace=False)
    return tuple(sorted(chosen.tolist()))


def growth(settings: Settings, recorder: Recorder) -> list[Check]:
    """Grids of growing side; rows from short Gibbs chains, q from the rows' own optima."""
    for side in settings.sides:
        cell = _growth_cell(side, settings)
        measured = measure(cell.problem, cell.rows, limit=settings.limit)
        recorder.add(
            **cell.about,
            **cell.counts,
            **measured.record(),
            ns_per_variable=1e3 * measured.ready_us / side**2,
        )
    cells = list(recorder.records)
    print_table(cells, GROWTH_COLUMNS)
    name = "exponent of the time a row in the number of variables"
    return [
        Check("unproved rows", total(cells, "unproved"), "<=", 0),
        Check(f"{name}, plan ready", _exponent(cells, "ready_us"), "<=", 1.2),
        Check(f"{name}, of the plan alone", _exponent(cells, "plan_ms"), "<=", 1.2),
        Check("largest plan, s", 1e-3 * largest(cells, "plan_ms"), "<=", 10),
    ]


def _exponent(cells: list[Record], field: str) -> float:
    """b of the best fit field = a variables^b."""
    if len(cells) < 2:
        return math.nan
    logs = np.log([[cell["variables"], cell[field]] for cell in cells])  # (sides, 2)
    return float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])


def _growth_cell(side: int, settings: Settings) -> Cell:
    model = grid(side, side, seed=settings.seed)
    observed = _observed(model.variables, settings.seed)
    count = max(32, settings.growth_entries // model.variables)
    rows = sample_gibbs(model, count, settings.seed, BRIEF)[:, list(observed)]
    second = model.perturb(VARIANCE, settings.seed + 1)
    values = second.value(unconstrained(model, observed, rows))
    at_most = float(np.quantile(values, 1 - CONSTRAINED))
    problem = cmpe.Problem(model, (cmpe.Constraint(second, at_most),), observed)
    about = {
        "model": f"grid {side}x{side}",
        "side": side,
        "evidence": EVIDENCE,
        "rows_from": f"Gibbs, {BRIEF.sweeps} sweeps",
        "q_from": f"quantile {1 - CONSTRAINED:g} of t at the unconstrained optima of the rows",
    }
    return Cell(about, problem, rows)
