"""The table of docs/paper.md, from the kept figures of the study; a test compares them.

    python -m study.paper.readme [--into docs/paper.md]

Without `--into` it is printed. It stands between `<!-- NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cmpe.formats.text import write_text

KEPT = Path(__file__).parent / "results" / "full.json"
SHOWN = (10, 60)  # percentiles
TINY = 5e-4  # nats: what is below reads 0

Json = dict[str, Any]


def read_kept(path: Path = KEPT) -> list[Json]:
    """One record for every data set and percentile."""
    found: list[Json] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return found


def tables(cells: Sequence[Json]) -> dict[str, str]:
    """Markdown by name."""
    head = ["data set, q", "binds", "in training", "constant", "`ss_cmpe`", "its answers"]
    rows = [
        [
            f"{cell['dataset']}, {cell['q']}",
            percent(cell["binding"]),
            percent(cell["overlap"]),
            _figures(cell["constant"]),
            _figures(cell["ss_cmpe"]),
            f"{cell['ss_cmpe']['answers']:.0f} of {cell['optima']}",
            _figures(cell["lagrangian"]),
        ]
        for q in SHOWN
        for cell in cells
        if cell["q"] == q
    ]
    return {"learned": markdown([*head, "`lagrangian`"], rows)}


def _figures(found: Json) -> str:
    """Regret in nats and the share of violated rows."""
    regret = found["regret"]
    shown = "0" if abs(regret) < TINY else f"{float(f'{regret:.2g}'):g}"
    return f"{shown}, {percent(found['violation'])}"


def percent(share: float) -> str:
    """Two digits, or the whole number."""
    return f"{float(f'{100 * share:.2g}'):g} %"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def put(text: str, found: dict[str, str]) -> str:
    """A page with those of the tables renewed that it has marks for."""
    for name, table in found.items():
        start, end = f"<!-- {name} -->\n", "<!-- end -->"
        if start not in text:
            continue
        before, _, rest = text.partition(start)
        after = rest.partition(end)[2]
        text = f"{before}{start}{table}\n{end}{after}"
    return text


def main(arguments: list[str] | None = None) -> int:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--into", type=Path, nargs="*", default=[], help="pages with the marks")
    chosen = options.parse_args(arguments)
    found = tables(read_kept())
    for page in chosen.into:
        write_text(page, put(page.read_text(encoding="utf-8"), found))
    if not chosen.into:
        print("\n\n".join(found.values()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
