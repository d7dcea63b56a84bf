"""The tables of the fair study in docs/paper.md, from the kept figures.

python -m study.fair.page            writes the tables between the marks of the page
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
KEPT = Path(__file__).with_name("results.json")
PAGE = ROOT / "docs" / "paper.md"
PRINTED, CONTRAST = "ss_cmpe, refined alpha", "ss_cmpe, contrast 3"
LEARNED = (
    ("as printed", PRINTED, 0.0),
    ("contrast 3, T 2", CONTRAST, 2.0),
    ("ssl_pen, T 2", "ssl_pen", 2.0),
    ("pdl, T 2", "pdl", 2.0),
    ("mse_pen", "mse_pen", 0.0),
)
ALL = (
    ("refined", PRINTED),
    ("precomputed", "ss_cmpe, precomputed alpha"),
    ("contrast 3", CONTRAST),
    ("ssl_pen", "ssl_pen"),
    ("pdl", "pdl"),
)

Record = dict[str, Any]


def compact(figures: Sequence[Record]) -> list[Record]:
    """What is kept of the figures: facts, constants, solvers, and each arm's means over seeds."""
    dropped = ("seeds", "regret", "violation")
    return [
        {**f, "arms": [{k: v for k, v in a.items() if k not in dropped} for a in f["arms"]]}
        for f in figures
    ]


def kept() -> list[Record]:
    """The kept cells; those at the paper's length end with -long."""
    records: list[Record] = json.loads(KEPT.read_text(encoding="utf-8"))
    return records


def arm_of(record: Record, arm: str, temperature: float) -> Record | None:
    """The figures of one arm of a cell."""
    found = [a for a in record["arms"] if a["arm"] == arm and a["temperature"] == temperature]
    return found[0] if found else None


def constant_of(record: Record) -> Record:
    """The constant that may violate at most 1 % of the training rows, else at most 5 %."""
    constant: Record = next(c for c in record["constants"] if c["allowed"] >= 0.01)
    return constant


def shown(measured: Record | None) -> str:
    """Regret in nats, and the share of violated rows."""
    if measured is None:
        return ""
    regret = measured["regret"]
    return f"{'-' if regret is None else f'{regret:.1f}'} / {100 * measured['violated']:.1f} %"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def tables(records: Sequence[Record]) -> dict[str, str]:
    """Every table by the name of its mark."""
    short = [r for r in records if not r["cell"].endswith("-long")]
    long = [r for r in records if r["cell"].endswith("-long")]
    compared = table(
        ["cell", "constant", *(name for name, _, _ in LEARNED)],
        [
            [r["cell"], shown(constant_of(r)), *(
                shown((arm_of(r, arm, t) or {}).get("mean")) for _, arm, t in LEARNED
            )]
            for r in short
        ],
    )  # fmt: skip
    facts = table(
        ["cell", "binds", "distinct optima", "lagrangian", "local", "after repair", "exact"],
        [
            [
                r["cell"], f"{100 * r['facts']['binds']:.0f} %", str(r["facts"]["distinct_optima"]),
                *(f"{r['solvers'][m]['regret']:.3f}" for m in ("lagrangian", "local")),
                f"{min(a['repaired']['regret'] for a in r['arms']):.3f} to "
                f"{max(a['repaired']['regret'] for a in r['arms']):.3f}",
                f"{r['solvers']['exact']['us']:.0f} µs",
            ]
            for r in short
        ],
    )  # fmt: skip
    temperatures = table(
        ["cell", *(name for name, _ in ALL)],
        [
            [f"{r['cell']}, T {t:g}", *(
                shown((arm_of(r, arm, t) or {}).get("mean")) for _, arm in ALL
            )]
            for r in short
            for t in (0.0, 2.0)
        ],
    )  # fmt: skip
    lengthened = table(
        ["cell", *(name for name, _ in ALL)],
        [
            [f"{r['cell']}, T {t:g}", *(
                shown((arm_of(r, arm, t) or {}).get("mean")) for _, arm in ALL
            )]
            for r in long
            for t in (0.0, 2.0)
        ],
    )  # fmt: skip
    return {
        "fair": compared, "fair-facts": facts, "fair-temperature": temperatures,
        "fair-long": lengthened,
    }  # fmt: skip


def filled(page: str, records: Sequence[Record]) -> str:
    """The page with its tables made anew."""
    for name, text in tables(records).items():
        before, mark, rest = page.partition(f"<!-- {name} -->\n")
        _, end, after = rest.partition("<!-- end -->")
        page = before + mark + text + "\n" + end + after
    return page


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), kept()), encoding="utf-8")
