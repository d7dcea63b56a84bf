"""Tables of README.md, docs/headline.md and docs/paper.md, from kept results; a test compares them.

    python -m study.paper.readme [--results DIR] [--into README.md docs/headline.md ...]

Without `--into` they are printed. Each stands between `<!-- NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from cmpe.formats.text import write_text
from study.reporting.names import label_of
from study.reporting.paper_tables import MAIN_Q
from study.reporting.results import read_results
from study.reporting.study import Key, Study
from study.reporting.tables import seconds_text

KEPT = Path(__file__).parent / "results" / "full"
OTHERS = ("milp:highs", "milp:scip", "toulbar2")
FAMILIES = ("Grids_17_10_q30_gibbs", "Grids_17_10_q80_gibbs", "Ising_50", "Grids_17_0", "Ising_100")
NONE = "–"
TINY = 1e-6  # nats, the tolerance of a proof


# README's table: (data set, q, what it is); q None: the problem's own.
LANDING = (
    ("Segmentation_14", MAIN_Q, "image labels, 60 % seen"),
    ("bbc", MAIN_Q, "document words, 60 % seen"),
    ("Ising_50", None, "50 x 50 Ising, 20 % seen"),
    ("Grids_17_0", None, "20 x 20 grid, none seen"),
)


def tables(results: Path) -> dict[str, str]:
    """Markdown by name."""
    study = Study(read_results(results))
    return {
        "landing": _landing(study),
        "others": _others(study),
        "binding": _bindings(study),
        "wide others": _wide(study, ("search", "exact", *OTHERS)),
    }


def _landing(study: Study) -> str:
    """`exact` beside the fastest other solver, or the nearest where none reaches the optimum."""
    rows = []
    for dataset, q, task in LANDING:
        place = q if q is not None else next(p for d, p, _ in study.places() if d == dataset)
        ours = (dataset, place, "exact")
        others = [(dataset, place, method) for method in OTHERS]
        best = min(others, key=lambda key: (round(_mean(study, key, "regret"), 3),
                                            _mean(study, key, "seconds")))  # fmt: skip
        times = _mean(study, best, "seconds") / _mean(study, ours, "seconds")
        off = _mean(study, best, "regret")
        instead = f"{label_of(best[2])}, {_time(study, best)}"
        proved = study.figure(ours, "optimal") or study.figure(ours, "proved")
        rows.append([
            task,
            _time(study, ours),
            instead if off < 1e-3 else f"{instead}, {_number(study, best, 'regret')} nats off",
            f"{float(f'{times:.2g}'):,g}",
            NONE if proved is None else "every row" if proved.mean == 1 else f"{proved.mean:.0%}",
        ])  # fmt: skip
    head = ["task", "cmpe", "fastest alternative", "times faster", "proved"]
    return _markdown(head, rows)


def _mean(study: Study, key: Key, name: str) -> float:
    found = study.figure(key, name)
    return math.inf if found is None else found.mean


def _others(study: Study) -> str:
    head = ["q = 80", "binds", "no network", "`exact`", *(label_of(m) for m in OTHERS)]
    rows = []
    for dataset in study.datasets("uai", "tractable"):
        keys = [(dataset, MAIN_Q, m) for m in ("lagrangian", "exact", *OTHERS)]
        reached = [_reached(study, key) for key in keys]
        rows.append([dataset, _binding(study, dataset, MAIN_Q), *reached])
    return _markdown(head, rows)


def _bindings(study: Study) -> str:
    """The share of binding rows of every data set and percentile."""
    datasets = study.datasets("uai", "tractable")
    qs = study.qs(*datasets)
    rows = [[d, *(_binding(study, d, q) for q in qs)] for d in datasets]
    return _markdown(["data set", *(f"q = {q:g}" for q in qs)], rows)


def _binding(study: Study, dataset: str, q: float | None) -> str:
    found = study.binding(dataset, q)
    return NONE if found is None else f"{100 * found.mean:.0f} %"


def _reached(study: Study, key: Key) -> str:
    return f"{_number(study, key, 'regret')}, {_time(study, key)}"


def _number(study: Study, key: Key, name: str) -> str:
    found = study.figure(key, name)
    if found is None:
        return NONE
    if abs(found.mean) < TINY:
        return "0"
    return f"{found.mean:.2g}" if abs(found.mean) < 1 else f"{float(f'{found.mean:.3g}'):,g}"


def _time(study: Study, key: Key) -> str:
    found = study.figure(key, "seconds")
    return NONE if found is None else seconds_text(float(f"{found.mean:.2g}"))


def _wide(study: Study, methods: Sequence[str]) -> str:
    head = ["problem", *(label_of(m) for m in methods)]
    places = {d: q for d, q, _ in study.places() if d in FAMILIES}
    rows = []
    for dataset in (d for d in FAMILIES if d in places):
        keys = [(dataset, places[dataset], m) for m in methods]
        rows.append([dataset, *(_reached(study, k) if study.cells(k) else NONE for k in keys)])
    return _markdown(head, rows)


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
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
    options.add_argument("--results", type=Path, default=KEPT)
    options.add_argument("--into", type=Path, nargs="*", default=[], help="pages with the marks")
    chosen = options.parse_args(arguments)
    found = tables(chosen.results)
    for page in chosen.into:
        write_text(page, put(page.read_text(encoding="utf-8"), found))
    if not chosen.into:
        print("\n\n".join(found.values()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
