"""`cmpe learn`: a Chow-Liu tree or a cutset network from data."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cmpe.cli.info import InfoFormat

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from cmpe.formats.network import Network
    from cmpe.models.tractable.learning import CutsetSettings

    Data = dict[str, NDArray[np.integer]]


class LearnedKind(StrEnum):
    """What to learn."""

    chow_liu = "chow-liu"
    cutset = "cutset"


def learn(
    train: Annotated[Path, typer.Argument(help="Data: .data, .csv (0,1,2,...) or .npy.")],
    out: Annotated[
        Path,
        typer.Option(help="MODEL.json (and MODEL.npz beside it), or tables: MODEL.uai, MODEL.LG."),
    ],
    valid: Annotated[
        Path | None,
        typer.Option(help="Validation data, which choose the smoothing and the pruning."),
    ] = None,
    test: Annotated[
        Path | None, typer.Option(help="Test data, whose log-likelihood is reported.")
    ] = None,
    model: Annotated[
        LearnedKind, typer.Option(help="A tree, or a network of trees.")
    ] = LearnedKind.cutset,
    depth: Annotated[int, typer.Option(min=0, help="The greatest depth of a cutset network.")] = 5,
    minimum_rows: Annotated[
        float, typer.Option(help="The fewest training rows in a leaf of a cutset network.")
    ] = 10.0,
    candidates: Annotated[
        int,
        typer.Option(
            min=1,
            help="Splits compared by likelihood; with 1, the split of "
            "largest information gain is taken.",
        ),
    ] = 1,
    smoothing: Annotated[
        float | None,
        typer.Option(help="Number of pseudo-rows; default: chosen by --valid, otherwise 1."),
    ] = None,
    inheritance: Annotated[
        float | None,
        typer.Option(
            help="Number of pseudo-rows from the parent node; default: "
            "chosen by --valid, otherwise 30."
        ),
    ] = None,
    format: Annotated[
        InfoFormat, typer.Option(help="table: for people; json: for programs.")
    ] = InfoFormat.table,
) -> int:
    """Learn a tractable model from data and report its mean log-likelihood, in nats."""
    from cmpe.formats.text import check_writable
    from cmpe.models.tractable.learning import CutsetSettings

    settings = CutsetSettings(depth, minimum_rows, smoothing, inheritance, candidates)
    data = _read({"train": train, "valid": valid, "test": test})
    _is_learned(out)
    check_writable(out)
    network = _learn(model, data, settings)
    report: dict[str, Any] = {
        name: float(network.log_likelihood(rows).mean()) for name, rows in data.items()
    }
    _write(network, out, report)
    if format is InfoFormat.json:
        typer.echo(json.dumps({**report, "model": model.value, **_size(network)}))
        return 0
    size = ", ".join(f"{count} {name}" for name, count in _size(network).items())
    typer.echo(f"{out}: {model.value}, {size}")
    for name, rows in data.items():
        typer.echo(f"{name:<5}  {report[name]:>12.4f} nats a row, {len(rows)} rows")
    return 0


def _read(files: dict[str, Path | None]) -> Data:
    """The data sets, all with as many columns."""
    from cmpe.errors import FormatError
    from cmpe.formats.debd import read_data

    data = {name: read_data(file) for name, file in files.items() if file is not None}
    columns = data["train"].shape[1]
    for name, rows in data.items():
        if rows.shape[1] != columns:
            place = f"{columns} columns, as {files['train']} has"
            raise FormatError.at(str(files[name]), "line 1", place, str(rows.shape[1]))
    return data


def _learn(model: LearnedKind, data: Data, settings: CutsetSettings) -> Network:
    import numpy as np

    from cmpe.cli.options import progress_bar
    from cmpe.models.tractable.chow_liu import learn_chow_liu
    from cmpe.models.tractable.learning import learn_cutset

    largest = np.max([rows.max(axis=0) for rows in data.values()], axis=0)
    cards = np.maximum(2, largest.astype(np.int64) + 1).tolist()
    train, valid = data["train"], data.get("valid")
    if model is LearnedKind.chow_liu:
        return learn_chow_liu(train, cardinalities=cards, smoothing=settings.smoothing, valid=valid)
    with progress_bar("learning", "steps") as progress:
        return learn_cutset(train, settings, cardinalities=cards, valid=valid, progress=progress)


def _size(network: Network) -> dict[str, int]:
    return {"variables": network.variables, "leaves": network.leaves, "depth": network.depth}


def _write(network: Network, out: Path, report: dict[str, Any]) -> None:
    from cmpe.formats.network import write_network
    from cmpe.formats.registry import write_model

    if _is_learned(out):
        write_network(network, out, {"log_likelihood": report})
    else:
        write_model(network, out)


def _is_learned(out: Path) -> bool:
    """Whether the file has a description, which holds the report; an unknown suffix is refused."""
    from cmpe.formats.registry import format_of
    from cmpe.formats.text import suffix_of

    return suffix_of(out) == "" or not format_of(out).only_tables
