"""What `benchmarks.amortised` reports on: models, cells of questions, and who answers them."""

from __future__ import annotations

import argparse
import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.device_frame import plain_problem

KIND = "grids"  # what transfer is measured on
LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)
TEST = 64
KIND_SIDE, KIND_SAMPLES = 20, 264
UNSEEN = ((1000, 20), (1001, 20), (1000, 30), (1001, 30))  # seed and side of grids to transfer to

Record = dict[str, Any]


# --- models and samples ---


def _posed(model: Any, name: str, seed: int = 0) -> Any:
    """h is the model, t a noisy copy; the limit is a placeholder."""
    import cmpe
    from cmpe.generation import Recipe, perturbed

    return cmpe.Problem(
        model, [cmpe.Constraint(perturbed(model, Recipe(seed=seed)), 0.0)], name=name
    )


def _model(name: str) -> Any:
    from cmpe.formats.uai import read_uai
    from cmpe.generation import grid

    kind, _, number = name.partition("_")
    if kind in ("grid", "Ising"):
        return grid(int(number), int(number), seed=int(number))
    from benchmarks.frame import model_files

    with model_files([name]) as (path,):
        return read_uai(path)


def prepare(options: argparse.Namespace) -> None:
    """Pack models with samples: to take evidence from, and to report on."""
    from cmpe.generation import grid
    from cmpe.sampling import sample

    options.data.mkdir(parents=True, exist_ok=True)
    for name in options.models:
        if not (options.data / f"{name}.pkl").exists():
            model = _model(name)
            drawn = sample(model, options.samples + 4 * TEST, 0)
            print(name, drawn.sampler, flush=True)
            _pack(options.data / f"{name}.pkl", [(_posed(model, name), drawn.assignments)])
    path = options.data / f"{KIND}.pkl"
    if options.kind_models and not path.exists():
        seeds = [(seed, KIND_SIDE) for seed in range(options.kind_models)]
        pairs = []
        for seed, side in [*seeds, *UNSEEN]:
            model = grid(side, side, seed=seed)
            drawn = sample(model, KIND_SAMPLES, seed)
            pairs.append((_posed(model, f"grid_{side}_{seed}", seed), drawn.assignments))
        _pack(path, pairs)


def _pack(path: Path, pairs: list[tuple[Any, Any]]) -> None:
    packed = [(plain_problem(problem), rows.astype(np.uint8)) for problem, rows in pairs]
    path.write_bytes(pickle.dumps(packed))


@cache
def packed(path: Path) -> list[tuple[Any, Any]]:
    """What `prepare` wrote."""
    return [(problem, rows.astype(np.int32)) for problem, rows in pickle.loads(path.read_bytes())]


# --- questions that are reported on ---


@dataclass(frozen=True)
class Cells:
    """Rows of one mask at every position of q: 5 x TEST of them."""

    instances: Any  # of the problem with a selector
    given: Any  # (R, n)
    limits: Any  # (R, 1)
    places: Any  # (R,)


def cells(problem: Any, samples: Any, rate: float, seed: int) -> Cells:
    """One random mask of `rate`, each sample at five positions."""
    import torch

    from cmpe.learning.amortised.config import QuestionRange
    from cmpe.learning.amortised.questions import QuestionMaker
    from cmpe.learning.amortised.tables import ModelTables

    n = problem.variables
    chosen = np.random.default_rng([seed, 77, round(100 * rate)]).permutation(n)[: round(rate * n)]
    given = np.full((len(samples), n), -1)
    given[:, chosen] = samples[:, chosen]
    rows = np.repeat(given, len(LEVELS), axis=0)
    places = np.tile(LEVELS, len(samples))
    maker = QuestionMaker(ModelTables(problem), QuestionRange())
    asked = maker.at_positions(
        torch.as_tensor(rows), torch.as_tensor(places[:, None], dtype=torch.float32)
    )
    limits = asked.limits.double().numpy()
    return Cells(_selected(problem, chosen, rows, limits), rows.astype(np.int32), limits, places)


