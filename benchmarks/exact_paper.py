"""Parts `paper`, `hard` and `less` of `benchmarks.exact`: the paper's five models."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import cmpe
from benchmarks.exact_measure import (
    BATCH,
    Cell,
    Rows,
    Settings,
    geometric_mean,
    largest,
    least,
    run_cell,
    total,
)
from benchmarks.frame import Record, Recorder, model_files, print_table
from benchmarks.targets import Check, none_of
from cmpe.generation import perturbed

HIGHS, SCIP, TOULBAR2 = "milp:highs", "milp:scip", "toulbar2"
COLUMNS = (
    "model", "evidence", "percentile", "width", "distinct", "constrained", "unproved", "wrong",
    "mean_us", "each_mean_us",
    "ready_us", "plan_ms", "constrained_ready_us", "same_mean_us", "highs_ms", "scip_ms",
    "toulbar2_ms", "times_scip", "times_best", "cpu_share",
)  # fmt: skip
FIRST_CALL = """
import json, time
begin = time.perf_counter()
import cmpe
from cmpe.generation import grid
imported = time.perf_counter()
model = grid(15, 15)
problem = cmpe.Problem(model, [cmpe.Constraint(model.perturb(0.1, 1), 150.0)], range(135))
rows = [[(i >> j) & 1 for j in range(135)] for i in range(8)]
ready = time.perf_counter()
answers = cmpe.solve(problem, rows, method="exact")
call = time.perf_counter() - ready
print(json.dumps({"import_s": imported - begin, "first_call_s": call, "status": answers.labels}))
"""


@dataclass(frozen=True, eq=False)
class Source:
    """One of the paper's models with its samples, drawn once for every part and q."""

    name: str
    model: cmpe.LogLinearModel
    recipe: cmpe.Recipe
    train: Rows  # (N, n): all variables
    test: Rows


def sources(settings: Settings) -> Iterator[Source]:
    """The models of the run, one at a time."""
    for name in settings.models:
        yield _source(name, settings.samples, settings.seed)


@cache
def _source(name: str, samples: int, seed: int) -> Source:
    """`generate` with everything observed: its samples as they are, whatever is evidence later."""
    with model_files([name]) as (path,):
        model = cmpe.read_uai(path)
    recipe = cmpe.Recipe(samples=samples, seed=seed)
    everything = replace(recipe, evidence_fraction=1.0)
    made = cmpe.generate(model, everything, noisy=_nothing(model))
    return Source(name, model, recipe, made.train, made.test)


def _nothing(model: cmpe.LogLinearModel) -> cmpe.LogLinearModel:
    """A model of the same variables that is free to sample."""
    return cmpe.LogLinearModel(model.cardinalities)


@cache
def _constraint(source: Source, variance: float, percentile: int) -> cmpe.Constraint:
    """M2 and q as `generate` makes them, without sampling M1 again."""
    recipe = replace(source.recipe, noise_variance=variance, percentile=percentile, samples=2)
    second = perturbed(source.model, recipe)
    made = cmpe.generate(_nothing(source.model), recipe, noisy=second)
    return made.problem.constraints[0]


def problem_of(
    source: Source, percentile: int, *, evidence: float = 0.6, variance: float = 0.1
) -> cmpe.Problem:
    """What `generate` makes of the model with these choices."""
    recipe = replace(source.recipe, evidence_fraction=evidence, samples=2)
    nothing = _nothing(source.model)
    observed = cmpe.generate(nothing, recipe, noisy=nothing).problem.evidence_variables
    constraint = _constraint(source, variance, percentile)
    return cmpe.Problem(source.model, (constraint,), observed, source.name)


def cell_of(
    source: Source,
    percentile: int,
    *,
    evidence: float = 0.6,
    variance: float = 0.1,
    rows: int | None = None,
) -> Cell:
    """That problem with all test rows, or with the first distinct ones, `rows` at most."""
    problem = problem_of(source, percentile, evidence=evidence, variance=variance)
    about = {
        "model": source.name,
        "evidence": evidence,
        "variance": variance,
        "percentile": percentile,
    }
    cell = Cell(about, problem, source.test[:, list(problem.evidence_variables)])
    return cell if rows is None else replace(cell, rows=cell.rows[cell.distinct[:rows]])


def paper(settings: Settings, recorder: Recorder) -> list[Check]:
    """60 % evidence, q at 10, 30 and 80."""
    methods = settings.available(HIGHS, SCIP, TOULBAR2)
    for source in sources(settings):
        for percentile in (10, 30, 80):
            cell = cell_of(source, percentile)
            recorder.add(**run_cell(cell, methods, settings.rows, settings.limit))
    cells = list(recorder.records)
    print_table(cells, COLUMNS)
    first = _first_call()
    recorder.add(**first)
    return [
        *correctness(cells),
        Check("slowest cell, us a row, plan included", largest(cells, "mean_us"), "<=", 100),
        *_paper_ratios(cells),
        Check("first call of a new process, s", first["first_call_s"], "<=", 2),
    ]


def _paper_ratios(cells: Sequence[Record]) -> Iterator[Check]:
    for end, where in (("", "on the same rows"), ("_all", "exact on all rows")):
        scip = geometric_mean(cells, f"times_scip{end}")
        yield Check(f"times SCIP, geometric mean, {where}", scip, ">=", 1_000)
        best = least(cells, f"times_best{end}")
        yield Check(f"times the best back-end, least, {where}", best, ">=", 50)


def correctness(cells: Sequence[Record], *, must_prove: bool = True) -> list[Check]:
    """The two targets whose miss is a wrong answer."""
    unproved = total(cells, "unproved")
    return [
        Check("unproved rows", unproved, "<=", 0, decisive=must_prove),
        none_of("rows in disagreement", total(cells, "wrong")),
    ]


def _first_call() -> Record:
    """Import and first call in a new process; compiled code is on disk by now."""
    command = [sys.executable, "-c", FIRST_CALL]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: Record = json.loads(done.stdout)
    return found


def hard(settings: Settings, recorder: Recorder) -> list[Check]:
    """t nearly h, and q low: the search is at its hardest."""
    methods = settings.available(HIGHS, SCIP)
    for source in sources(settings):
        cell = cell_of(source, 1, variance=0.001)
        recorder.add(**run_cell(cell, methods, settings.few, settings.limit))
    cells = list(recorder.records)
    print_table(cells, COLUMNS)
    return [
        *correctness(cells, must_prove=False),
        Check(
            "times the best back-end, least, on the same rows", least(cells, "times_best"), ">=", 1
        ),
    ]


def less(settings: Settings, recorder: Recorder) -> list[Check]:
    """30 % and 10 % evidence."""
    methods = settings.available(HIGHS)
    for evidence, rows in ((0.3, None), (0.1, settings.wide_rows)):
        for source in sources(settings):
            for percentile in (30, 80):
                cell = cell_of(source, percentile, evidence=evidence, rows=rows)
                batch = rows or BATCH
                limit = settings.wide_limit
                recorder.add(**run_cell(cell, methods, settings.few, limit, batch=batch))
    cells = list(recorder.records)
    print_table(cells, COLUMNS)
    wide, wider = ([c for c in cells if c["evidence"] == share] for share in (0.3, 0.1))
    times = "10 %: times HiGHS, least, on the same rows"
    return [
        *correctness(cells),
        Check("30 %: slowest cell, us a row, plan included", largest(wide, "mean_us"), "<=", 2_000),
        Check(f"{times}, plan ready", least(wider, "times_highs_ready"), ">=", 1),
        Check(f"{times}, plan included", least(wider, "times_highs"), ">=", 1),
    ]
