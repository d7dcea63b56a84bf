"""The tables of the fair study in docs/paper.md, from the kept figures.

python -m study.fair.page [DIR]   writes the tables between the marks of the page; with the
                                  folder of a study, its figures and times are kept first
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cmpe.formats.text import write_text
from study.fair.cells import ALLOWED, CELLS, LONG_CELLS

ROOT = Path(__file__).resolve().parents[2]
KEPT = Path(__file__).with_name("results.json")
PAGE = ROOT / "docs" / "paper.md"
SHARES = (0.0, 0.01, 0.05, 0.2, 0.5)  # of training rows that a shown constant may violate
PRINTED, CONTRAST = "ss_cmpe, refined alpha", "ss_cmpe, contrast 3"
LEARNED = (
    ("as printed", PRINTED, 0.0),
    ("contrast 3, T 2", CONTRAST, 2.0),
    ("ssl_pen, T 2", "ssl_pen", 2.0),
    ("pdl, T 2", "pdl", 2.0),
)
SELF_SUPERVISED = (
    ("refined", PRINTED),
    ("precomputed", "ss_cmpe, precomputed alpha"),
    ("contrast 3", CONTRAST),
    ("ssl_pen", "ssl_pen"),
    ("pdl", "pdl"),
)
TEMPERATURES = (0.0, 2.0)
TIMED = (
    "constant, repaired", "network", "network, repaired", "local", "lagrangian", "exact",
)  # fmt: skip
SEARCHED = ("constant, repaired", "network, repaired", "search, 0.3 ms", "search, 1 ms")

Record = dict[str, Any]


def gathered(folder: Path) -> list[Record]:
    """The figures of a study's folder as they are kept: without seeds, with four digits."""
    records = []
    for path in sorted(folder.glob("*/figures.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        for run in record["arms"]:
            for name in ("seeds", "regret", "violation"):
                del run[name]
        times = path.with_name("times.json")
        if times.exists():
            record["times"] = json.loads(times.read_text(encoding="utf-8"))
        records.append(_rounded(record))
    return records


def write_tables(folder: Path) -> Path:
    """The tables of a study's folder, in its file tables.md."""
    path = folder / "tables.md"
    found = tables(_ordered(gathered(folder)))
    write_text(path, "\n\n".join(f"**{name}**\n\n{text}" for name, text in found.items()) + "\n")
    return path


def _ordered(records: Sequence[Record]) -> list[Record]:
    """Cells in the order of the study; of two with one name the later one."""
    known = {record["cell"]: record for record in records}
    names = [cell.name for cell in (*CELLS, *LONG_CELLS)]
    return [known[name] for name in names if name in known]


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list) else value


def keep(records: Sequence[Record]) -> None:
    """Write the kept cells, one a line; those that are not among the records stay."""
    before = kept() if KEPT.exists() else []
    lines = ",\n".join(json.dumps(record) for record in _ordered([*before, *records]))
    write_text(KEPT, f"[\n{lines}\n]\n")


def kept() -> list[Record]:
    """The kept cells; those at the paper's length end with -long."""
    records: list[Record] = json.loads(KEPT.read_text(encoding="utf-8"))
    return records


def run_of(record: Record, arm: str, temperature: float) -> Record | None:
    """The figures of one arm of a cell."""
    found = [a for a in record["arms"] if a["arm"] == arm and a["temperature"] == temperature]
    return found[0] if found else None


def constant_of(record: Record, allowed: float = ALLOWED) -> Record:
    """The constant chosen on training rows among those that violate at most `allowed` of them.

    Where all of them violate more, it is the one that violates least.
    """
    found: list[Record] = record["constants"]
    least = max(allowed, found[0]["trained"])
    return [c for c in found if c["trained"] <= least][-1]


def rival_of(record: Record, violated: float) -> float | None:
    """The least regret of a constant that violates at most as many test rows, or 1 % of them."""
    allowed = max(violated, ALLOWED)
    regrets = [
        c["regret"]
        for c in record["constants"]
        if c["violated"] <= allowed and c["regret"] is not None
    ]
    return min(regrets, default=None)


def equal_of(record: Record, run: Record) -> float | None:
    """The least regret of an arm at a margin where it violates at most 1 % of the test rows."""
    points = [p for p in run["curve"] if p["violated"] <= ALLOWED and p["regret"] is not None]
    return min((p["regret"] for p in points), default=None)


def nats(regret: float | None, digits: int = 1) -> str:
    """A regret; a dash where there is none."""
    return "-" if regret is None else f"{regret:.{digits}f}"


def shown(measured: Record) -> str:
    """Regret in nats, and the share of violated rows."""
    return f"{nats(measured['regret'])} / {100 * measured['violated']:.1f} %"


def beside(record: Record, run: Record | None) -> str:
    """An arm's figures, and in brackets the regret of its rival among constants."""
    if run is None:
        return ""
    return f"{shown(run['mean'])} [{nats(rival_of(record, run['mean']['violated']))}]"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def tables(records: Sequence[Record]) -> dict[str, str]:
    """Every table by the name of its mark; those of times are absent where nothing was timed."""
    short = [r for r in records if not r["cell"].endswith("-long")]
    long = [r for r in records if r["cell"].endswith("-long")]
    names = [name for name, _, _ in LEARNED]
    arms = [name for name, _ in SELF_SUPERVISED]
    found = {
        "fair": table(
            ["cell", "binds", "constant", *names],
            [
                [r["cell"], _percent(r["facts"]["binds"]), shown(constant_of(r)),
                 *(beside(r, run_of(r, arm, t)) for _, arm, t in LEARNED)]
                for r in short
            ],
        ),
        "fair-distinct": table(
            ["cell", "optima", *names],
            [
                [r["cell"], str(r["facts"]["distinct_optima"]),
                 *(_distinct(run_of(r, arm, t)) for _, arm, t in LEARNED)]
                for r in short
            ],
        ),
        "fair-constants": table(
            ["cell", *(f"{100 * share:g} %" for share in SHARES)],
            [[r["cell"], *(shown(constant_of(r, share)) for share in SHARES)] for r in records],
        ),
        "fair-labels": table(
            ["cell", "mse_pen", "its answers", "mae_pen", "its answers"],
            [
                [r["cell"], *(
                    text
                    for run in (run_of(r, "mse_pen", 0.0), run_of(r, "mae_pen", 0.0))
                    for text in (beside(r, run), _distinct(run))
                )]
                for r in short
            ],
        ),
        "fair-temperature": table(["cell", *arms], list(_by_temperature(short, beside))),
        "fair-long": table(["cell", *arms], list(_by_temperature(long, beside))),
        "fair-equal": table(
            ["cell", "constant", *arms],
            [
                [line[0], nats(rival_of(r, 0.0)), *line[1:]]
                for r in short
                for line in _by_temperature([r], _equal)
            ],
        ),
        "fair-common": table(
            ["cell, its rows", "constant", *arms],
            [_common(r, t) for r in short for t in TEMPERATURES],
        ),
        "fair-facts": table(
            ["cell", "lagrangian", "local", "constant, repaired", "networks, repaired"],
            [
                [
                    r["cell"],
                    *(nats(r["solvers"][m]["regret"], 3) for m in ("lagrangian", "local")),
                    nats(r["constant_repaired"]["regret"], 3),
                    f"{min(a['repaired']['regret'] for a in r['arms']):.3f} to "
                    f"{max(a['repaired']['regret'] for a in r['arms']):.3f}",
                ]
                for r in short
            ],
        ),
    }  # fmt: skip
    timed = [r for r in short if "times" in r]
    for name, columns in {"fair-time": TIMED, "fair-search": SEARCHED}.items() if timed else ():
        points = [(r["cell"], r["times"]["points"]) for r in timed]
        lines = [[cell, *(_timed(at.get(n)) for n in columns)] for cell, at in points]
        found[name] = table(["cell", *columns], lines)
    return found


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _distinct(run: Record | None) -> str:
    return "" if run is None else f"{run['mean']['distinct']:.0f}"


def _equal(record: Record, run: Record | None) -> str:
    return "" if run is None else nats(equal_of(record, run))


def _by_temperature(records: Sequence[Record], cell: Any) -> Iterator[list[str]]:
    """A line for each cell and temperature."""
    for record in records:
        for t in TEMPERATURES:
            runs = [run_of(record, arm, t) for _, arm in SELF_SUPERVISED]
            yield [f"{record['cell']}, T {t:g}", *(cell(record, run) for run in runs)]


def _common(record: Record, temperature: float) -> list[str]:
    """One line of the paper's protocol."""
    regret = record["common"]["regret"]
    arms = [f"{arm}, T {temperature:g}" for _, arm in SELF_SUPERVISED]
    return [
        f"{record['cell']}, T {temperature:g}, {record['common']['rows']}",
        *(nats(regret.get(name)) for name in ("constant", *arms)),
    ]


def _timed(point: Record | None) -> str:
    """Microseconds a row, then regret and, where there are any, violations."""
    if point is None:
        return ""
    us, violated = point["us"], point["violated"]
    after = f" / {100 * violated:.1f} %" if violated else ""
    return f"{float(f'{us:.2g}'):,g} µs, {nats(point['regret'], 2)}{after}"


def filled(page: str, records: Sequence[Record]) -> str:
    """The page with those of its tables made anew that there are."""
    for name, text in tables(records).items():
        before, mark, rest = page.partition(f"<!-- {name} -->\n")
        if mark:
            _, end, after = rest.partition("<!-- end -->")
            page = before + mark + text + "\n" + end + after
    return page


def main(arguments: Sequence[str]) -> None:
    """Keep what a folder holds, if one is named, and write the page."""
    for folder in arguments:
        keep(gathered(Path(folder)))
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), kept()), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
