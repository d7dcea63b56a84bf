"""Table: CPU milliseconds to read a UAI file into a model, for cmpe, pyAgrum and pgmpy.

    python -m benchmarks.reading [--limit 30]

The files are the paper's five models, and small random grids. cmpe and pyAgrum are timed in
turns. pgmpy parses a file anew for each of its tables, so it gets one try of at most --limit
seconds; where it fails or does not finish, the record says so, with the time until then.
`tokens` is a yardstick, not a model: splitting the text and making one array of its numbers.
`difference` is the largest, in nats, from cmpe's values of 100 random assignments. It shows that
pyAgrum keeps float32 digits, and that it ignores the order of a scope: the tables of the paper's
models are symmetric, those of the grids are not.
"""

from __future__ import annotations

import signal
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

import numpy as np

import cmpe
from benchmarks.frame import Recorder, Timing, grid_files, model_files, parser, print_table, race

SMALL_GRIDS = ((3, 0), (4, 0), (6, 0), (8, 0))
COLUMNS = (
    "model", "factors", "reader", "best_ms", "median_ms", "times_cmpe", "difference", "outcome",
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser(__doc__)
    options.add_argument("--limit", type=float, default=30.0, help="seconds for pgmpy, per file")
    chosen = options.parse_args(arguments)
    with (
        Recorder("reading", chosen) as recorder,
        model_files() as models,
        grid_files(SMALL_GRIDS) as grids,
    ):
        for path in (*models, *grids):
            _compare(path, chosen.limit, chosen.seed, recorder)
    print_table(recorder.records, COLUMNS)
    return 0


@dataclass(frozen=True)
class Reading:
    """How one reader fared with one file."""

    timing: Timing
    model: cmpe.LogLinearModel | None = None
    outcome: str = "read"


def _compare(path: Path, limit: float, seed: int, recorder: Recorder) -> None:
    ours = cmpe.read_uai(path)
    readings = {**_in_turns(path), "pgmpy": _with_pgmpy(path, limit)}
    for reader, reading in readings.items():
        recorder.add(
            model=path.stem,
            bytes=path.stat().st_size,
            factors=len(ours.factors),
            reader=reader,
            best_ms=1e3 * reading.timing.best,
            median_ms=1e3 * reading.timing.median,
            times_cmpe=reading.timing.best / readings["cmpe"].timing.best,
            difference=_difference(ours, reading.model, seed),
            outcome=reading.outcome,
        )


def _in_turns(path: Path) -> dict[str, Reading]:
    with warnings.catch_warnings():  # its import warns
        warnings.simplefilter("ignore")
        import pyagrum

    timings = race(
        {
            "cmpe": lambda: cmpe.read_uai(path),
            "tokens": lambda: np.array(path.read_text().split()[1:], dtype=float),
            "pyagrum": lambda: pyagrum.loadMRF(str(path)),
        },
        clock=time.process_time,
    )
    model = cmpe.LogLinearModel.from_pyagrum(pyagrum.loadMRF(str(path)))
    return {
        name: Reading(timing, model if name == "pyagrum" else None)
        for name, timing in timings.items()
    }


def _with_pgmpy(path: Path, limit: float) -> Reading:
    from pgmpy.readwrite import UAIReader

    network, outcome = None, "read"
    begin = time.process_time()
    try:
        with _at_most(limit):
            network = UAIReader(str(path)).get_model()
    except TimeoutError:
        outcome = f"not read in {limit:g} s"
    except Exception as error:  # whatever the other package raises is its outcome
        outcome = f"failed: {type(error).__name__}: {str(error).splitlines()[0]}"
    seconds = time.process_time() - begin
    model = None if network is None else cmpe.LogLinearModel.from_pgmpy(network)
    return Reading(Timing(seconds, seconds), model, outcome)


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in the block after `seconds` of CPU time."""

    def stop(signal_number: int, frame: FrameType | None) -> NoReturn:
        raise TimeoutError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _difference(
    ours: cmpe.LogLinearModel, other: cmpe.LogLinearModel | None, seed: int
) -> float | None:
    """The largest difference of their values; the other's names end in our variable numbers."""
    if other is None:
        return None
    rows = np.random.default_rng(seed).integers(0, ours.cardinalities, (100, ours.variables))
    columns = [int(name.removeprefix("var_")) for name in other.names]
    return float(np.abs(ours.value(rows) - other.value(rows[:, columns])).max())


if __name__ == "__main__":
    sys.exit(main())
