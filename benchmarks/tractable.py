"""Table: Chow-Liu trees and cutset networks learned from data, and CMPE on them.

    taskset -c 1 python -m benchmarks.tractable [--parts likelihood,exact] [--spflow PYTHON]
    python -m benchmarks.tractable --quick

Parts, each of which leaves results/tractable_PART.jsonl (with --quick: in another folder):
  likelihood  mean test log-likelihood (nats) beside the published one of Chow-Liu trees; seconds;
              SPFlow's `learn_cnet`, if --spflow names a Python that has it
  exact       the paper's five tractable problems: Chow-Liu trees, 60 % evidence, q at 10 and 80,
              200 rows each, `exact` beside SCIP
  leaves      the same with cutset networks, not expanded: `exact` and SCIP leaf by leaf
  relaxed     cutset networks at relaxed points, leaf by leaf or expanded, by depth

Validation data choose smoothing and pruning; test data are only reported on. Seconds of learning
are CPU time of one thread, the choice of smoothing included. Beside the wall-clock ratios of
`benchmarks.exact`, `times_scip_cpu` compares CPU time, which other work on a core does not change:
`exact` on SCIP's rows, repeated to 200, plan included. Data: the public binary data sets in
../shared/data/density.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

import cmpe
from benchmarks.exact_measure import Cell, largest, least, run_cell, warm_up
from benchmarks.exact_paper import correctness
from benchmarks.frame import HERE, Record, Recorder, answer_each, parser, print_table, race
from benchmarks.targets import Check, run_parts
from cmpe.formats.debd import read_debd

DATA = HERE.parent.parent / "shared" / "data" / "density"
SOURCE = "public binary data sets in ../shared/data/density"
# Test log-likelihood of Chow-Liu trees, as published.
PUBLISHED = {
    "nltcs": -6.76,
    "dna": -87.66,
    "bbc": -261.86,
    "cwebkb": -163.47,
    "c20ng": -164.13,
    "ad": -16.36,
}
PROBLEMS = ("dna", "bbc", "ad", "cwebkb", "c20ng")
PERCENTILES = (10, 80)
BATCH = 200
SAMPLES = 2_000  # a tenth of them are test rows
SCIP = "milp:scip"
SPFLOW_LIMIT = 180.0  # seconds of one run
# Its default, the same with larger leaves, and a random choice of splits. Its default learns a tree
# for every column and split: on 1,058 columns it did not end within 100 s.
SPFLOW_RUNS = (("naive_mle", 200), ("naive_mle", 1_000), ("random", 1_000))
SPFLOW_NARROW = 200  # columns up to which its default is tried

Rows = NDArray[np.uint8]
Learned = cmpe.ChowLiuTree | cmpe.CutsetNetwork
Result = TypeVar("Result")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options().parse_args(arguments)
    options.references = warm_up([SCIP])
    parts = {part: partial(PARTS[part], options) for part in options.parts}
    return run_parts("tractable", parts, options, SOURCE)


def _options() -> argparse.ArgumentParser:
    options = parser(__doc__)
    options.add_argument("--parts", type=lambda text: text.split(","), default=list(PARTS))
    options.add_argument("--spflow", help="a Python that can import SPFlow 0.0.48")
    options.add_argument("--rows", type=int, default=5, help="of a cell that SCIP gets")
    options.add_argument("--time-limit", type=float, default=60.0, help="of SCIP, seconds a row")
    options.add_argument("--quick", action="store_true", help="the smallest sets, few rows")
    return options


def _sets(options: argparse.Namespace, names: Iterable[str]) -> list[str]:
    return [name for name in names if not options.quick or name in ("nltcs", "dna")]


@cache
def _data(name: str) -> dict[str, Rows]:
    return {part: read_debd(DATA / f"{name}.{part}.data.gz") for part in ("train", "valid", "test")}


def likelihood(options: argparse.Namespace, recorder: Recorder) -> list[Check]:
    """Learn, and report on test data."""
    small = _data("nltcs")["train"][:100]
    cmpe.learn_cutset(small, valid=small)  # loads compiled code
    for name in _sets(options, PUBLISHED):
        data = _data(name)
        train, valid = data["train"], data["valid"]
        record: Record = {"data": name, "columns": train.shape[1]}
        record |= {"rows": len(train), "published": PUBLISHED[name]}
        tree, seconds = _timed(partial(cmpe.learn_chow_liu, train, valid=valid))
        _, one = _timed(partial(cmpe.learn_chow_liu, train, smoothing=1.0))
        record |= _scores("chow_liu", tree, data, seconds) | {"chow_liu_one_s": one}
        network, seconds = _timed(partial(cmpe.learn_cutset, train, valid=valid))
        record |= _scores("cutset", network, data, seconds)
        record |= {"leaves": network.leaves, "depth": network.depth}
        fixed = cmpe.CutsetSettings(smoothing=1.0, inheritance=100.0)
        _, one = _timed(partial(cmpe.learn_cutset, train, fixed, valid=valid))
        record |= {"cutset_one_s": one, **_spflow(options, name)}
        recorder.add(**record)
    records = list(recorder.records)
    print_table(records, LIKELIHOOD_COLUMNS)
    return list(_likelihood_checks(records))


LIKELIHOOD_COLUMNS = (
    "data", "columns", "published", "chow_liu_test", "chow_liu_s", "chow_liu_one_s", "cutset_test",
    "cutset_s", "cutset_one_s", "leaves", "depth", "spflow_test", "spflow_s",
)  # fmt: skip


def _likelihood_checks(records: Sequence[Record]) -> Iterable[Check]:
    for record in records:
        name = record["data"]
        above = record["chow_liu_test"] - record["published"]
        yield Check(f"{name}: Chow-Liu above the published figure", above, ">=", -0.1)
        gain = record["cutset_test"] - record["chow_liu_test"]
        wanted = 0.5 if name == "nltcs" else 0.0
        yield Check(f"{name}: cutset network above Chow-Liu", gain, ">=", wanted)
    yield Check("slowest Chow-Liu tree, s", largest(records, "chow_liu_s"), "<=", 2)
    yield Check("slowest cutset network, s", largest(records, "cutset_s"), "<=", 30)


def _timed(work: Callable[[], Result]) -> tuple[Result, float]:
    begin = time.process_time()
    result = work()
    return result, time.process_time() - begin


def _scores(prefix: str, model: Learned, data: Mapping[str, Rows], seconds: float) -> Record:
    found = {
        f"{prefix}_{part}": float(model.log_likelihood(rows).mean()) for part, rows in data.items()
    }
    return {**found, f"{prefix}_s": seconds}


def _spflow(options: argparse.Namespace, name: str) -> Record:
    """SPFlow's `learn_cnet`, the better of its settings by validation data, in its own process."""
    if options.spflow is None:
        return {}
    script = str(HERE / "tractable_spflow.py")
    runs: list[Record] = []
    for split, rows in SPFLOW_RUNS:
        if split == "naive_mle" and _data(name)["train"].shape[1] > SPFLOW_NARROW:
            continue
        command = [options.spflow, script, str(DATA / name), split, str(rows)]
        about = {"split": split, "minimum_rows": rows}
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=True, timeout=SPFLOW_LIMIT
            )
            runs.append({**about, **json.loads(done.stdout.splitlines()[-1])})
        except subprocess.TimeoutExpired:
            runs.append({**about, "stopped_after_s": SPFLOW_LIMIT})
        except subprocess.CalledProcessError as error:
            runs.append({**about, "failed": error.stderr.strip().splitlines()[-1][:200]})
    finished = [run for run in runs if "valid" in run]
    best = max(finished, key=lambda run: run["valid"], default={})
    return {"spflow_runs": runs, **{f"spflow_{key}": value for key, value in best.items()}}


