"""The cells of the fair study: problems, rows, labels and bounds, kept in one folder each.

A cell is a problem with distinct rows: rows to train on, rows that choose settings, and test rows
that occur in neither. Everything that needs compiled code is done here, so that training can run on
a machine with torch alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import cmpe
from cmpe.formats.debd import read_debd
from cmpe.formats.text import atomic_writer
from cmpe.generation import grid
from cmpe.learning.training.config import TrainingConfig
from cmpe.learning.training.data import TrainingData, prepare

MARGINS = (0.0, 2.0, 6.0)  # nats below q
ALLOWED = 0.01  # the share of rows that may be violated where a setting or a constant is chosen
TRAIN, VALIDATION, TEST = 3000, 1000, 1000  # rows of a cell; fewer where fewer are distinct
LONG_TRAIN = 9000
SAMPLES = 40_000
# What a loss reads: labels of every row and margin, tight bounds, or the bounds as printed.
KINDS = {"labels": "mse_pen", "fixed": "ss_cmpe", "printed": "ss_cmpe", "none": "ssl_pen"}


@dataclass(frozen=True)
class Cell:
    """One problem of the study: where its model comes from, and how its rows are made."""

    name: str
    source: str  # uai:FILE, tree:DATA, cutset:DATA or grid:SIZE
    percentile: int
    evidence: float = 0.6
    train: int = TRAIN

    @property
    def kinds(self) -> Sequence[str]:
        """What its arms read."""
        return LONG_KINDS if self.name.endswith("-long") else tuple(KINDS)

    def model(self, data: Path) -> Any:
        """The objective; `data` is the folder of data files."""
        kind, _, what = self.source.partition(":")
        if kind == "uai":
            return cmpe.read_model(data / "uai" / what)
        if kind == "grid":
            return grid(int(what), int(what), seed=1)
        train, valid = (
            read_debd(data / "density" / f"{what}.{part}.data.gz") for part in ("train", "valid")
        )
        if kind == "tree":
            return cmpe.learn_chow_liu(train, valid=valid).to_model()
        return cmpe.learn_cutset(train, cmpe.CutsetSettings(depth=3), valid=valid)


CELLS = (
    Cell("Segmentation_14-10", "uai:Segmentation_14.uai", 10),
    Cell("Segmentation_14-60", "uai:Segmentation_14.uai", 60),
    Cell("dna-10", "tree:dna", 10),
    Cell("dna-30", "tree:dna", 30),
    Cell("bbc-10", "tree:bbc", 10),
    Cell("bbc-80", "tree:bbc", 80),
    Cell("cwebkb-10", "tree:cwebkb", 10),
    Cell("cwebkb-80", "tree:cwebkb", 80),
    Cell("grid20-20%-30", "grid:20", 30, evidence=0.2),
    Cell("grid20-40%-30", "grid:20", 30, evidence=0.4),
    Cell("dna-cutset-10", "cutset:dna", 10),
    Cell("cwebkb-cutset-10", "cutset:cwebkb", 10),
    Cell("Grids_17-10", "uai:Grids_17.uai", 10),
)
# The five self-supervised arms again, at the paper's length; they read no labels.
LONG_KINDS = tuple(kind for kind in KINDS if kind != "labels")
LONG_CELLS = tuple(
    Cell(f"{c.name}-long", c.source, c.percentile, c.evidence, LONG_TRAIN)
    for c in CELLS
    if c.name in ("Segmentation_14-10", "dna-10", "bbc-10", "grid20-20%-30")
)


def distinct_rows(
    rows: NDArray[np.int32], cell: Cell
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Rows to train, to validate and to test on: distinct, and no row in two of them."""
    _, first = np.unique(rows, axis=0, return_index=True)
    kept = rows[np.sort(first)]
    test, validation = min(TEST, len(kept) // 5), min(VALIDATION, len(kept) // 5)
    train = min(cell.train, len(kept) - test - validation)
    ends = np.cumsum([test, validation, train])
    return kept[ends[1] : ends[2]], kept[ends[0] : ends[1]], kept[: ends[0]]


def config_of(kind: str) -> TrainingConfig:
    """The config whose labels and bounds are those of `kind`."""
    alpha = "paper" if kind == "printed" else "fixed"
    return TrainingConfig(loss=KINDS[kind], alpha=alpha, margins=MARGINS)


def prepare_cell(cell: Cell, data: Path, out: Path) -> None:
    """Make and keep everything that training reads; what is there already is not made again."""
    folder = out / cell.name
    if not (folder / "problem" / "problem.json").exists():
        recipe = cmpe.Recipe(
            evidence_fraction=cell.evidence, percentile=cell.percentile, samples=SAMPLES, seed=1
        )
        made = cmpe.generate(cell.model(data), recipe, name=cell.name)
        rows = np.concatenate([made.train, made.test])
        train, validation, test = distinct_rows(rows, cell)
        (folder).mkdir(parents=True, exist_ok=True)
        counts = {"train": len(train), "validation": len(validation), "test": len(test)}
        write_json(folder / "rows.json", counts)
        both = np.concatenate([train, validation])
        content = cmpe.ProblemDirectory(made.problem, both, test, made.provenance)
        cmpe.write_directory(content, folder / "problem")
    kept = KeptCell(folder)
    for kind in cell.kinds:
        path = folder / f"{kind}.npz"
        if path.exists():
            continue
        instances = cmpe.Instances(kept.problem, kept.rows)
        found = prepare(instances, config_of(kind), measured=kept.validation)
        arrays: dict[str, Any] = {"usable": found.usable, "reference": found.reference}
        if kind in ("fixed", "printed"):
            arrays |= {"p_upper": found.p_upper, "q_lower": found.q_lower}
        if kind == "labels":
            arrays["labels"] = np.packbits(found.labels == 1, axis=-1)
            arrays["labelled"] = found.labels[..., 0] >= 0
        with atomic_writer(path) as stream:
            np.savez_compressed(stream, **arrays)


@dataclass(frozen=True)
class KeptCell:
    """A prepared cell, read from its folder."""

    folder: Path

    @cached_property
    def _directory(self) -> cmpe.ProblemDirectory:
        return cmpe.read_directory(self.folder / "problem")

    @property
    def problem(self) -> cmpe.Problem:
        """The constrained problem."""
        return self._directory.problem

    @property
    def rows(self) -> NDArray[np.int32]:
        """The rows to train on, then those to validate on."""
        return np.asarray(self._directory.train, dtype=np.int32)

    @property
    def test(self) -> NDArray[np.int32]:
        """The test rows."""
        return np.asarray(self._directory.test, dtype=np.int32)

    @cached_property
    def _counts(self) -> dict[str, int]:
        counts: dict[str, int] = json.loads((self.folder / "rows.json").read_text())
        return counts

    @property
    def train(self) -> NDArray[np.intp]:
        """Which of `rows` train."""
        return np.arange(self._counts["train"])

    @property
    def validation(self) -> NDArray[np.intp]:
        """Which of `rows` choose settings and margins."""
        return np.arange(self._counts["train"], len(self.rows))

    def data(self, kind: str) -> TrainingData:
        """What training reads, as `prepare` made it."""
        with np.load(self.folder / f"{kind}.npz") as found:
            usable, reference = found["usable"], found["reference"]
            shape = usable.shape
            unknown = np.full(shape, np.nan)
            n = self.problem.variables
            labels = np.full((*shape, 0), -1, dtype=np.int8)
            if "labels" in found:
                bits = np.unpackbits(found["labels"], axis=-1, count=n).astype(np.int8)
                labels = np.where(found["labelled"][..., np.newaxis], bits, np.int8(-1))
            bounds = {name: found.get(name, unknown) for name in ("p_upper", "q_lower")}
        margins = np.broadcast_to(np.array(MARGINS), shape)
        multipliers = np.full((*shape, len(self.problem.constraints)), np.nan)
        return TrainingData(
            self.problem, self.rows, margins, usable, labels, reference,
            multipliers=multipliers, **bounds,
        )  # fmt: skip


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file as a whole, or not at all."""
    with atomic_writer(path) as stream:
        stream.write(json.dumps(value, indent=1).encode())
