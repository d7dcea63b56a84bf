"""A trained solver as a directory: config.json, weights.safetensors, log.jsonl, checkpoint.pt.

config.json describes itself: format version, the training config, the network, hashes of the
models with q and the evidence variables and of the weights, and how each margin fared on the
validation rows.
Every file is written under a temporary name and renamed, so that a full disk or Ctrl-C leaves
what was there before.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from cmpe.arguments import real_number, whole_number
from cmpe.arrays import Assignments
from cmpe.errors import FormatError, InputError
from cmpe.formats.labels import problem_digest, rows_digest
from cmpe.formats.text import (
    atomic_writer,
    parse_object,
    read_bytes,
    write_text,
    write_together,
    writing,
)
from cmpe.learning.networks.modules import Own, sizes_of
from cmpe.learning.networks.reading import EVIDENCE_ALONE, Reads
from cmpe.learning.training.config import TrainingConfig
from cmpe.locks import lock, open_folder
from cmpe.problem import Problem

Record = dict[str, Any]  # what the log has of an epoch

FORMAT_VERSION = 1
NEURAL, AMORTISED = "cmpe neural solver", "cmpe amortised solver"  # kinds of runs
CONFIG, WEIGHTS, LOG, CHECKPOINT = (
    "config.json",
    "weights.safetensors",
    "log.jsonl",
    "checkpoint.pt",
)


@dataclass(frozen=True)
class Calibration:
    """How rounded answers fared when asked to keep `margin`."""

    margin: float
    regret: float | None  # mean over the feasible answers to validation rows, in nats
    rows: int  # validation rows
    violation: float  # share of violated ones
    all_rows: int = 0  # validation and training rows
    all_violation: float = 1.0

    def __post_init__(self) -> None:
        for name in ("rows", "all_rows"):
            object.__setattr__(self, name, whole_number(name, getattr(self, name), 0))
        for name in ("margin", "violation", "all_violation"):
            object.__setattr__(self, name, real_number(name, getattr(self, name)))
        if self.regret is not None:
            object.__setattr__(self, "regret", real_number("regret", self.regret))


def worst_rate(rate: float, rows: int) -> float:
    """What the true rate is below with 95 % confidence (Clopper & Pearson 1934)."""
    from scipy.stats import beta

    bad = round(rate * rows)
    return 1.0 if bad >= rows else float(beta.ppf(0.95, bad + 1, rows - bad))


@dataclass(frozen=True)
class Trained:
    """What a run directory holds of a trained network."""

    config: TrainingConfig
    digest: str  # hash of the problem: models, q, evidence variables
    parameters: dict[str, Tensor]
    calibration: tuple[Calibration, ...] = ()
    epochs: int = 0  # done
    finished: bool = True  # False after Ctrl-C: resume continues
    name: str = ""
    passes: tuple[float, ...] = ()  # margins that calibration asks for together
    module: Own | None = None  # the network where it is the user's
    inputs: tuple[int, ...] = ()  # the shape of what it reads of each row in place of evidence
    reads: Reads = EVIDENCE_ALONE

    @property
    def asked_margins(self) -> tuple[float, ...]:
        """The margins of the passes: those that calibration chose, else the calibrated one."""
        return self.passes or (self.calibrated_margin(),)

    def calibrated_margin(self, allowed: float | None = None) -> float:
        """The margin of least regret whose rate of violations is at most `allowed` with 95 %
        confidence by the validation rows; where they are too few to show it of any margin, by
        all rows; else the largest margin of those that violated least.

        `allowed` is `config.allowed_violation` by default.
        """
        rate = self.config.allowed_violation if allowed is None else allowed
        known = [c for c in self.calibration if c.regret is not None]
        if not known:
            return 0.0
        held = [c for c in known if worst_rate(c.violation, c.rows) <= rate]
        every = [c for c in known if worst_rate(c.all_violation, c.all_rows) <= rate]
        if held or every:
            return min(held or every, key=lambda c: (c.regret, c.margin)).margin
        return min(known, key=lambda c: (c.all_violation, c.violation, -c.margin)).margin


def is_run(path: Path | str) -> bool:
    """Whether `path` is the directory of a trained solver."""
    return (Path(path) / CONFIG).is_file() and not (Path(path) / "problem.json").exists()


def write_trained(trained: Trained, folder: Path | str) -> None:
    """Write weights, and the config that names them."""
    description = {
        "format_version": FORMAT_VERSION,
        "kind": NEURAL,
        "name": trained.name,
        "problem_sha256": trained.digest,
        "epochs": trained.epochs,
        "finished": trained.finished,
        "training": trained.config.to_json(),
        "calibration": [asdict(c) for c in trained.calibration],
        "passes": list(trained.passes),
        **({} if trained.module is None else {"module": trained.module.to_json()}),
        **({"inputs": list(trained.inputs)} if trained.inputs else {}),
        **trained.reads.to_json(),
    }
    write_run(folder, description, trained.parameters)


def write_run(
    folder: Path | str, description: Mapping[str, Any], parameters: Mapping[str, Tensor]
) -> None:
    """Write the weights of any kind of run, and its description with their hash, together."""
    place = Path(folder)
    with writing(folder):
        place.mkdir(parents=True, exist_ok=True)
    weights = save({k: v.contiguous() for k, v in parameters.items()})
    whole = {**description, "weights_sha256": hashlib.sha256(weights).hexdigest()}
    text = json.dumps(whole, indent=1) + "\n"
    write_together([(place / WEIGHTS, weights), (place / CONFIG, text.encode())])


def read_trained(
    folder: Path | str, problem: Problem | None = None, network: nn.Module | str | None = None
) -> Trained:
    """Read a run directory; what does not fit its format is refused.

    A module of the user's is made for a `problem` only; `network` makes it where the run cannot.
    """
    place = Path(folder)
    found = description(place / CONFIG, NEURAL)
    try:
        config = TrainingConfig.from_json(found["training"])
        calibration = tuple(Calibration(**c) for c in found["calibration"])
        digest, name = str(found["problem_sha256"]), str(found["name"])
        epochs = whole_number("epochs", found["epochs"], 0)
        passes = tuple(real_number("passes", margin) for margin in found.get("passes", ()))
        inputs = tuple(whole_number("inputs", size, 0) for size in found.get("inputs", ()))
        reads = Reads.from_json(found["reads"]) if "reads" in found else EVIDENCE_ALONE
    except (KeyError, TypeError, ValueError, InputError) as error:
        wrong = str(error) if isinstance(error, InputError) else repr(error)
        raise FormatError.at(place / CONFIG, "the file", "a trained solver", wrong) from None
    parameters = kept_weights(place / WEIGHTS, found.get("weights_sha256"))
    own = None
    if config.module and problem is not None:
        made = found.get("module")
        known = made if isinstance(made, dict) else {}
        sizes = sizes_of(problem, inputs, reads)
        own = Own.of(network, sizes) if network else Own.from_json(known, sizes)
    done = found["finished"]
    return Trained(
        config, digest, parameters, calibration, epochs, done, name, passes, own, inputs, reads
    )


def is_finished(folder: Path | str) -> bool:
    """Whether the run in a directory came to its end; the weights are not looked at."""
    return bool(description(Path(folder) / CONFIG)["finished"])


def description(file: Path, kind: str | None = None) -> dict[str, Any]:
    """What config.json says, of a run of one kind or of any."""
    found = {"kind": NEURAL, **parse_object(file, read_bytes(file))}
    if found.get("format_version") != FORMAT_VERSION:
        version = repr(found.get("format_version"))[:60]
        raise FormatError.at(file, "field 'format_version'", f"{FORMAT_VERSION}", version)
    if not isinstance(found.get("finished"), bool):
        wrong = repr(found.get("finished", "nothing"))[:60]
        raise FormatError.at(file, "field 'finished'", "true or false", wrong)
    if kind is not None and found["kind"] != kind:
        raise FormatError.at(file, "field 'kind'", repr(kind), repr(found["kind"])[:60])
    return found


def kept_weights(file: Path, digest: object) -> dict[str, Tensor]:
    """The weights, if they are those that the config was written with; an old one does not say."""
    data = read_bytes(file)
    if digest is not None and hashlib.sha256(data).hexdigest() != digest:
        expected = f"the weights of {CONFIG} beside it"
        raise FormatError.at(file, "sha256", expected, "others; train again, or --resume")
    try:
        return {k: v.float() for k, v in load(data).items()}
    except Exception as error:  # a foreign file makes safetensors raise more than its own error
        raise FormatError.at(file, "the file", "safetensors", str(error)[:200]) from None


@contextlib.contextmanager
def locked(folder: Path | None) -> Iterator[None]:
    """Keep another process from training in the same directory.

    The lock is on the directory itself. Where a file system has no locks, nothing is locked.
    """
    if folder is None:
        yield
        return
    is_new = not folder.exists()
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        handle = open_folder(folder)
    try:
        with contextlib.suppress(OSError):
            try:
                lock(handle)
            except BlockingIOError:
                raise InputError(
                    f"{folder}: another process is training in this directory; wait for it, or "
                    "choose another one"
                ) from None
        yield
    finally:
        os.close(handle)
        if is_new:  # and nothing was written: leave no trace
            with contextlib.suppress(OSError):
                folder.rmdir()


def write_log(folder: Path | str, records: Sequence[Record]) -> None:
    """One line per epoch, all of them again: a reader never sees half a line."""
    write_text(Path(folder) / LOG, "".join(f"{json.dumps(record)}\n" for record in records))


def read_log(folder: Path | str) -> list[Record]:
    """Every epoch of a run, also those before it was resumed."""
    path = Path(folder) / LOG
    lines = enumerate(read_bytes(path).splitlines(), 1)
    return [parse_object(path, line, line=number) for number, line in lines]


def write_checkpoint(folder: Path | str, state: dict[str, Tensor], about: dict[str, Any]) -> None:
    """Keep everything that a resumed run needs."""
    buffer = io.BytesIO()
    torch.save({"state": state, "about": about}, buffer)
    with atomic_writer(Path(folder) / CHECKPOINT) as stream:
        stream.write(buffer.getvalue())


def read_checkpoint(folder: Path | str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The last checkpoint of a run."""
    path = Path(folder) / CHECKPOINT
    data = read_bytes(path)
    try:
        kept = torch.load(io.BytesIO(data), weights_only=True, map_location="cpu")
        state, about = dict(kept["state"]), dict(kept["about"])
        return state, {**about, "seconds": float(about["seconds"])}
    except Exception:  # a foreign file makes torch raise nearly anything
        raise FormatError.at(path, "the file", "a checkpoint of cmpe", "other") from None


def describe(problem: Problem, config: TrainingConfig, rows: Assignments) -> dict[str, Any]:
    """What a checkpoint belongs to: a run resumes only where this is the same."""
    inputs = None if problem.lift is None else problem.lift.inputs
    return {
        **({} if inputs is None else {"inputs": rows_digest(inputs)}),
        "problem": problem_digest(problem),
        "rows": rows_digest(rows),
        **{f"config, {k}": json.dumps(v) for k, v in config.to_json().items() if k != "epochs"},
    }