def _selected(problem: Any, observed: Any, given: Any, limits: Any) -> Any:
    """The rows as instances of one problem: an observed selector has their limits."""
    from cmpe.learning.amortised.teaching import selecting

    variables = [*sorted(int(v) for v in observed), problem.variables]
    whole = selecting(problem, limits).observing(variables)
    rows = np.concatenate([given, np.arange(len(given))[:, None]], axis=1)
    return whole.given(np.ascontiguousarray(rows[:, variables], dtype=np.int32))


# --- contestants ---

Start = Callable[[Cells], tuple[Any, Any]]
MIXED, FOLLOWED = "mixed", "followed"  # answers of several schedules; of questions that follow
Stage = str | float  # repair, moves (single ones), passes (moves and passes); ms of search
LEAST_SECONDS = 1e-5


def starts_of(
    options: argparse.Namespace, problem: Any, solvers: dict[str, Any], samples: Any
) -> dict[str, Start]:
    """Where each contestant begins: assignments with the selector, and multipliers."""
    from cmpe.learning.amortised.consulting import FOLLOWED as QUESTIONS

    usual = np.array([np.bincount(column).argmax() for column in samples.T])

    def none(cell: Cells) -> tuple[Any, Any]:
        return np.full((len(cell.given), problem.variables + 1), -1, dtype=np.int32), None

    def constant(cell: Cells) -> tuple[Any, Any]:
        return with_selector(np.where(cell.given < 0, usual, cell.given)), None

    def asked(solver: Any) -> Start:
        def start(cell: Cells) -> tuple[Any, Any]:
            rows, prices = solver.replies(cell.given, cell.limits, device="cpu")
            return with_selector(rows), prices

        return start

    own: dict[str, Start] = dict.fromkeys(("random", "icm", "messages"), none)
    often = {k: s for k, s in solvers.items() if s.schedules > 1}
    return {
        **own,
        "constant": constant,
        **{k: asked(s) for k, s in solvers.items()},
        **{f"{MIXED} {k}": consulted(s, 0) for k, s in often.items()},
        **{f"{FOLLOWED} {k}": consulted(s, QUESTIONS) for k, s in often.items()},
    }


