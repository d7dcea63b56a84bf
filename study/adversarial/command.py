"""`study adversarial`: the smallest change that makes a classifier decide otherwise, many ways."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cmpe.cli.options import Format, check_device
from cmpe.errors import InputError, MissingExtra

if TYPE_CHECKING:
    from study.adversarial.methods import StudyEffort
    from study.adversarial.study import AttackOutcome, AttackStudy, StudyConfig

PICTURE = "adversarial"
COLUMNS = (
    ("method", 15), ("L1", 9), ("gap", 9), ("x proved", 10), ("failed", 9), ("8 bits", 9),
    ("training s", 12), ("us/image", 11), ("images", 8),
)  # fmt: skip


class Classifier(StrEnum):
    """How the classes are told apart."""

    multi_class = "multi-class"
    one_vs_all = "one-vs-all"


def adversarial(
    out: Annotated[Path, typer.Option(help="The directory of the study; it is continued.")],
    data: Annotated[
        str, typer.Option(help="digits (embedded, 8x8), or a directory with MNIST's idx files.")
    ] = "digits",
    classifier: Annotated[
        Classifier, typer.Option(help="One network with ten outputs, or ten with one.")
    ] = Classifier.multi_class,
    hidden: Annotated[
        str | None, typer.Option(help="Hidden layers of the classifier: 64, or 32,32.")
    ] = None,
    methods: Annotated[
        str | None, typer.Option(help="Which attacks, separated by commas; default: all of ours.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Of the autoencoders.")] = None,
    rows: Annotated[int | None, typer.Option(min=1, help="Test images at most.")] = None,
    few: Annotated[int, typer.Option(min=1, help="Images that ilp and foolbox get.")] = 10,
    time_limit: Annotated[float, typer.Option(help="Seconds an image, for ilp.")] = 20.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of everything.")] = 0,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    threads: Annotated[int, typer.Option(min=1, help="Threads of training.")] = 1,
    format_: Annotated[Format, typer.Option("--format", help="Of the table.")] = Format.table,
) -> int:
    """Train a classifier, attack it by every method, and compare them in a table and a picture."""
    from cmpe.formats.images import read_images
    from study.adversarial.methods import StudyEffort
    from study.adversarial.study import AttackStudy

    if format_ is Format.uai:
        raise InputError("--format is json or table here, found uai")
    check_device(device)
    images = read_images(data)
    asked = Asked(classifier is Classifier.one_vs_all, hidden, methods, epochs, rows)
    effort = StudyEffort(few=few, seconds=time_limit, seed=seed, device=device, threads=threads)
    config = _config(asked, effort, small=len(images.train) < 10_000)
    study = AttackStudy(images, config, out)
    try:
        outcomes = study.run(_progress)
    except KeyboardInterrupt:
        what = f"interrupted; {out} holds what is done, the same command continues"
        raise KeyboardInterrupt(what) from None
    table = study.table(outcomes)
    if format_ is Format.json:
        for row in table:
            typer.echo(json.dumps(row))
    else:
        typer.echo(_text(study, table))
    if draw(study, outcomes) and format_ is Format.table:
        typer.echo(f"The picture is {out / PICTURE}.png.")
    return 0


@dataclass(frozen=True)
class Asked:
    """What a person said of the classifier and the methods; None where the data decide."""

    one_vs_all: bool
    hidden: str | None
    methods: str | None
    epochs: int | None
    rows: int | None


def _config(asked: Asked, effort: StudyEffort, *, small: bool) -> StudyConfig:
    """Settings that suit the size of the data, with what was asked for."""
    from study.adversarial.classifier import FEW, MANY
    from study.adversarial.methods import METHODS
    from study.adversarial.study import StudyConfig

    base = FEW if small else MANY
    sizes = _sizes(asked.hidden) if asked.hidden is not None else base.hidden
    methods = METHODS
    if asked.methods is not None:
        methods = tuple(m.strip() for m in asked.methods.split(","))
    epochs = asked.epochs or (60 if small else 20)
    return StudyConfig(
        replace(base, hidden=sizes, one_vs_all=asked.one_vs_all, seed=effort.seed),
        methods,
        replace(effort, epochs=epochs),
        asked.rows,
    )


def _sizes(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--hidden is whole numbers, as in 64 or 32,32; found {text!r}") from None


def _progress(method: str, record: dict[str, Any] | None) -> None:
    if not sys.stderr.isatty():
        return
    known = record or {}
    steps = [f"{k} {known[k]}/{known[k + 's']}" for k in ("epoch", "image") if k in known]
    typer.echo(f"\r\x1b[K{' '.join([method, *steps])}", nl=record is None, err=True)


def _text(study: AttackStudy, table: list[dict[str, Any]]) -> str:
    """The table for a person."""
    first = table[0] if table else {"classifier": "", "rows": 0}
    head = "".join(f"{name:>{width}}" if k else f"{name:{width}}" for k, (name, width) in
                   enumerate(COLUMNS))  # fmt: skip
    lines = [
        f"Classifier {first['classifier']} on {study.data.name}: "
        f"{study.accuracy:.2%} of {len(study.data.test)} test images right. "
        "Attacked: those it gets right.",
        "L1: mean sum of |x - x'| over all attacked images; gap: above the nearest flip known;",
        "x proved: times the proved optimum where there is one; failed: not flipped; 8 bits: not",
        "flipped once saved in 8-bit levels.",
        "",
        head,
    ]
    for row in table:
        proved = row["ratio_proved"]
        lines.append(
            f"{row['method']:15}{_number(row['objective'], '.3f'):>9}"
            f"{_number(row['gap'], '.1%'):>9}{_number(proved, '.3f'):>10}"
            f"{_number(row['violation'], '.2%'):>9}{_number(row['violation_8bit'], '.2%'):>9}"
            f"{_number(row['train_seconds'], '.1f'):>12}{1e6 * row['seconds']:>11.0f}"
            f"{row['rows']:>8}"
        )
    return "\n".join(lines)


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def draw(study: AttackStudy, outcomes: list[AttackOutcome]) -> bool:
    """Draw the pictured digits under every method; False without matplotlib."""
    import numpy as np

    from cmpe.pictures.figures import save
    from study.adversarial.pictures import DigitColumn, draw_digits

    originals = study.data.test[study.pictured]
    if not len(originals):
        return False
    columns = [
        DigitColumn(
            o.method,
            o.pictured,
            study.classify(np.nan_to_num(o.pictured)),
            np.abs(o.pictured - originals).sum(axis=1),
        )
        for o in outcomes
    ]
    try:
        figure = draw_digits(originals, study.data.shape, columns, study.classify(originals))
        for suffix in (".png", ".svg"):
            save(figure, study.out / f"{PICTURE}{suffix}")
    except MissingExtra:
        return False
    return True
