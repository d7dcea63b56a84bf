"""The stages: pure functions from settings and artifacts to an artifact.

    source            a file of the data folder (read where the study runs, nowhere else)
    generate          M1, M2, evidence rows, q of every percentile (paper, section 5)
    labels            the proved optimum of every training row
    bounds            p_upper, q_lower and mu* of every training row and margin
    draw              more rows of evidence, from M1
    teach             labels and bounds of training rows and drawn ones, one margin each
    cross_validation  beta and rho of a loss, where the scale has folds
    train             a network: its answers to the test rows, its learning curve
    solve             a solver's answers to the test rows; `repair` starts from a network's
    certify           the bound of every test row, for answers that bring none
    evaluate          answers against the proved optima: metrics

Results hold no seconds: these lie beside them. A change of what a stage computes raises its
version, which renews every key that depends on it.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cmpe.evaluation import Evaluation, Reference, chosen, constants, overlap
from cmpe.models.loglinear import LogLinearModel
from cmpe.solution import Solutions
from study.paper import training
from study.paper.artifacts import (
    ANSWERS,
    PROBLEM,
    Rows,
    answers_file,
    generated_file,
    packed,
    rows_of,
    solutions_of,
)
from study.paper.store import Artifact, Json, Task, arrays_file, json_file

FACTS, METRICS, BOUND = "facts.json", "metrics.json", "bound.npz"
REPAIR, CONSTANT = "repair", "constant"
QUICK = 0.05  # seconds

Inputs = dict[str, Artifact]


def generate(settings: Json, inputs: Inputs) -> Artifact:
    """The rows and functions of one model: all percentiles share them."""
    import cmpe

    model = _model(settings["model"], inputs)
    made = cmpe.generate(model, cmpe.Recipe(**settings["recipe"]))
    problem = made.problem
    facts = {
        "variables": problem.variables,
        "functions": len(problem.models[0].factors),
        "free": len(problem.free),
        "evidence": len(problem.evidence_variables),
        "width": problem.plan.width,
        "distinct_test_rows": len(np.unique(made.test, axis=0)),
        "train_rows": len(made.train),
        "test_rows": len(made.test),
        "sampler": made.provenance["sampler"]["evidence"],
    }
    return Artifact({PROBLEM: generated_file(made), FACTS: json_file(facts)})


def _model(told: Json, inputs: Inputs) -> LogLinearModel:
    import cmpe
    from cmpe.formats.debd import read_debd
    from cmpe.generation import grid

    if "grid" in told:
        return grid(*told["grid"], seed=told["seed"])
    if "tree" in told:
        return cmpe.learn_chow_liu(_tree_data(told)).to_model()
    with tempfile.TemporaryDirectory() as folder:
        paths = {}
        for name, content in inputs["source"].files.items():
            paths[name.split(".")[0]] = Path(folder, name)
            Path(folder, name).write_bytes(content)
        if "uai" in told:
            return cmpe.read_uai(paths["model"])
        train, valid = read_debd(paths["train"]), read_debd(paths["valid"])
    return cmpe.learn_chow_liu(train, valid=valid).to_model()


def _tree_data(told: Json) -> Any:
    """Binary rows of a random tree: each variable copies its parent, or is drawn anew."""
    generator = np.random.default_rng(told["seed"])
    count, rows = told["tree"], told["rows"]
    data = (generator.random((rows, count)) < generator.uniform(0.1, 0.9, count)).astype(np.uint8)
    for v in range(1, count):
        copied = generator.random(rows) < generator.uniform(0.3, 0.9)
        data[copied, v] = data[copied, generator.integers(v)]
    return data


def labels(settings: Json, inputs: Inputs) -> Artifact:
    """The best assignment of every training row, with its proof."""
    import cmpe

    rows = rows_of(inputs["problem"], settings["q"])
    answers = cmpe.solve(rows.problem, rows.train, method=settings["method"])
    kept = np.where(answers.feasible[:, np.newaxis], answers.assignments, -1)
    bound = np.where(answers.feasible, answers.objective, answers.bound)
    return Artifact({training.LABELS: answers_file(rows.problem, kept, bound=bound)})


def bounds(settings: Json, inputs: Inputs) -> Artifact:
    """What the losses know of every training row and margin."""
    from cmpe.learning.training.config import TrainingConfig
    from cmpe.learning.training.data import prepare

    rows = rows_of(inputs["problem"], settings["q"])
    alpha = settings.get("alpha", "fixed")
    config = TrainingConfig(loss="ss_cmpe", margins=tuple(settings["margins"]), alpha=alpha)
    none = np.zeros(0, dtype=np.intp)
    data = prepare(rows.problem.given(rows.train), config, measured=none)
    numbers = {
        name: getattr(data, name).astype(np.float32)
        for name in ("p_upper", "q_lower", "multipliers")
    }
    return Artifact({training.BOUNDS: arrays_file(usable=data.usable, **numbers)})


def draw(settings: Json, inputs: Inputs) -> Artifact:
    """Rows of evidence to train on beyond those of the paper's recipe; every q shares them."""
    from cmpe.learning.training.data import draw as draw_rows

    problem = rows_of(inputs["problem"], 50).problem
    rows = draw_rows(problem, settings["rows"], settings["seed"])
    cards = [problem.objective.cardinalities[v] for v in problem.evidence_variables]
    return Artifact({training.ROWS: arrays_file(**packed("rows", rows, cards))})


