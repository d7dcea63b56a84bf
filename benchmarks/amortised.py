"""One network for every question: any evidence, any q, and any model of a kind.

    python -m benchmarks.amortised prepare                        here: models and samples
    PYTHONPATH=src:. python benchmarks/amortised.py PART ... --out OUT      where torch is
    python -m benchmarks.amortised import OUT/amortised.jsonl --call N
                                                                  here: keep what run N measured

Parts, each of which goes on where the last call ended (`--seconds` are those of one call):

    train     one network a model, seed and kind: `--total` updates each
    alone     a network for each cell (mask rate, position of q) alone: `--cell-total` updates each
    cells     regret of both in 5 x 5 cells: after repair by moves, after single moves, after
              these and the passes of `search` that answers go through by default, and after 0.1,
              0.3, 1, 3 ms of search on one core, beside starts without a network
    rate      rows a second on the device, batches of 4,096: a pass, single moves, annealing
    proved    what `exact` takes, where it proves
    transfer  one network for random grids, on unseen ones and on larger ones

The networks are trained on mask rates and positions around 0.1, 0.5 and 0.9; 0.3 and 0.7 are unseen
of both. All masks, samples and limits that are reported on are unseen. The regret of a row is what
it lacks of the best feasible value that any contestant, or `search` with `--reference` ms, found.
Rows of a mask rate are one problem: an observed selector adds each row's own limit to t. Budgets
are those of `search` alone; `used_us` has the pass, too, and is what starts are compared at.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

if __package__ in (None, ""):  # run as a file: the repository's root is one folder up
    sys.path[0] = str(Path(__file__).parents[1])

from benchmarks.amortised_cells import (
    FOLLOWED,
    KIND,
    LEVELS,
    MIXED,
    TEST,
    UNSEEN,
    Cells,
    Record,
    Start,
    cells,
    consulted,
    packed,
    prepare,
    raced,
    rows_of,
    starts_of,
    with_selector,
)
from benchmarks.amortised_device import DeviceRace
from study.bare import without_safetensors

HERE = Path(__file__).parent
DATA = HERE.parent / "build" / "amortised"
MODELS = ("Grids_17", "Segmentation_14", "Ising_50")
SEEN = ((0.0, 0.2), (0.4, 0.6), (0.8, 1.0))
RATES = ((0.08, 0.2), (0.4, 0.6), (0.8, 0.92))
STAGES = ("repair", "moves", "passes")
BUDGETS = (0.1, 0.3, 1.0, 3.0)  # ms a row
MLP = {"network": "mlp", "hidden": (2048, 1024), "learning_rate": 5e-4, "batch_size": 1024,
       "noise": 0.3, "temperature": 0.6, "reuse": 8}  # fmt: skip
MESSAGES = {
    "network": "messages",
    "generations": 0,
    "steps": 10,
    "width": 16,
    "batch_size": 128,
    "reuse": 8,
}
TUNED = {"network": "messages", "steps": 20, "width": 0, "generations": 120}
UNTRAINED = "untrained messages"  # as they are before training: what learning adds is beside it
NETWORKS: dict[str, dict[str, Any]] = {
    "messages": MESSAGES,
    "plain messages": {**MESSAGES, "width": 0},
    "messages, 4 rounds": {**MESSAGES, "steps": 4, "width": 8},
    "mlp": MLP,
    "small mlp": {**MLP, "hidden": (512,)},
    "taught mlp": {**MLP, "annealed": 300},
    "taught messages": {**MESSAGES, "annealed": 300},
    "tuned messages": TUNED,
    UNTRAINED: TUNED,
}


# --- training ---


def config_of(kind: str, seed: int, budget: tuple[int, float | None], **changes: Any) -> Any:
    """The settings of a network that is trained for so many updates, or seconds if they end
    first."""
    from cmpe.learning.amortised.config import AmortisedConfig, QuestionRange

    settings = {**NETWORKS[kind], **changes}
    asked = settings.pop("questions", QuestionRange(rates=RATES, positions=SEEN))
    asked = replace(asked, noise=settings.pop("noise", 0.0))
    return AmortisedConfig(
        **settings, seed=seed, updates=budget[0], seconds=budget[1], questions=asked, looks=20,
        validation=512,
    )  # fmt: skip


def folder_of(options: argparse.Namespace, name: str) -> Path:
    """The directory of a run."""
    folder: Path = options.data / "runs" / name.replace(" ", "_")
    return folder


def trained(options: argparse.Namespace, name: str, pairs: Any, config: Any) -> Any:
    """The solver of run `name`, trained on; None while its time is not spent."""
    from cmpe.learning.amortised.questions import Subject
    from cmpe.learning.amortised.solver import AmortisedSolver
    from cmpe.learning.amortised.training import work_of
    from cmpe.learning.runs import CHECKPOINT, is_finished, is_run
    from cmpe.learning.training.fitting import Session

    out = folder_of(options, name)
    if is_run(out) and is_finished(out):
        return AmortisedSolver.load(out, pairs[0][0])
    if options.part not in ("train", "alone", "transfer"):
        return None
    out.mkdir(parents=True, exist_ok=True)
    device = "cpu" if config.tuned else options.device
    tasks = [Subject.of(problem, config, device, rows) for problem, rows in pairs]
    session = Session(out, options.device, resume=(out / CHECKPOINT).exists())
    work = work_of(tasks, config, session)
    done = work.train(stop=lambda: options.left() < 10.0)
    last = work.records[-1] if work.records else {}
    print(json.dumps({"run": name, "done": done, "updates": work.updates, **last}), flush=True)
    return work.solver() if done else None


def amortised(options: argparse.Namespace, model: str) -> Iterator[tuple[str, Any]]:
    """(name, solver) of every network of a model that is ready, or is made so."""
    pairs = [(p, rows[: -4 * TEST]) for p, rows in packed(options.data / f"{model}.pkl")]
    for kind in options.networks:
        if kind == UNTRAINED:
            yield kind, untrained(pairs[0][0])
            continue
        for seed in options.seeds:
            if options.left() < 20.0:
                return
            name = f"{model}-{kind}-{seed}"
            config = config_of(kind, seed, (options.total, options.total_seconds))
            solver = trained(options, name, pairs, config)
            if solver is not None:
                yield f"{kind} {seed}", solver


def untrained(problem: Any) -> Any:
    """Messages as they are before any training."""
    from cmpe.learning.amortised.networks import network_of
    from cmpe.learning.amortised.runs import AmortisedRun
    from cmpe.learning.amortised.solver import AmortisedSolver
    from cmpe.learning.amortised.tables import ModelTables

    config = config_of(UNTRAINED, 0, (1, None))
    weights = dict(network_of(config, ModelTables(problem)).state_dict())
    return AmortisedSolver(problem, AmortisedRun(config, "", weights, (0.0, 1.0), 0, True, ""))


def train(options: argparse.Namespace) -> Iterator[Record]:
    """Nothing is measured but what training took."""
    from cmpe.learning.runs import read_log

    for model in options.models:
        for name, solver in amortised(options, model):
            if name == UNTRAINED:
                continue
            kind, _, seed = name.rpartition(" ")
            last = read_log(folder_of(options, f"{model}-{kind}-{seed}"))[-1]
            yield {"model": model, "network": name, "updates": solver.run.updates, **last}


def alone(options: argparse.Namespace) -> Iterator[Record]:
    """A network for each cell alone: one mask, one position."""
    from cmpe.learning.amortised.config import QuestionRange

    for model in options.models:
        [(problem, rows)] = packed(options.data / f"{model}.pkl")
        for rate in options.rates:
            cell = cells(problem, rows[-TEST:], rate, options.seed)
            observed = cell.instances.problem.evidence_variables[:-1]
            for place in LEVELS:
                if options.left() < 15.0:
                    return
                asked = QuestionRange(positions=((place, place),), observed=observed)
                config = config_of(options.networks[0], 0, options.cell_budget, questions=asked)
                name = f"{model}-cell-{rate}-{place}"
                solver = trained(options, name, [(problem, rows[: -4 * TEST])], config)
                if solver is not None:
                    yield {
                        "model": model,
                        "rate": rate,
                        "place": place,
                        "updates": solver.run.updates,
                    }


def measured(options: argparse.Namespace) -> Iterator[Record]:
    """Cells of every model and rate, through every stage."""
    for model in options.models:
        [(problem, rows)] = packed(options.data / f"{model}.pkl")
        solvers = dict(amortised(options, model))
        for rate in options.rates:
            key = {"model": model, "rate": rate}
            if options.has(key) or options.left() < 30.0:
                continue
            cell = cells(problem, rows[-options.rows :], rate, options.seed)
            starts = starts_of(options, problem, solvers, rows[: -4 * TEST])
            starts |= _alone_starts(options, model, rate, problem)
            for record in raced(cell, starts, (*STAGES, *options.budgets), options):
                yield {**key, "unseen_rate": rate in (0.3, 0.7), **record}


def _alone_starts(
    options: argparse.Namespace, model: str, rate: float, problem: Any
) -> dict[str, Start]:
    """The networks of the cells alone as one start: each answers the rows of its position. They
    were trained for one mask, so the product would not have them follow their answers."""
    from cmpe.learning.amortised.consulting import FOLLOWED as QUESTIONS

    solvers = {
        p: trained(options, f"{model}-cell-{rate}-{p}", [(problem, None)], None) for p in LEVELS
    }
    if any(solver is None for solver in solvers.values()):
        return {}

    def by_place(cell: Cells, start: Callable[[Any, Cells], tuple[Any, Any]]) -> tuple[Any, Any]:
        rows = np.zeros((len(cell.given), problem.variables + 1), dtype=np.int32)
        prices = np.zeros((len(cell.given), 1))
        for place, solver in solvers.items():
            at = np.flatnonzero(cell.places == place)
            if len(at):
                rows[at], prices[at] = start(solver, rows_of(cell, at))
        return with_selector(rows[:, :-1]), prices

    def once(asked: str) -> Start:
        def start(solver: Any, cell: Cells) -> tuple[Any, Any]:
            rows, prices = getattr(solver, asked)(cell.given, cell.limits, device="cpu")
            return with_selector(rows), prices

        return lambda cell: by_place(cell, start)

    def often(followed: int) -> Start:
        return lambda cell: by_place(cell, lambda s, part: consulted(s, followed)(part))

    every = {"each alone": once("replies")}
    if all(solver.schedules > 1 for solver in solvers.values()):
        every[f"{MIXED} each alone"] = often(0)
        every[f"{FOLLOWED} each alone"] = often(QUESTIONS)
    if any(solver.asked_twice for solver in solvers.values()):
        every = {"each alone, once": once("predict"), **every}
    return every


def rate(options: argparse.Namespace) -> Iterator[Record]:
    """Rows a second on the device: a pass, single moves and annealing after it, and annealing
    without a network; how far each is behind 10 ms of `search` on a core."""
    for model in options.models:
        [(problem, rows)] = packed(options.data / f"{model}.pkl")
        solvers = dict(amortised(options, model))
        for share in (0.1, 0.5):
            cell = cells(
                problem, np.resize(rows[-4 * TEST :], (820, rows.shape[1])), share, options.seed
            )
            race = DeviceRace(cell, problem, options)
            for name, solver in solvers.items():
                for record in race.network(solver):
                    yield {"model": model, "rate": share, "start": name, **record}
            for record in race.alone():
                yield {"model": model, "rate": share, "start": "annealing", **record}


def proved(options: argparse.Namespace) -> Iterator[Record]:
    """What `exact` takes for the same questions, where it proves them within a second a row."""
    import cmpe

    for model in options.models:
        [(problem, rows)] = packed(options.data / f"{model}.pkl")
        for share in options.rates:
            few = cells(problem, rows[-options.rows :], share, options.seed).instances
            cmpe.solve(few.problem, few.evidence[:1], method="exact", time_limit=1.0)  # compiles
            begin = time.process_time()
            found = cmpe.solve(few.problem, few.evidence, method="exact", time_limit=1.0)
            yield {
                "model": model, "rate": share, "rows": len(found),
                "proved": float(np.mean([label == "optimal" for label in found.labels])),
                "used_us": 1e6 * (time.process_time() - begin) / len(found),
            }  # fmt: skip


def transfer(options: argparse.Namespace) -> Iterator[Record]:
    """One network for random grids, on unseen grids of the same size and larger."""
    every = packed(options.data / f"{KIND}.pkl")
    known, unseen = every[: -len(UNSEEN)], every[-len(UNSEEN) :]
    for kind in [k for k in options.networks if k != "mlp"]:
        config = config_of(kind, options.seeds[0], (options.total, options.total_seconds))
        shared = trained(options, f"{KIND}-{kind}", known, config)
        if shared is None:
            return
        for problem, rows in unseen:
            for share in options.rates:
                key = {"model": problem.name, "rate": share, "network": kind}
                if options.has(key) or options.left() < 30.0:
                    continue
                solvers = {"shared": type(shared)(problem, shared.run)}
                solvers |= {UNTRAINED: untrained(problem)}
                own = trained(
                    options, f"{problem.name}-{kind}", [(problem, rows[:-TEST])],
                    config_of(kind, 0, options.cell_budget),
                )  # fmt: skip
                solvers |= {} if own is None else {"own": own}
                cell = cells(problem, rows[-options.rows :], share, options.seed)
                starts = starts_of(options, problem, solvers, rows[:-TEST])
                for record in raced(cell, starts, ("repair", "passes", 1.0), options):
                    yield {**key, **record}


PARTS: dict[str, Callable[[argparse.Namespace], Iterator[Record]]] = {
    "train": train,
    "alone": alone,
    "cells": measured,
    "rate": rate,
    "proved": proved,
    "transfer": transfer,
}


class Options(argparse.Namespace):
    """What was asked for, the clock of the call, and what is known already."""

    began = 0.0
    known: Sequence[Record] = ()

    @property
    def cell_budget(self) -> tuple[int, float | None]:
        """Updates and seconds of a network of one cell or model."""
        return self.cell_total, self.cell_seconds

    def left(self) -> float:
        """Seconds of this call that are left."""
        return float(self.seconds) - (time.monotonic() - self.began)

    def has(self, key: Record) -> bool:
        """Whether a record of this part with this key is kept."""
        wanted = {"part": self.part, **key}.items()
        return any(wanted <= record.items() for record in self.known)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a part, or prepare or import what parts read and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("part", choices=("prepare", "import", *PARTS))
    add("files", nargs="*", type=Path, help="of import")
    add("--call", type=int, default=1, help="of import: the number of the run")
    add("--models", nargs="+", default=list(MODELS))
    add("--networks", nargs="+", default=["messages", "mlp"], choices=list(NETWORKS))
    add("--seeds", nargs="+", type=int, default=[0])
    add("--seed", type=int, default=0, help="of masks that are reported on")
    add("--device", default="cpu")
    add("--total", type=int, default=10000, help="updates of a network, over all calls")
    add("--total-seconds", type=float, help="and seconds, if they end first")
    add("--cell-total", type=int, default=1000, help="updates of a network of one cell or model")
    add("--cell-seconds", type=float)
    add("--rates", nargs="+", type=float, default=list(LEVELS), help="of alone, cells, transfer")
    add("--budgets", nargs="+", type=float, default=list(BUDGETS), help="ms of `search`, of cells")
    add("--eager", action="store_true", help="compile nothing for the GPU")
    add("--seconds", type=float, default=500.0, help="of this call")
    add("--rows", type=int, default=TEST, help="to report on, of a cell")
    add("--reference", type=float, default=100.0, help="ms a row of `search`")
    add("--threads", type=int, default=1, help="of the reference")
    add("--samples", type=int, default=4000, help="to take evidence from")
    add("--kind-models", type=int, default=32)
    add("--data", type=Path, default=DATA)
    add("--out", type=Path, help="where results and runs are copied to")
    options = parser.parse_args(arguments, Options())
    options.began = time.monotonic()
    kept = options.data / "amortised.jsonl"
    if options.part == "prepare":
        prepare(options)
    elif options.part == "import":
        _import(options.files, options.call)
    else:
        _run(options, kept)


def _run(options: Options, kept: Path) -> None:
    """One part, each record kept at once; then everything is copied to `--out`."""
    import torch

    from cmpe.learning.amortised import networks

    without_safetensors()
    networks.FUSED = not options.eager
    torch.set_num_threads(1 if options.device == "cpu" else 4)
    options.known = [json.loads(line) for line in _lines(kept)]
    machine = torch.cuda.get_device_name() if options.device == "cuda" else "cpu"
    with kept.open("a", encoding="utf-8") as file:
        for record in PARTS[options.part](options):
            whole = {"part": options.part, "machine": machine, "torch": torch.__version__, **record}
            file.write(json.dumps(whole) + "\n")
            file.flush()
            print(json.dumps(whole), flush=True)
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        shutil.copy(kept, options.out / kept.name)
        if (options.data / "runs").is_dir():
            shutil.copytree(
                options.data / "runs", options.out / "runs", dirs_exist_ok=True,
                ignore=shutil.ignore_patterns("checkpoint.pt"),
            )  # fmt: skip


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.is_file() else []


def _import(files: Sequence[Path], call: int) -> None:
    """Keep the records of files, each once, beside the other results."""
    path = HERE / "results" / "amortised.jsonl"
    made = (json.dumps({"call": call, **json.loads(line)}) for f in files for line in _lines(f))
    every = dict.fromkeys([*_lines(path), *made])
    path.write_text("".join(f"{line}\n" for line in every), encoding="utf-8")


if __name__ == "__main__":
    main()
