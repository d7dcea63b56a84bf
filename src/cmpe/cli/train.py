"""`cmpe train`: a solver learned from the training rows of a problem directory."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cmpe.cli import options as asked
from cmpe.cli.compiling.bars import display
from cmpe.cli.options import check_device
from cmpe.errors import InputError, MissingExtra
from cmpe.learning.losses.catalogue import LOSS_KINDS, Family
from cmpe.solvers.base import Running

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from cmpe.arrays import Assignments
    from cmpe.formats.directory import ProblemDirectory
    from cmpe.learning.price import Price
    from cmpe.learning.runs import Record
    from cmpe.learning.solver import NeuralSolver
    from cmpe.learning.training.config import TrainingConfig

WORKERS_HELP = "For labels: rows answered at the same time, or cores of a cluster started here."
FIGURE, PRICE, CHOICE = "curve.png", "price.json", "cross_validation.json"
NETWORK_HELP = "package.module:name of a function of (inputs, outputs) that makes a torch module."
INPUTS_HELP = "What it reads of each training row in place of evidence: .npy (rows, ...)."
PRESET_HELP = "Settings to start from; default: tuned, with --cross-validate stable."


class Preset(StrEnum):
    """Ready-made settings."""

    tuned = "tuned"
    stable = "stable"
    paper = "paper"


def train(
    problem_dir: Annotated[Path, typer.Argument(help="A problem directory.")],
    out: Annotated[Path, typer.Option(help="The run directory to write.")],
    loss: Annotated[
        str | None, typer.Option(help=f"{', '.join(LOSS_KINDS)}; default: the preset's.")
    ] = None,
    preset: Annotated[Preset | None, typer.Option(help=PRESET_HELP)] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Passes over the rows.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of every generator.")] = 0,
    rows: Annotated[
        int | None, typer.Option(min=0, help="Rows to draw, in addition to those of the directory.")
    ] = None,
    fresh: Annotated[bool, typer.Option(help="Draw those rows anew for every epoch.")] = False,
    alpha: Annotated[
        str | None, typer.Option(help="Where alpha_x comes from: paper, precomputed or fixed.")
    ] = None,
    contrast: Annotated[
        float | None, typer.Option(min=1, help="A factor on the loss of infeasible answers.")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(min=0, help="Weight of an entropy bonus that falls to 0.")
    ] = None,
    network: Annotated[str | None, typer.Option(help=NETWORK_HELP)] = None,
    inputs: Annotated[Path | None, typer.Option(help=INPUTS_HELP)] = None,
    cross_validate: Annotated[
        bool, typer.Option("--cross-validate", help="Choose beta and rho from the paper's grid.")
    ] = False,
    folds: Annotated[int, typer.Option(min=2, help="Folds of the cross-validation.")] = 5,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    resume: Annotated[bool, typer.Option(help="Continue from OUT's checkpoint.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the run in OUT.")] = False,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="Any other setting as NAME=VALUE; may be repeated."),
    ] = None,
    checkpoint_minutes: Annotated[
        float, typer.Option(min=0, help="Time between checkpoints.")
    ] = 5.0,
    threads: Annotated[int, typer.Option(min=1, help="Threads of training and engines.")] = 1,
    workers: Annotated[int, typer.Option(min=1, help=WORKERS_HELP)] = 1,
    executor: asked.ExecutorKind = "local",
    address: asked.Address = None,
    any_evidence: Annotated[
        bool, typer.Option("--any-evidence", help="Train one network for any observed variables.")
    ] = False,
    any_q: Annotated[bool, typer.Option("--any-q", help="Train one network for any q.")] = False,
) -> int:  # fmt: skip
    """Train a network on the directory's training rows; Ctrl-C leaves a usable checkpoint."""
    given = {
        "epochs": epochs, "rows": rows, "alpha": alpha, "contrast": contrast,
        "temperature": temperature, "fresh": fresh or None,
    }  # fmt: skip
    known = {k: v for k, v in given.items() if v is not None}
    usual = Preset.stable if cross_validate else Preset.tuned
    running = Running(workers=workers, threads=threads, executor=executor, address=address)
    how = _Training(out, device, resume, force, checkpoint_minutes, running)
    if inputs is not None and network is None:
        raise InputError("--inputs goes with --network")
    if not (any_evidence or any_q):
        if network is not None and cross_validate:
            raise InputError("--network does not go with --cross-validate")
        recipe = _Recipe(preset or usual, loss, folds if cross_validate else 0, network, inputs)
        return _train_one(problem_dir, recipe, _settings(set_ or [], known, seed), how)
    odd = preset not in (None, Preset.tuned) or cross_validate or loss not in (None, "ss_cmpe")
    odd = odd or network is not None
    if odd or known.keys() - {"rows"}:
        raise InputError(
            "--any-evidence and --any-q have settings of their own: no other --loss, no --preset, "
            "no --cross-validate, no --alpha, --contrast, --temperature or --fresh, and "
            "--set generations=N for --epochs"
        )
    settings = _amortised_settings(set_ or [], known, seed)
    return _train_amortised(problem_dir, settings, (any_evidence, any_q), how)