def teach(settings: Json, inputs: Inputs) -> Artifact:
    """The best assignment and the bounds of every training and drawn row, at one margin each."""
    from cmpe.learning.training.config import TrainingConfig
    from cmpe.learning.training.data import prepare, split

    rows = rows_of(inputs["problem"], settings["q"])
    evidence = training.with_drawn(rows, inputs["drawn"])
    more = len(evidence) - len(rows.train)
    config = TrainingConfig(loss="distill", margins=tuple(settings["margins"]), rows=more)
    held = split(len(rows.train), config)[1]
    data = prepare(rows.problem.given(evidence), config, measured=held)
    numbers = {
        name: getattr(data, name).astype(np.float32)
        for name in ("p_upper", "q_lower", "multipliers")
    }
    labels = data.labels[:, 0].astype(np.int32)
    more_arrays = {"usable": data.usable, "reference": data.reference, **numbers}
    return Artifact({training.LESSONS: answers_file(rows.problem, labels, **more_arrays)})


def solve(settings: Json, inputs: Inputs) -> Artifact:
    """Answers to the first `rows` test rows (0: all), from a solver, a constant or by repair."""
    import cmpe

    rows = rows_of(inputs["problem"], settings["q"])
    evidence = rows.test[: settings["rows"] or len(rows.test)]
    method, limit = settings["method"], settings["time_limit"]
    more: dict[str, Any] = {}
    if method not in (REPAIR, CONSTANT):  # loads code, which no row should be charged with
        quick = None if limit is None else min(limit, QUICK)
        cmpe.solve(rows.problem, evidence[:1], method=method, time_limit=quick)
    begin = time.perf_counter()
    if method == REPAIR:
        answers = _repaired(rows, inputs["network"], settings.get("kicks", 0))
    elif method == CONSTANT:
        answers = chosen(constants(rows.problem, rows.train)).answers(rows.problem, evidence)
    elif method == "exact" and len(evidence) == len(rows.test):
        known = cmpe.reference(rows.problem, evidence)
        answers, more["constrained"] = known.solutions, np.packbits(known.constrained)
    else:
        seed = settings["seed"]
        answers = cmpe.solve(rows.problem, evidence, method=method, time_limit=limit, seed=seed)
    spent = time.perf_counter() - begin
    proved = answers.status == cmpe.Status.INFEASIBLE
    more |= {"bound": answers.bound, "infeasible": proved}
    file = answers_file(rows.problem, answers.assignments, **more)
    return Artifact({ANSWERS: file}, {"seconds": spent, "row_seconds": answers.seconds.tolist()})


def _repaired(rows: Rows, network: Artifact, kicks: int) -> Any:
    """Local search from a network's answers; its seconds are the pass's and the search's."""
    from cmpe.solvers.local import improve

    start = solutions_of(rows, network)
    instances = rows.problem.given(rows.test)
    improve(rows.problem.given(rows.test[:1]), start.assignments[:1])  # loads compiled code
    begin = time.perf_counter()
    better = improve(instances, start.assignments, kicks=kicks)
    spent = (time.perf_counter() - begin) / len(rows.test)
    return Solutions.of(rows.problem, better, seconds=start.seconds + spent)


