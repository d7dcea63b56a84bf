"""Results small enough to keep in the repository: what a report reads, thinned.

    python -m study.paper.publish RESULTS --to study/paper/results/NAME
    python -m study.paper.publish --paper CSV --to study/paper/results/NAME

Numbers keep six digits, learning curves POINTS epochs each; the store and its index stay behind.
`study report` redraws everything from the folder. The second form puts the paper's printed figures
beside our own, from a file of them that is not part of this repository; git ignores the copy.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from cmpe.formats.text import write_text
from study.paper.results import ADVERSARIAL, papers_figures
from study.paper.store import Json

POINTS = 8
COPIED = ("cells", "times", "datasets")


def publish(results: Path, to: Path) -> None:
    """Write the small folder."""
    to.mkdir(parents=True, exist_ok=True)
    for name in COPIED:
        _write(to / f"{name}.jsonl", _read(results / f"{name}.jsonl"))
    _write(to / "curves.jsonl", thinned(_read(results / "curves.jsonl")))
    if (results / ADVERSARIAL[0]).is_file():
        _write(to / ADVERSARIAL[0], _read(results / ADVERSARIAL[0]))
    for name in ADVERSARIAL[1:]:
        if (results / name).is_file():
            shutil.copyfile(results / name, to / name)
    provenance = json.loads((results / "provenance.json").read_text(encoding="utf-8"))
    write_text(to / "provenance.json", json.dumps(provenance, indent=1) + "\n")


def thinned(curve_points: list[Json]) -> list[Json]:
    """At most POINTS of every curve, evenly spread, the first and the last among them."""
    curves: dict[tuple[Any, ...], list[Json]] = defaultdict(list)
    for point in curve_points:
        curves[point["dataset"], point["q"], point["method"], point["seed"]].append(point)
    kept = []
    for curve in curves.values():
        last = len(curve) - 1
        count = min(POINTS, len(curve))
        places = sorted({round(i * last / max(1, count - 1)) for i in range(count)})
        kept += [curve[place] for place in places]
    return kept


def _read(path: Path) -> list[Json]:
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _write(path: Path, records: list[Json]) -> None:
    lines = (json.dumps(_short(r), allow_nan=False, separators=(",", ":")) for r in records)
    write_text(path, "".join(f"{line}\n" for line in lines))


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {name: _short(found) for name, found in value.items()}
    return value


def main(arguments: list[str] | None = None) -> int:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("results", type=Path, nargs="?")
    options.add_argument("--to", type=Path, required=True)
    options.add_argument("--paper", type=Path, help="the paper's figures, a CSV file")
    chosen = options.parse_args(arguments)
    if chosen.results is None and chosen.paper is None:
        options.error("give RESULTS, or --paper CSV")
    if chosen.results is not None:
        publish(chosen.results, chosen.to)
    if chosen.paper is not None:
        figures = papers_figures(chosen.paper)
        if not figures:
            options.error(f"{chosen.paper}: expected the paper's figures, found none")
        _write(chosen.to / "paper.jsonl", figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