@dataclass(frozen=True)
class _Recipe:
    """The settings to start from."""

    preset: Preset
    loss: str | None
    folds: int  # of the cross-validation; 0: none
    network: str | None  # an import path
    inputs: Path | None  # what it reads


@dataclass(frozen=True)
class _Training:
    """How to train, as the command line says it."""

    out: Path
    device: str
    resume: bool
    force: bool
    checkpoint_minutes: float
    running: Running


def _train_one(problem_dir: Path, recipe: _Recipe, changes: dict[str, Any], how: _Training) -> int:
    """A network for one q and one set of observed variables."""
    from cmpe.formats.directory import read_directory
    from cmpe.formats.numbers import read_inputs
    from cmpe.formats.text import write_text
    from cmpe.learning.runs import read_log
    from cmpe.learning.training.config import preset as preset_named
    from cmpe.learning.training.fitting import Session, fit

    check_device(how.device)
    content, out = read_directory(problem_dir), how.out
    config = preset_named(recipe.preset.value, recipe.loss, content.problem, **changes)
    _check_out(out, how.resume, how.force)
    if recipe.folds:
        config = _cross_validated(content, config, recipe.folds, how)
    with live() as show:
        kept = (out, how.device, how.resume, how.checkpoint_minutes, problem_dir)
        session = Session(*kept, how.running.threads, show, how.running)
        read = None if recipe.inputs is None else read_inputs(recipe.inputs)
        solver = fit(
            content.problem, content.train, config, session, network=recipe.network, inputs=read
        )
    records = read_log(out)
    draw(records, out / FIGURE)
    typer.echo(_summary(out, config, solver, records))
    price = _price(solver, content.train, read, records)
    write_text(out / PRICE, json.dumps(price.to_json(), indent=1) + "\n")
    typer.echo(price.sentence())
    return 0


def _cross_validated(
    content: ProblemDirectory, config: TrainingConfig, folds: int, how: _Training
) -> TrainingConfig:
    """The config with the best setting of the paper's grid, which OUT keeps for --resume."""
    from dataclasses import asdict, replace

    from cmpe.formats.text import parse_object, read_text, write_text
    from cmpe.learning.training.stacking import FoldPlan
    from cmpe.learning.training.stacking import cross_validate as choose

    kept = how.out / CHOICE
    if how.resume and kept.exists():
        return replace(config, **parse_object(kept, read_text(kept))["setting"])
    begin = time.monotonic()
    with live(_fold_line, "folds") as show:

        def progress(done: int, total: int) -> None:
            show({"epoch": done, "epochs": total, "seconds": time.monotonic() - begin})

        threads = how.running.threads
        plan = FoldPlan(folds=folds, device=how.device, threads=threads, progress=progress)
        found = choose(content.problem, content.train, config=config, plan=plan)
    best = found.trials[0]
    trials = [
        {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in asdict(t).items()}
        for t in found.trials
    ]
    how.out.mkdir(parents=True, exist_ok=True)
    choice = {"setting": best.setting, "folds": folds, "trials": trials}
    write_text(kept, json.dumps(choice, indent=1) + "\n")
    chosen = ", ".join(f"{name} {value:g}" for name, value in best.setting.items())
    typer.echo(
        f"{folds} folds, {len(found.trials)} settings, {time.monotonic() - begin:.1f} s: {chosen} "
        f"(regret {best.regret:.4g} nats, {best.violation:.2%} violated)"
    )
    return found.winner