def consulted(solver: Any, followed: int) -> Start:
    """What the product does without a time limit (`consulting`), with so many questions that
    follow; of few rows half tell which schedules are asked, where the product would not do it."""
    from cmpe.learning.amortised.consulting import MANY_ROWS, PROBED, Panel

    def start(cell: Cells) -> tuple[Any, Any]:
        selectors = cell.instances.full()[:, -1:]
        limits = dict(zip(selectors[:, 0].tolist(), cell.limits, strict=True))

        def ask(given: Any, number: int) -> tuple[Any, Any]:
            q = np.stack([limits[i] for i in given[:, -1].tolist()])
            rows, prices = solver.replies(given[:, :-1], q, device="cpu", schedule=number)
            return np.concatenate([rows, given[:, -1:]], axis=1), prices

        count = len(cell.given)
        few = {} if count >= MANY_ROWS else {"many": PROBED, "probed": count // 2}
        return Panel(cell.instances, ask, solver.schedules, **few).answers(followed)

    return start


def first_rows(cell: Cells, count: int) -> Cells:
    """Some of the rows."""
    return rows_of(cell, np.arange(min(count, len(cell.given))))


def rows_of(cell: Cells, numbers: Any) -> Cells:
    """Some of the rows; their selector is evidence."""
    return Cells(
        cell.instances.take(numbers), cell.given[numbers], cell.limits[numbers],
        cell.places[numbers],
    )  # fmt: skip


def with_selector(rows: Any) -> Any:
    """Row i with value i of the selector."""
    return np.concatenate([rows, np.arange(len(rows))[:, None]], axis=1).astype(np.int32)


def _improved(cell: Cells, kind: str, start: tuple[Any, Any], stage: Stage) -> Any:
    """Answers after a stage. Those of a network, and constant ones, go through single moves before
    they are searched, as the product has it; `search` makes its own beginnings itself."""
    from cmpe.learning.amortised.solver import answer_passes
    from cmpe.learning.improvement import moved
    from cmpe.solvers.local import improve
    from cmpe.solvers.search import BEGINNINGS, search
    from cmpe.solvers.search.schedule import Budget

    rows, prices = start
    if stage == "repair":
        return improve(cell.instances, rows)
    begin, own = time.thread_time(), kind in BEGINNINGS
    if not own or stage == "moves":
        rows = moved(cell.instances, rows, 1)
    if stage == "moves":
        return rows
    budget = Budget(answer_passes(cell.instances.problem))
    if not isinstance(stage, str):
        left = stage / 1000 - (time.thread_time() - begin) / len(rows)
        budget = Budget(seconds=max(LEAST_SECONDS, left), clock=time.thread_time)
    how = kind if own else BEGINNINGS[0]
    return search(cell.instances, rows, multipliers=prices, budget=budget, begin=how)


def raced(
    cell: Cells,
    starts: dict[str, Start],
    stages: Sequence[Stage],
    options: argparse.Namespace,
) -> Iterator[Record]:
    """Every start through every stage, with regret by position. Of what `search` begins with by
    itself only single moves (icm) can be repaired."""
    from cmpe.solvers.search import search
    from cmpe.solvers.search.schedule import Budget

    problem = cell.instances.problem
    best = worth(problem, search(
        cell.instances, budget=Budget(seconds=options.reference / 1000), threads=options.threads
    ))  # fmt: skip
    found = []
    for kind, start in starts.items():
        before = start(cell)[0]
        violated = None if (before < 0).any() else float((~problem.is_feasible(before)).mean())
        for stage in stages:
            if stage in ("repair", "moves") and kind in ("random", "messages"):
                continue
            if kind.startswith((MIXED, FOLLOWED)) and not isinstance(stage, str):
                continue
            about, rows = _timed(cell, kind, start, stage)
            found.append(({**about, "violated_before": violated}, worth(problem, rows)))
    for _, values in found:
        best = np.maximum(best, values)
    for about, values in found:
        yield {**about, **_regrets(best, values, cell.places)}


def _timed(cell: Cells, kind: str, start: Start, stage: Stage) -> tuple[Record, Any]:
    """Answers of a start after a stage, and CPU time a row: of the pass, and of all."""
    few = first_rows(cell, 16)
    _improved(few, kind, start(few), stage)  # compiles
    begin = time.process_time()
    said = start(cell)
    passed = time.process_time() - begin
    rows = _improved(cell, kind, said, stage)
    used = 1e6 * (time.process_time() - begin) / len(rows)
    named = {"stage": stage, "ms": None} if isinstance(stage, str) else {"ms": stage}
    return {"start": kind, **named, "used_us": used, "pass_us": 1e6 * passed / len(rows)}, rows


def worth(problem: Any, rows: Any) -> Any:
    """h of the feasible rows (B, n), -inf of the others."""
    return np.where(problem.is_feasible(rows), problem.objective.value(rows), -np.inf)


def _regrets(best: Any, values: Any, places: Any) -> Record:
    """Mean regret of the feasible answers by position, and how many are not feasible."""
    known = np.isfinite(best)
    fits = np.isfinite(values)
    lost = np.where(fits & known, best - np.where(fits, values, 0.0), np.nan)
    by = {
        f"{p:g}": float(np.nanmean(lost[places == p]))
        for p in LEVELS
        if (fits & known & (places == p)).any()
    }
    return {"rows": int(known.sum()), "violated": int((known & ~fits).sum()), "regret": by,
            "mean": float(np.nanmean(lost)) if (fits & known).any() else None}  # fmt: skip