def certify(settings: Json, inputs: Inputs) -> Artifact:
    """The Lagrangian dual's bound of every test row: no feasible assignment exceeds it."""
    from cmpe.bounds.lagrangian import lagrangian_dual

    rows = rows_of(inputs["problem"], settings["q"])
    lagrangian_dual(rows.problem.given(rows.test[:1]))  # loads compiled code
    begin = time.perf_counter()
    dual = lagrangian_dual(rows.problem.given(rows.test))
    spent = time.perf_counter() - begin
    file = arrays_file(bound=dual.bound, infeasible=dual.infeasible)
    return Artifact({BOUND: file}, {"row_seconds": spent / len(rows.test)})


def _certified(rows: Rows, answers: Solutions, found: Artifact) -> Solutions:
    """Answers with the bounds of `certify`; its seconds are theirs."""
    bounds, count = found.arrays(BOUND), len(answers)
    return Solutions.of(
        rows.problem,
        answers.assignments,
        bound=bounds["bound"][:count],
        infeasible=bounds["infeasible"][:count],
        seconds=answers.seconds + found.aside["row_seconds"],
    )


def evaluate(settings: Json, inputs: Inputs) -> Artifact:
    """Metrics of the answers to the rows that there are, for all and for the constrained ones;
    `overlap` is the share of test rows that are also training rows."""
    import cmpe

    rows = rows_of(inputs["problem"], settings["q"])
    answers = solutions_of(rows, inputs["answers"])
    if "bound" in inputs:
        answers = _certified(rows, answers, inputs["bound"])
    best = solutions_of(rows, inputs["reference"])
    mask = np.unpackbits(inputs["reference"].arrays(ANSWERS)["constrained"], count=len(best))
    first = np.arange(len(answers))
    against = Reference(rows.problem, rows.test[first], best.take(first), mask.astype(bool)[first])
    found = cmpe.evaluate(answers, against)
    known = against.solutions.feasible
    metrics, aside = _split(found)
    with np.errstate(invalid="ignore"):
        metrics |= {
            "mean_reference": _mean(against.solutions.objective[known]),
            "mean_objective": _mean(answers.objective[known]),
            "unproved": int((against.solutions.status > cmpe.Status.INFEASIBLE.code).sum()),
            "overlap": overlap(rows.test, rows.train),
        }
    relaxed = inputs["answers"].arrays(ANSWERS).get("relaxed")
    if relaxed is not None:
        over = np.unpackbits(relaxed, count=len(answers)).astype(float)
        metrics["relaxed_violation"] = _mean(over[known])
    return Artifact({METRICS: json_file(metrics)}, aside)


def _split(found: Evaluation) -> tuple[Json, Json]:
    """Metrics, and their seconds apart."""
    metrics: Json = {"every": found.every.to_json(), "constrained": found.constrained.to_json()}
    aside = {
        part: {name: numbers.pop(name) for name in ("seconds", "seconds_std")}
        for part, numbers in metrics.items()
    }
    return metrics, aside


def _mean(values: Any) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


Stage = Callable[[Json, Inputs], Artifact]
STAGES: dict[str, tuple[int, Stage | None]] = {
    "source": (1, None),
    "generate": (1, generate),
    "labels": (1, labels),
    "bounds": (1, bounds),
    "draw": (1, draw),
    "teach": (1, teach),
    "cross_validation": (1, training.cross_validation),
    "train": (1, training.train),
    "solve": (1, solve),
    "certify": (1, certify),
    "evaluate": (2, evaluate),
}


def task(stage: str, settings: Json, **inputs: Task) -> Task:
    """A task of the stage's present version."""
    return Task(stage, STAGES[stage][0], settings, {k: v.key for k, v in inputs.items()})


def run_stage(stage: str, settings: Json, names: list[str], *artifacts: Artifact) -> Artifact:
    """What a worker runs: the stage on its inputs, with the seconds it took."""
    work = STAGES[stage][1]
    if work is None:
        raise ValueError(f"stage {stage} is not run by workers")
    begin = time.perf_counter()
    made = work(settings, dict(zip(names, artifacts, strict=True)))
    return replace(made, aside={"stage_seconds": time.perf_counter() - begin, **made.aside})