def _fold_line(record: Record) -> str:
    left = record["seconds"] * (record["epochs"] / record["epoch"] - 1.0)
    return f"cross-validation  {left:.0f} s left"


def _price(
    solver: NeuralSolver,
    evidence: Assignments,
    inputs: NDArray[Any] | None,
    records: list[Record],
) -> Price:
    from cmpe.learning.price import price_of

    last = records[-1]
    return price_of(
        solver, evidence, inputs=inputs, rows=last["rows"], taught=last["taught_seconds"],
        trained=last["seconds"],
    )  # fmt: skip


def _settings(pairs: list[str], given: dict[str, Any], seed: int) -> dict[str, Any]:
    from dataclasses import fields

    from cmpe.learning.training.config import UNBOUNDED, TrainingConfig

    known = {f.name for f in fields(TrainingConfig)} - {"loss", "seed"}
    found = {"seed": seed, **given, **_set_values(pairs, known, given)}
    for name in UNBOUNDED & found.keys():
        if found[name] in (None, "inf"):
            found[name] = math.inf
    return found


def _set_values(pairs: list[str], known: set[str], given: dict[str, Any]) -> dict[str, Any]:
    """The values of --set by name, each of the names that are known and not given already."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or name not in known:
            names = ", ".join(sorted(known))
            raise InputError(f"--set needs NAME=VALUE with NAME one of {names}; found {pair!r}")
        if name in given:
            raise InputError(f"give the {name} once: --{name} N or --set {name}=N")
        try:
            found[name] = json.loads(value)
        except json.JSONDecodeError:
            found[name] = value
    return found


def _amortised_settings(pairs: list[str], given: dict[str, Any], seed: int) -> dict[str, Any]:
    """Settings of `AmortisedConfig` from the command line."""
    from dataclasses import fields

    from cmpe.learning.amortised.config import AmortisedConfig

    known = {f.name for f in fields(AmortisedConfig)} - {"seed"}
    return {"seed": seed, **given, **_set_values(pairs, known, given)}


def _train_amortised(
    problem_dir: Path,
    settings: dict[str, Any],
    anything: tuple[bool, bool],
    how: _Training,
) -> int:
    """One network for any evidence, any q, or both."""
    from cmpe.formats.directory import read_directory
    from cmpe.learning.amortised.config import AmortisedConfig
    from cmpe.learning.amortised.training import fit_amortised
    from cmpe.learning.runs import read_log
    from cmpe.learning.training.fitting import Session

    problem = read_directory(problem_dir).problem
    fixed: dict[str, Any] = {} if anything[0] else {"observed": problem.evidence_variables}
    fixed |= {} if anything[1] else {"limits": problem.limits.tolist()}
    asked = settings.get("questions", {})
    whole = {**asked, **fixed} if isinstance(asked, dict) else asked
    config = AmortisedConfig.from_json({**settings, "questions": whole})
    _check_out(how.out, how.resume, how.force)
    minutes = how.checkpoint_minutes
    with live(_question_line) as show:
        fit_amortised(
            problem,
            config,
            Session(how.out, how.device, how.resume, minutes, None, how.running.threads, show),
        )
    last, named = read_log(how.out)[-1], " and any ".join(_named(anything))
    typer.echo(
        f"{how.out}: messages for any {named}, {last['update']} generations, "
        f"{last['seconds']:.1f} s; on {last['questions']} questions that were not trained on: "
        f"{last['gain']:.2f} nats above untuned messages after repair "
        f"({last['violated']:.0%} lean over a limit before it)"
    )
    return 0


def _named(anything: tuple[bool, bool]) -> list[str]:
    return [name for name, is_any in zip(("evidence", "q"), anything, strict=True) if is_any]


def _check_out(out: Path, resume: bool, force: bool) -> None:
    """A run is not overwritten by accident."""
    from cmpe.learning.runs import CHECKPOINT, CONFIG, is_finished

    if out.exists() and not out.is_dir():
        raise InputError(f"{out}: expected a directory, found a file")
    if (out / "problem.json").exists():
        raise InputError(f"{out}: is a problem directory; choose another one for the run")
    if resume or force:
        return
    if (out / CONFIG).exists() and is_finished(out):
        raise InputError(
            f"{out}: holds a finished run; add --force to replace it, --resume to train on, or "
            "choose another --out"
        )
    if (out / CONFIG).exists() or (out / CHECKPOINT).exists():
        raise InputError(
            f"{out}: holds an unfinished run; add --resume to go on, --force to begin again, or "
            "choose another --out"
        )


@contextmanager
def live(
    line: Callable[[Record], str] | None = None, start: str = "labels and bounds"
) -> Iterator[Callable[[Record], None]]:
    """Something that draws each epoch, or look, to stderr when that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda record: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with display(*columns) as bar:
        task = bar.add_task(start, total=None)

        def show(record: Record) -> None:
            done, total = record.get("epoch", record.get("update")), record.get("epochs")
            if total is None:
                total = round(record["update"] / record["progress"])
            bar.update(task, completed=done, total=total, description=(line or _line)(record))

        yield show


