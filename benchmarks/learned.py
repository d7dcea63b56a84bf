"""The learned solver against proved optima, the paper's figures, and starts without a network.

    python -m benchmarks.learned train [--kinds tuned paper]   trains what is not there yet
    python -m benchmarks.learned                               evaluates it, one core

Models, q and seeds as in the paper's tables: 60 % evidence, 9,000 training and 1,000 test rows.
`train` keeps a run directory per model, q, kind and seed under --runs; runs made elsewhere (see
learned_gpu.py) may lie beside them as .pt files. Every answer is rounded; regret is against the
proved optimum, for all rows and for those where the constraint binds. "paper" is the regret that
the paper's table implies: its gap times its ILP objective.
"""

from __future__ import annotations

import argparse
import csv
import pickle
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import cmpe
from benchmarks.frame import HERE, Recorder, answer_each, model_files, parser, print_table
from benchmarks.learned_gpu import ALPHA
from cmpe.evaluation import Evaluation, Reference, evaluate, reference
from cmpe.learning.losses.catalogue import PAPER_LOSSES
from cmpe.learning.runs import Calibration, Trained, is_run, read_trained
from cmpe.learning.solver import NeuralSolver
from cmpe.learning.training.config import TrainingConfig, paper, tuned
from cmpe.learning.training.fitting import Session, fit
from cmpe.solution import Solutions
from cmpe.solvers.local import improve

PAPER = HERE.parent.parent / "shared" / "paper" / "results.csv"
MODELS = ("Segmentation_12", "Segmentation_14", "Segmentation_15", "Grids_17", "Grids_18")
PERCENTILES = (10, 80)
MARGINS = (-1.0, 0.0, 1.0, 2.0, 4.0, 8.0)  # of the six-margin variant
REPEATS = 5
# One beta and one rho for the preset paper: its whole grid would take hours on a CPU.
SETTINGS: dict[str, dict[str, Any]] = {"ss_cmpe": {**ALPHA, "beta": 1.0}}
SETTINGS["ss_cmpe_pen"] = {**ALPHA, "beta": 1.0, "rho": 0.1}

Cell = tuple[str, int]  # model, percentile


def problem_of(cell: Cell, folder: Path) -> tuple[cmpe.Problem, Any, Any]:
    """The problem of a cell with its training and test rows; made once."""
    model, percentile = cell
    path = folder / f"{model}-{percentile}.pkl"
    if not path.exists():
        with model_files([model]) as (file,):
            source = cmpe.read_uai(file)
        made = cmpe.generate(source, cmpe.Recipe(percentile=percentile), name=model)
        folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pickle.dumps((made.problem, made.train, made.test)))
    problem, train, test = pickle.loads(path.read_bytes())
    return problem, train, test


def wanted(options: argparse.Namespace) -> Iterator[tuple[Cell, str, TrainingConfig]]:
    """Every run: its cell, its name and its config."""
    for model in options.models:
        for percentile in options.percentiles:
            cell = (model, percentile)
            if "tuned" in options.kinds:
                for seed in options.seeds:
                    yield cell, f"tuned-{model}-{percentile}-{seed}", tuned(seed=seed)
            if "paper" in options.kinds:
                for loss in PAPER_LOSSES:
                    config = paper(loss, **SETTINGS.get(loss, {}))
                    yield cell, f"paper-{model}-{percentile}-{loss}", config


def train(options: argparse.Namespace) -> None:
    """Train what is not there yet."""
    for cell, name, config in wanted(options):
        out = options.runs / name
        if is_run(out) or out.with_suffix(".pt").exists():
            continue
        problem, rows, _ = problem_of(cell, options.runs)
        begin = time.perf_counter()
        session = Session(out=out, cache=options.runs, checkpoint_minutes=60.0)
        solver = fit(problem, rows, config, session)
        spent = time.perf_counter() - begin
        print(f"{name}: {solver.trained.epochs} epochs, {spent:.1f} s", flush=True)


def trained_run(options: argparse.Namespace, name: str) -> Trained | None:
    """A run directory, or what learned_gpu.py left."""
    out = options.runs / name
    if is_run(out):
        return read_trained(out)
    if not out.with_suffix(".pt").exists():
        return None
    import torch

    kept = torch.load(out.with_suffix(".pt"), weights_only=True)
    seen = tuple(Calibration(**c) for c in kept["calibration"])
    config = TrainingConfig.from_json(kept["config"])
    return Trained(config, kept["digest"], kept["parameters"], seen, kept["epochs"])


def papers_figures() -> dict[tuple[str, int, str, str], float]:
    """(model, q, method, metric) to the mean that the paper prints."""
    if not PAPER.exists():
        return {}
    with PAPER.open(encoding="utf-8") as stream:
        return {
            (r["dataset"], int(r["q"]), r["method"], r["metric"]): float(r["mean"])
            for r in csv.DictReader(stream)
            if r["q"].isdigit()
        }


def papers(cell: Cell, method: str, known: dict[tuple[str, int, str, str], float]) -> Any:
    """(violation rate, regret in nats) that the paper's table implies, or (None, None)."""
    gap, best = (known.get((*cell, m, k)) for m, k in ((method, "gap"), ("ilp", "objective")))
    regret = None if gap is None or best is None else gap * best
    return known.get((*cell, method, "violations")), regret


