"""Tables of README.md, docs/headline.md and docs/paper.md, from kept results; a test compares them.

    python -m benchmarks.paper.readme [--results DIR] [--into README.md docs/headline.md ...]

Without `--into` they are printed. Each stands between `<!-- NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from cmpe.formats.text import write_text
from cmpe.reporting.names import label_of
from cmpe.reporting.paper_tables import MAIN_Q
from cmpe.reporting.results import read_results
from cmpe.reporting.study import Key, Study
from cmpe.reporting.tables import seconds_text

KEPT = Path(__file__).parent / "results" / "full"
OTHERS = ("milp:highs", "milp:scip", "toulbar2")
REPAIRED = ("tuned+repair", "tuned+moves")
LOSSES = ("mse", "mae", "mse_pen", "mae_pen", "ssl_pen", "pdl")  # beside the two of the paper
# Tables have at most seven columns.
WIDE = ("network+moves", "network+search", "icm+search", "constant+search", "search", "exact")
FAMILIES = ("Grids_17_10_q30_gibbs", "Grids_17_10_q80_gibbs", "Ising_50", "Grids_17_0", "Ising_100")
NONE = "–"
TINY = 1e-6  # nats, the tolerance of a proof


# README's table: (data set, q, what it is); q None: the problem's own.
LANDING = (
    ("Segmentation_14", MAIN_Q, "image labels, 60 % seen"),
    ("bbc", MAIN_Q, "document words, 60 % seen"),
    ("Grids_17", MAIN_Q, "20 x 20 grid, 60 % seen"),
    ("Ising_50", None, "50 x 50 Ising, 20 % seen"),
    ("Grids_17_0", None, "20 x 20 grid, none seen"),
)


def tables(results: Path) -> dict[str, str]:
    """Markdown by name."""
    study = Study(read_results(results))
    return {
        "landing": _landing(study),
        "headline": _headline(study),
        "others": _others(study),
        "losses": _losses(study),
        "wide": _wide(study, WIDE),
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


def _headline(study: Study) -> str:
    head = ["q = 80", "violations", "regret", "of the paper's", "certified gap", "time"]
    rows = []
    for dataset in study.datasets("uai", "tractable"):
        repair, moves = ((dataset, MAIN_Q, m) for m in REPAIRED)
        line = [dataset, _violations(study, repair), _number(study, repair, "regret")]
        line += [_share(study, repair), _number(study, repair, "certified_gap")]
        rows.append([*line, _time(study, repair), f"{_share(study, moves)}, {_time(study, moves)}"])
    return _markdown([*head, "moves only"], rows)


def _others(study: Study) -> str:
    head = ["q = 80", "no network", "`exact`", *(label_of(m) for m in OTHERS)]
    rows = []
    for dataset in study.datasets("uai", "tractable"):
        keys = [(dataset, MAIN_Q, m) for m in ("lagrangian", "exact", *OTHERS)]
        rows.append([dataset, *(_reached(study, key) for key in keys)])
    return _markdown(head, rows)


def _losses(study: Study) -> str:
    """Regret in nats and share of violated answers."""
    rows = []
    for dataset in study.datasets("uai", "tractable"):
        keys = [(dataset, MAIN_Q, method) for method in LOSSES]
        rows.append([dataset, *(_answered(study, key) for key in keys)])
    return _markdown(["q = 80", *(f"`{method}`" for method in LOSSES)], rows)


def _answered(study: Study, key: Key) -> str:
    found = study.figure(key, "violation")
    if found is None:
        return NONE
    return f"{_number(study, key, 'regret')}, {100 * found.mean:.2f} %"


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
