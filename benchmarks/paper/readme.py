"""The tables of README.md, from kept results; a test compares them.

    python -m benchmarks.paper.readme [RESULTS] [--into README.md]

Without `--into` they are printed. Each stands between `<!-- NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from cmpe.formats.text import write_text
from cmpe.reporting.names import label_of
from cmpe.reporting.paper_tables import MAIN_Q
from cmpe.reporting.results import read_results
from cmpe.reporting.study import Key, Study
from cmpe.reporting.tables import seconds_text

KEPT = Path(__file__).parent / "results" / "brief"
OTHERS = ("milp:highs", "milp:scip", "toulbar2")
REPAIRED = ("tuned+repair", "tuned+moves")
WIDE = ("network+moves", "network+search", "icm+search", "constant+search", "search", "exact")
FAMILIES = ("Grids_17_10_q30_gibbs", "Grids_17_10_q80_gibbs", "Ising_50", "Grids_17_0", "Ising_100")
NONE = "–"
TINY = 1e-6  # nats, the tolerance of a proof


def tables(results: Path) -> dict[str, str]:
    """Markdown by name."""
    study = Study(read_results(results))
    return {"headline": _headline(study), "wide": _wide(study)}


def _headline(study: Study) -> str:
    head = ["q = 80", "violations", "regret", "of the paper's", "certified gap", "time"]
    head += ["moves only", "no network", "`exact`", *(label_of(m) for m in OTHERS)]
    rows = []
    for dataset in study.datasets("uai", "tractable"):
        repair, moves = ((dataset, MAIN_Q, m) for m in REPAIRED)
        keys = [(dataset, MAIN_Q, m) for m in ("lagrangian", "exact", *OTHERS)]
        line = [dataset, _violations(study, repair), _number(study, repair, "regret")]
        line += [_share(study, repair), _number(study, repair, "certified_gap")]
        line += [_time(study, repair), f"{_share(study, moves)}, {_time(study, moves)}"]
        rows.append([*line, *(_reached(study, key) for key in keys)])
    return _markdown(head, rows)


def _share(study: Study, key: Key) -> str:
    found = study.extra(key, "implied_regret_ratio")
    if found is None:
        return NONE
    mean, spread = (f"{100 * value:.2f}" for value in (found.mean, found.seeds_std or 0.0))
    return f"{mean} %" if float(spread) == 0.0 else f"{mean} ± {spread} %"


def _violations(study: Study, key: Key) -> str:
    found = study.figure(key, "violation")
    return NONE if found is None else f"{found.mean:.3f}"


def _reached(study: Study, key: Key) -> str:
    return f"{_number(study, key, 'regret')}, {_time(study, key)}"


def _number(study: Study, key: Key, name: str) -> str:
    found = study.figure(key, name)
    if found is None:
        return NONE
    if abs(found.mean) < TINY:
        return "0"
    return f"{found.mean:.2g}" if found.mean < 1 else f"{float(f'{found.mean:.3g}'):,g}"


def _time(study: Study, key: Key) -> str:
    found = study.figure(key, "seconds")
    return NONE if found is None else seconds_text(float(f"{found.mean:.2g}"))


def _wide(study: Study) -> str:
    head = ["problem", *(label_of(m) for m in (*WIDE, *OTHERS))]
    places = {d: q for d, q, _ in study.places() if d in FAMILIES}
    rows = []
    for dataset in (d for d in FAMILIES if d in places):
        keys = [(dataset, places[dataset], m) for m in (*WIDE, *OTHERS)]
        rows.append([dataset, *(_reached(study, k) if study.cells(k) else NONE for k in keys)])
    return _markdown(head, rows)


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def put(text: str, found: dict[str, str]) -> str:
    """A page with its tables renewed."""
    for name, table in found.items():
        start, end = f"<!-- {name} -->\n", "<!-- end -->"
        before, _, rest = text.partition(start)
        after = rest.partition(end)[2]
        text = f"{before}{start}{table}\n{end}{after}"
    return text


def main(arguments: list[str] | None = None) -> int:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("results", type=Path, nargs="?", default=KEPT)
    options.add_argument("--into", type=Path, help="a page that has the marks")
    chosen = options.parse_args(arguments)
    found = tables(chosen.results)
    if chosen.into is None:
        print("\n\n".join(found.values()))
    else:
        write_text(chosen.into, put(chosen.into.read_text(encoding="utf-8"), found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
