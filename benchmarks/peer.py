"""Table: files of toulbar2's validation set, with its optima, answered by `cmpe.solve`.

    python -m benchmarks.peer [--time-limit 20] [--data ../shared/data/toulbar2] [FILE ...]

`found` is the cost of the answer in the file's sense, `theirs` what toulbar2 returns. They are not
comparable where `OTHER_UNITS` says why.
"""

from __future__ import annotations

import csv
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import cmpe
from benchmarks.frame import parser, print_table
from cmpe.errors import CmpeError

DATA = Path(__file__).parents[1].parent / "shared" / "data" / "toulbar2"
COLUMNS = ("file", "outcome", "found", "theirs", "bound", "seconds", "note")
OTHER_UNITS = {
    "alarm.cfn.gz": "toulbar2 adds the least cost of each dense table of 4 or more variables twice",
    "network.uai": "a log-value here, a shifted cost there",
    "1cb6.LG.xz": "a log-value here, a shifted cost there",
}
# What the assignment that toulbar2 returns costs by the entries of these files.
BY_ENTRIES = {"alarm.cfn.gz": 3.086727, "network.uai": -361.99999733, "1cb6.LG.xz": -132.405304}


@dataclass(frozen=True)
class PeerFile:
    """A file of the set and its optimum by its own entries."""

    name: str
    theirs: float
    optimum: float


def files(data: Path) -> Iterator[PeerFile]:
    """The files that are there."""
    with (data / "values.csv").open() as lines:
        for row in csv.DictReader(lines):
            theirs = float(row["toulbar2_cost"])
            yield PeerFile(row["file"], theirs, BY_ENTRIES.get(row["file"], theirs))


def is_equal(found: float, optimum: float) -> bool:
    """Whether a cost is the optimum."""
    return math.isclose(found, optimum, rel_tol=1e-6, abs_tol=1e-6)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser(__doc__)
    options.add_argument("--time-limit", type=float, default=20.0, help="seconds per file")
    options.add_argument("--data", type=Path, default=DATA, help="the folder of the set")
    options.add_argument("files", nargs="*", help="only these")
    chosen = options.parse_args(arguments)
    records = [
        _answered(chosen.data, file, chosen.time_limit)
        for file in files(chosen.data)
        if file.name in (chosen.files or [file.name])
    ]
    print_table(records, COLUMNS)
    return int(any(record["outcome"] == "wrong" for record in records))


def _answered(data: Path, file: PeerFile, limit: float) -> dict[str, object]:
    begin = time.process_time()
    record: dict[str, object] = {"file": file.name, "theirs": file.theirs}
    try:
        problem = cmpe.read_problem(data / file.name)
    except CmpeError as error:
        return record | {"outcome": "refused", "note": str(error).split(": ", 1)[-1]}
    answer = cmpe.solve(problem, time_limit=limit)[0]
    found, bound = -answer.objective, -answer.bound
    outcome = answer.status.label
    if outcome in ("optimal", "infeasible") and not is_equal(found, file.optimum):
        outcome = "wrong"
    note = OTHER_UNITS.get(file.name, "")
    seconds = time.process_time() - begin
    return record | {
        "outcome": outcome,
        "found": found,
        "bound": bound,
        "seconds": round(seconds, 1),
        "note": note,
    }


if __name__ == "__main__":
    sys.exit(main())