def timed(answer: Callable[[], Solutions]) -> tuple[Solutions, float]:
    """The answers, and the median microseconds of CPU time a row."""
    answer()
    seconds = []
    for _ in range(REPEATS):
        begin = time.process_time()
        found = answer()
        seconds.append(time.process_time() - begin)
    return found, 1e6 * float(np.median(seconds)) / len(found)


def record_of(result: Evaluation, microseconds: float) -> dict[str, Any]:
    """What the table shows of one method."""
    record: dict[str, Any] = {"us_per_row": microseconds}
    for name, metrics in (("", result.every), ("constrained_", result.constrained)):
        record[f"{name}rows"], record[f"{name}distinct"] = metrics.rows, metrics.distinct
        record[f"{name}regret"] = metrics.regret.mean
        record[f"{name}feasible_regret"] = metrics.feasible_regret.mean
        record[f"{name}gap"] = metrics.gap.mean
        record[f"{name}violation"] = metrics.violation.mean
        record[f"{name}certified_gap"] = metrics.certified_gap.mean
    return record


def baselines(against: Reference) -> Iterator[tuple[str, Callable[[], Solutions]]]:
    """The same repair without a network, and the engines, each row on its own."""
    problem, rows = against.problem, against.evidence
    instances = problem.given(rows)
    free = instances.conditioning.free
    cards = np.array(problem.objective.cardinalities)[list(free)]
    random = instances.complete(np.random.default_rng(0).integers(0, cards, (len(rows), len(free))))
    nothing = np.full_like(random, -1)

    def repaired(start: Any) -> Callable[[], Solutions]:
        return lambda: Solutions.of(problem, improve(instances, start), method="repair")

    yield "repair from random", repaired(random)
    yield "repair from ICM", repaired(nothing)
    for method in ("lagrangian", "exact"):
        yield method, partial(answer_each, problem, rows, method)


def networks(
    solver: NeuralSolver, against: Reference, allowed: float
) -> Iterator[tuple[str, Callable[[], Solutions]]]:
    """A trained network, stage by stage."""
    margin = (solver.calibrated_margin(allowed),)
    plain: dict[str, Any] = {"repair": False, "certificate": "none"}
    stages: dict[str, dict[str, Any]] = {
        "network": {**plain, "margins": margin},
        "network, six margins": {**plain, "margins": MARGINS},
        "network + repair": {"certificate": "none", "margins": margin},
        "network + repair + predicted bound": {"certificate": "predicted", "margins": margin},
        "network + repair + optimal bound": {"certificate": "optimal", "margins": margin},
    }
    if len(solver.trained.config.margins) == 1:
        stages = {"network": {**plain, "margins": (0.0,)}}
    for name, told in stages.items():
        staged = solver.with_stages(**told)
        yield name, partial(staged.solve, against.problem, against.evidence)


def measure(options: argparse.Namespace) -> None:
    """Evaluate every run that is there."""
    known = papers_figures()
    with Recorder("learned", options) as recorder:
        for model in options.models:
            for percentile in options.percentiles:
                cell = (model, percentile)
                problem, _, test = problem_of(cell, options.runs)
                against = reference(problem, test)
                for name, answer in baselines(against):
                    found, spent = timed(answer)
                    result = record_of(evaluate(found, against), spent)
                    recorder.add(model=model, q=percentile, method=name, **result)
                for run in wanted(options):
                    if run[0] == cell:
                        _measure_run(recorder, options, run, against, known)
        shown = (
            "model", "q", "method", "loss", "seed", "violation", "regret", "constrained_regret",
            "paper_violation", "paper_regret", "us_per_row",
        )  # fmt: skip
        print_table(recorder.records, shown)


def _measure_run(
    recorder: Recorder,
    options: argparse.Namespace,
    run: tuple[Cell, str, TrainingConfig],
    against: Reference,
    known: dict[tuple[str, int, str, str], float],
) -> None:
    cell, name, config = run
    trained = trained_run(options, name)
    if trained is None:
        return
    # The paper has no figure of SS-CMPE_pen at q = 80; there its SS-CMPE stands.
    method = config.loss if name.startswith("paper") else "ss_cmpe_pen"
    if papers(cell, method, known)[0] is None and method == "ss_cmpe_pen":
        method = "ss_cmpe"
    violation, regret = papers(cell, method, known)
    solver = NeuralSolver(against.problem, trained)
    allowed = 0.01 if violation is None else violation
    for stage, answer in networks(solver, against, allowed):
        found, spent = timed(answer)
        recorder.add(
            model=cell[0], q=cell[1], method=stage, preset=name.split("-")[0],
            loss=trained.config.loss, seed=trained.config.seed, epochs=trained.epochs,
            beta=trained.config.beta, rho=trained.config.rho,
            margin=solver.calibrated_margin(allowed), paper_method=method,
            paper_violation=violation, paper_regret=regret,
            **record_of(evaluate(found, against), spent),
        )  # fmt: skip


def main() -> None:
    options = parser(__doc__)
    options.add_argument("what", nargs="?", choices=("train", "measure"), default="measure")
    options.add_argument("--models", nargs="+", default=MODELS)
    options.add_argument("--percentiles", nargs="+", type=int, default=PERCENTILES)
    options.add_argument("--seeds", nargs="+", type=int, default=(0, 1, 2))
    options.add_argument("--kinds", nargs="+", default=("tuned", "paper"))
    options.add_argument("--runs", type=Path, default=HERE / "runs")
    chosen = options.parse_args()
    import torch

    torch.set_num_threads(1)
    (train if chosen.what == "train" else measure)(chosen)


if __name__ == "__main__":
    main()