def exact(options: argparse.Namespace, recorder: Recorder) -> list[Check]:
    """The paper's tractable problems: one function per variable."""

    def model(name: str) -> cmpe.LogLinearModel:
        data = _data(name)
        return cmpe.learn_chow_liu(data["train"], valid=data["valid"]).to_model()

    for name in _sets(options, PROBLEMS):
        for percentile in PERCENTILES:
            cell = _cell(name, model(name), percentile, options.seed)
            methods = options.references
            walls = run_cell(cell, methods, options.rows, options.time_limit, batch=BATCH)
            recorder.add(**walls, **_cpu(cell, cell.picked(options.rows), options))
    cells = list(recorder.records)
    print_table(cells, EXACT_COLUMNS)
    return [
        *correctness(cells),
        Check("times SCIP, least, CPU time, same rows", least(cells, "times_scip_cpu"), ">=", 200),
        Check("times SCIP, least, wall clock, same rows", least(cells, "times_scip"), ">=", 200),
    ]


def _cpu(cell: Cell, picked: NDArray[np.int32], options: argparse.Namespace) -> Record:
    """CPU time a row: `exact` on a problem without a plan, SCIP as it is."""
    tiled = np.resize(picked, (BATCH, picked.shape[1]))
    ours = race(
        {"exact": lambda: answer_each(replace(cell.problem), tiled, "exact")},
        clock=time.process_time,
    )
    record: Record = {"exact_cpu_us": 1e6 * ours["exact"].median / BATCH}
    if SCIP in options.references:
        begin = time.process_time()
        cmpe.solve(cell.problem, picked, method=SCIP, time_limit=options.time_limit)
        record["scip_cpu_ms"] = 1e3 * (time.process_time() - begin) / len(picked)
        record["times_scip_cpu"] = 1e3 * record["scip_cpu_ms"] / record["exact_cpu_us"]
    return record


