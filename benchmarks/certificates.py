"""Table: certificates of the cells of `benchmarks.exact` and of wide rows: size, time, verified.

    python -m benchmarks.certificates [--parts paper,less,hard,kinds,wide,random] [--rows 20]

The part `random` certifies random problems as the campaign does, half of them by trees alone, and
tampers with each certificate; enumeration says whether what is verified holds.

CPU seconds of this process: `solve_ms`, `certify_ms` and `check_ms` are means over rows, `kb` is
the size of the file a row. `verified` counts what the stand-alone checker verifies, `weaker` those
of them whose bound is weaker than the answer's; other rows have no certificate within the limits
of `cmpe.certificates`, and say so.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import cmpe
from benchmarks.campaign.certificates import unit
from benchmarks.campaign.journal import Journal
from benchmarks.competition import FOLDER, instances_of
from benchmarks.exact_kinds import generated_cell, generated_kinds
from benchmarks.exact_measure import Cell, Settings
from benchmarks.exact_paper import cell_of, sources
from benchmarks.frame import Recorder, parser, print_table
from cmpe.certificates import proving
from cmpe.certificates.checker import check
from cmpe.formats.evidence import read_rows

GRIDS = ("Grids_17", "Grids_18")  # asked with 10 % evidence, in the part `wide`
CHOICES = {  # evidence, variance of the noise, percentiles of q
    "paper": ((0.6,), 0.1, (10, 30, 80)),
    "less": ((0.3,), 0.1, (30,)),
    "hard": ((0.6,), 0.001, (1,)),
    "wide": ((0.1,), 0.1, (30,)),
}
COLUMNS = (
    "cell", "rows", "proved", "verified", "weaker", "cubes", "kb", "solve_ms", "certify_ms",
    "check_ms",
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser(__doc__)
    options.add_argument("--parts", default="paper,kinds", help="a list with commas")
    options.add_argument("--rows", type=int, default=20, help="of a cell")
    options.add_argument("--only", nargs="+", help="instances of the part `wide`, by name")
    options.add_argument("--problems", type=int, default=5000, help="of the part `random`")
    told = options.parse_args(arguments)
    settings = Settings(seed=told.seed, samples=1000, made_rows=100)
    with Recorder("certificates", told) as recorder:
        for part in told.parts.split(","):
            if part == "random":
                for name in ("elimination", "trees"):
                    recorder.add(cell=f"random: {name}", **tried(name, told.problems // 2))
                continue
            for name, cell in cells(part, settings, told.rows, told.only):
                recorder.add(cell=name, **measured(cell, told.rows))
    print_table(recorder.records, COLUMNS)
    return 0


def tried(how: str, problems: int) -> dict[str, Any]:
    """How many rows are verified, and how many tampered certificates are refused."""
    journal, begin = Journal(), time.process_time()
    most = proving.MOST_ENTRIES
    proving.MOST_ENTRIES = most if how == "elimination" else -1
    for seed in range(problems):
        unit(np.random.default_rng([43, len(how), seed]), journal)
    proving.MOST_ENTRIES = most
    counts = journal.counts
    return {
        "rows": counts["certified rows"],
        "wrong": len(journal.findings),
        "tampered": counts["tampered certificates"],
        "refused": counts["tampered certificates that were refused"],
        "seconds": time.process_time() - begin,
    }


def cells(
    part: str, settings: Settings, rows: int, only: Sequence[str] | None = None
) -> Iterator[tuple[str, Cell]]:
    """The cells of a part of `benchmarks.exact`; or wide rows, mostly without a constraint."""
    if part == "wide":
        for instance in instances_of(FOLDER):
            if only and instance.name not in only:
                continue
            problem = cmpe.Problem(cmpe.read_model(instance.model))
            row = np.full((1, problem.variables), -1)
            if instance.evidence is not None:
                row = read_rows(instance.evidence, problem).states
            yield instance.name, Cell({"model": instance.model}, problem, row)
    if part == "kinds":
        for kind in generated_kinds(settings.seed):
            yield kind.name, generated_cell(kind, settings)
    else:
        shares, variance, percentiles = CHOICES[part]
        for source in sources(settings):
            if part == "wide" and source.name not in (only or GRIDS):
                continue
            for share, q in itertools.product(shares, percentiles):
                cell = cell_of(source, q, evidence=share, variance=variance, rows=rows)
                noise = "" if variance == 0.1 else f", noise {variance:g}"
                yield f"{source.name}, {share:.0%} evidence, q at {q}{noise}", cell


def measured(cell: Cell, most: int) -> dict[str, Any]:
    """Certificates of the first rows, and what the checker says of them."""
    problem, rows = cell.problem, cell.rows[:most]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "proof.json")
        begin = time.process_time()
        answers = cmpe.solve(problem, rows, time_limit=20.0)
        solved = time.process_time()
        models = [cell.about["model"]] if "model" in cell.about else []
        made = cmpe.certify(problem, rows, path, answers=answers, models=models)
        certified = time.process_time()
        verdicts = list(check(path))
        checked = time.process_time()
        size = path.stat().st_size
    count = len(rows)
    wrong = [words for _, holds, words in verdicts if not holds and "refused" in words]
    assert not wrong, wrong
    return {
        "rows": count,
        "proved": int(answers.proved.sum()),
        "verified": sum(holds for _, holds, _ in verdicts),
        "weaker": int(made.weaker.sum()),
        "cubes": sum(made.cubes) / count,
        "kb": size / 1e3 / count,
        "solve_ms": 1e3 * (solved - begin) / count,
        "certify_ms": 1e3 * (certified - solved) / count,
        "check_ms": 1e3 * (checked - certified) / count,
        "failures": sorted({failure for failure in made.failures if failure}),
    }


if __name__ == "__main__":
    sys.exit(main())