def _line(record: Record) -> str:
    """One epoch in words, and how long the rest will take."""
    alpha = "" if record["alpha"] is None else f"  alpha {record['alpha']:.4f}"
    return (
        f"loss {record['loss']:.4g}  h {record['objective']:.6g}  violated "
        f"{record['rounded_violation']:.1%} (relaxed {record['relaxed_violation']:.1%}){alpha}  "
        f"{record['seconds_left']:.0f} s left"
    )


def _question_line(record: Record) -> str:
    """A look at a network for any question in words."""
    left = record["seconds"] * (1.0 / record["progress"] - 1.0)
    return f"{record['gain']:.4g} nats above untuned messages  {left:.0f} s left"


def draw(records: list[Record], path: Path) -> bool:
    """Draw a training run; False without matplotlib, since the log has it all."""
    from cmpe.pictures.figures import draw_learning, save

    try:
        save(draw_learning(records), path)
    except MissingExtra:
        return False
    return True


def _summary(out: Path, config: TrainingConfig, solver: NeuralSolver, records: list[Record]) -> str:
    margin = solver.calibrated_margin()
    seconds = records[-1]["seconds"] if records else 0.0
    kind = "module" if solver.trained.config.module else "mlp"
    text = (
        f"{out}: {kind} trained with {config.loss}, {solver.trained.epochs} epochs, {seconds:.1f} s"
    )
    for c in solver.trained.calibration:
        if c.margin == margin and c.regret is not None:
            text += (
                f"; network alone on {c.rows} validation rows at margin {margin:g}: "
                f"regret {c.regret:.4g} nats, {c.violation:.2%} violated"
            )
    missing = 1.0 - records[-1].get("alpha_known", 1.0) if records else 0.0
    if config.kind.family is Family.consistent and missing > 0:
        why = "nothing violates, or a bound is missing"
        text += f"; {missing:.1%} of the rows have no alpha: {why}"
    return text