EXACT_COLUMNS = (
    "model", "percentile", "variables", "free", "width", "rows", "distinct", "constrained",
    "unproved", "wrong", "mean_us", "each_mean_us", "same_mean_us", "scip_ms", "times_scip",
    "exact_cpu_us", "scip_cpu_ms", "times_scip_cpu", "cpu_share",
)  # fmt: skip


def _cell(
    name: str, model: cmpe.LogLinearModel | cmpe.CutsetNetwork, percentile: int, seed: int
) -> Cell:
    recipe = cmpe.Recipe(percentile=percentile, samples=SAMPLES, seed=seed)
    made = cmpe.generate(model, recipe, name=name)
    return Cell({"model": name, "percentile": percentile}, made.problem, made.test)


def leaves(options: argparse.Namespace, recorder: Recorder) -> list[Check]:
    """Cutset networks as objective and constraint, leaf by leaf."""
    for name in _sets(options, ("nltcs", *PROBLEMS)):
        data = _data(name)
        network = cmpe.learn_cutset(data["train"], valid=data["valid"])
        for percentile in PERCENTILES:
            cell = _cell(name, network, percentile, options.seed)
            recorder.add(**_leaf_record(cell, options))
    cells = list(recorder.records)
    print_table(cells, LEAF_COLUMNS)
    return [
        *correctness(cells),
        Check("times SCIP, least, on the same rows", least(cells, "times_scip"), ">=", 50),
    ]


LEAF_COLUMNS = (
    "model", "percentile", "variables", "free", "joint_leaves", "rows", "unproved", "wrong",
    "first_us", "mean_us", "same_mean_us", "scip_ms", "times_scip",
)  # fmt: skip


def _leaf_record(cell: Cell, options: argparse.Namespace) -> Record:
    """`exact` on all rows and on SCIP's; both go leaf by leaf, and prune alike."""
    problem = cell.problem
    count = 1 if options.rows < 5 else 2
    picked = cell.rows[:count]
    first, mean = (_seconds(lambda: cmpe.solve(problem, cell.rows)) for _ in range(2))
    tiled = np.resize(picked, cell.rows.shape)
    same = min(_seconds(lambda: answer_each(problem, tiled, "exact")) for _ in range(3))
    answers = cmpe.solve(problem, cell.rows)
    record: Record = {
        **cell.about,
        "variables": problem.variables,
        "free": len(problem.free),
        "joint_leaves": len(problem.branches),
        "rows": len(cell.rows),
        "unproved": int((answers.status > cmpe.Status.INFEASIBLE.code).sum()),
        "first_us": 1e6 * first / len(cell.rows),
        "mean_us": 1e6 * mean / len(cell.rows),
        "same_mean_us": 1e6 * same / len(cell.rows),
    }
    if SCIP not in options.references:
        return record
    theirs = cmpe.solve(problem, picked, method=SCIP, time_limit=options.time_limit)
    ours = answers.take(np.arange(count))
    both = ours.feasible & (theirs.status == cmpe.Status.OPTIMAL)
    difference = np.abs(ours.objective - theirs.objective)[both]
    return {
        **record,
        "compared": count,
        "scip_ms": 1e3 * theirs.seconds.mean(),
        "times_scip": 1e6 * theirs.seconds.mean() / record["same_mean_us"],
        "wrong": int((difference > 2e-6 * np.maximum(1, np.abs(ours.objective[both]))).sum()),
    }


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def relaxed(options: argparse.Namespace, recorder: Recorder) -> list[Check]:
    """How the native evaluator and the expansion grow with the depth."""
    from benchmarks.tractable_relaxed import COLUMNS, relaxed_records

    for name in _sets(options, ("nltcs", "dna")):
        for record in relaxed_records(name, _data(name), options.seed):
            recorder.add(**record)
    print_table(recorder.records, COLUMNS)
    return []


PARTS: Mapping[str, Callable[[argparse.Namespace, Recorder], list[Check]]] = {
    "likelihood": likelihood,
    "exact": exact,
    "leaves": leaves,
    "relaxed": relaxed,
}

if __name__ == "__main__":
    sys.exit(main())
