"""Results small enough to keep in the repository: what a report reads, thinned.

    python -m study.paper.publish RESULTS --to study/paper/results/NAME [--methods exact ...]
    python -m study.paper.publish --paper CSV --to study/paper/results/NAME

Numbers keep five digits; curves, times, pictures and the store stay behind. `study report` draws
from the folder what the cells allow. The second form puts the paper's printed figures
beside our own, from a file of them that is not part of this repository; git ignores the copy.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cmpe.formats.text import write_text
from study.paper.results import ADVERSARIAL, papers_figures
from study.paper.store import Json
from study.reporting.results import CELLS

# What the report reads of a cell; the rest says how it was made and stays behind.
FIELDS = (
    "dataset", "group", "q", "method", "seed", "status", "reason", "every", "constrained",
    "mean_reference", "mean_objective", "overlap", "relaxed_violation", "train_seconds",
    "device",
)  # fmt: skip


def publish(results: Path, to: Path, methods: Sequence[str] = ()) -> None:
    """Write the small folder, of these methods only, if any are named."""
    to.mkdir(parents=True, exist_ok=True)
    cells = [c for c in _read(results / CELLS) if not methods or c["method"] in methods]
    _write(to / CELLS, [{name: c[name] for name in FIELDS if name in c} for c in cells])
    for name in ("datasets.jsonl", ADVERSARIAL[0]):
        if (results / name).is_file():
            _write(to / name, _read(results / name))
    provenance = json.loads((results / "provenance.json").read_text(encoding="utf-8"))
    write_text(to / "provenance.json", json.dumps(provenance, indent=1) + "\n")


def _read(path: Path) -> list[Json]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _write(path: Path, records: list[Json]) -> None:
    lines = (json.dumps(_short(r), allow_nan=False, separators=(",", ":")) for r in records)
    write_text(path, "".join(f"{line}\n" for line in lines))


def _short(value: Any) -> Any:
    """Five digits, and nothing that is null."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {name: _short(found) for name, found in value.items() if found is not None}
    return value


def main(arguments: list[str] | None = None) -> int:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("results", type=Path, nargs="?")
    options.add_argument("--to", type=Path, required=True)
    options.add_argument("--methods", nargs="+", default=(), help="only their cells")
    options.add_argument("--paper", type=Path, help="the paper's figures, a CSV file")
    chosen = options.parse_args(arguments)
    if chosen.results is None and chosen.paper is None:
        options.error("give RESULTS, or --paper CSV")
    if chosen.results is not None:
        publish(chosen.results, chosen.to, chosen.methods)
    if chosen.paper is not None:
        figures = papers_figures(chosen.paper)
        if not figures:
            options.error(f"{chosen.paper}: expected the paper's figures, found none")
        _write(chosen.to / "paper.jsonl", figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
