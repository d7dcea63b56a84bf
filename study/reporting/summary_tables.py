"""What the paper sums up, and how much of it is covered here."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence

from study.reporting.names import (
    OURS_IN_PAPER,
    SELF_SUPERVISED,
    SUPERVISED,
    label_of,
    q_text,
)
from study.reporting.paper_tables import DIFFERENT, SECTION, maybe
from study.reporting.results import PaperFigure
from study.reporting.study import MODEL, NO_FIGURE, NOT_RUN, Measured, Study
from study.reporting.tables import Column, Entry, Row, Table, count, mark_smallest, plain, words

METRICS = ("gap", "violations")
SIDES = ("SS-CMPE, ours", "others, ours", "SS-CMPE, paper", "others, paper")
OUR_NAMES = {"violations": "violation", "inference_seconds": "seconds"}  # of the paper's metrics


def summary_tables(study: Study) -> list[Table]:
    """Best SS-CMPE against the best supervised, self-supervised and all others."""
    found = [
        _summary(study, "supervised", SUPERVISED),
        _summary(study, "self-supervised", SELF_SUPERVISED),
        _summary(study, "all others", SUPERVISED + SELF_SUPERVISED),
    ]
    return [table for table in found if any(e.value is not None for e in _entries(table))]


def _entries(table: Table) -> list[Entry]:
    return [entry for row in table.rows for entry in row.entries]


def _summary(study: Study, name: str, others: Sequence[str]) -> Table:
    """Each metric by itself, as the paper does."""
    datasets = study.datasets("uai", "tractable")
    qs = study.qs(*datasets)
    columns = [Column("data set", words=True), Column("metric", words=True)]
    columns += [Column(t, over=f"q = {q_text(q)}", q=q_text(q)) for q in qs for t in SIDES]
    lines = {
        (d, m): [e for q in qs for e in _four(study, (d, q), m, others)]
        for d in datasets
        for m in METRICS
    }
    rows = [
        Row((words(d), words(m), *line), dataset=d, block=METRICS.index(m))
        for (d, m), line in lines.items()
    ]
    for block, metric in enumerate(METRICS if datasets else ()):
        mean = _averages([line for (_, m), line in lines.items() if m == metric])
        rows.append(Row((words("average"), words(metric), *mean), block=block))
    caption = (
        "Smallest gap and fewest violations, each by itself, of SS-CMPE (with and without penalty) "
        f"and of {', '.join(label_of(m) for m in others)}. Bold: the smaller one. The paper's side "
        "is computed from its tables by q; averages are over data sets that both sides have. "
        f"{DIFFERENT}"
    )
    title = f"Summary: best SS-CMPE against the best of {name}"
    file = f"summary-{name.replace(' ', '-')}"
    return Table(file, title, caption, tuple(columns), tuple(rows), SECTION)


def _four(
    study: Study, place: tuple[str, float | None], metric: str, others: Sequence[str]
) -> list[Entry]:
    """Ours and the paper's best: SS-CMPE and others."""
    ours, printed = [], []
    for methods in (OURS_IN_PAPER, others):
        keys = [(*place, m) for m in methods]
        found = (study.figure(key, OUR_NAMES.get(metric, metric)) for key in keys)
        ours.append(plain(_least(found), note=study.reason(keys[0])))
        printed.append(plain(_least(study.paper(*key, metric) for key in keys)))
    return [*mark_smallest(ours), *mark_smallest(printed)]


def _least(found: Iterable[Measured | None]) -> Measured | None:
    return min((f for f in found if f is not None), key=lambda f: f.mean, default=None)


def _averages(lines: Sequence[Sequence[Entry]]) -> list[Entry]:
    """Column means, in pairs: only over lines in which both sides have a figure."""
    found: list[Entry] = []
    for left in range(0, len(lines[0]), 2):
        pairs = [(line[left].value, line[left + 1].value) for line in lines]
        known = [(a, b) for a, b in pairs if a is not None and b is not None]
        sides = zip(*known, strict=True) if known else ()
        means = [maybe(statistics.fmean(side)) for side in sides] or [None, None]
        found += mark_smallest([plain(mean) for mean in means])
    return found


def coverage_table(study: Study) -> Table:
    """Of every table of the paper: how many of its figures have our counterpart, and why not."""
    counts: Counter[str] = Counter()
    missing: dict[str, Counter[str]] = {}
    for figure in study.results.paper:
        counts[figure.table] += 1
        reason = _missing(study, figure)
        if reason is not None:
            missing.setdefault(figure.table, Counter())[reason] += 1
    titles = ("printed figures", "with our counterpart", "without")
    columns = [Column("table of the paper", words=True), *map(Column, titles)]
    columns.append(Column("why", words=True))
    rows = []
    for table, total in counts.items():
        why = missing.get(table, Counter())
        text = "; ".join(f"{n} × {reason}" for reason, n in why.most_common())
        lost = why.total()
        entries = (words(table), count(total), count(total - lost), count(lost), words(text))
        rows.append(Row(entries))
    caption = "Every figure that the paper prints is either measured here or has a reason."
    title = "What is covered"
    return Table("coverage", title, caption, tuple(columns), tuple(rows), SECTION)


def _missing(study: Study, figure: PaperFigure) -> str | None:
    """Why a printed figure has no counterpart; None where it has one."""
    ours = OUR_NAMES.get(figure.metric, figure.metric)
    if figure.dataset == "mnist":
        attacks = [a for a in study.results.attacks if a.method == figure.method]
        if any(a.values.get(ours) is not None for a in attacks):
            return None
        return NO_FIGURE if attacks else NOT_RUN
    key = (figure.dataset, figure.q, figure.method)
    if figure.method == "ilp" and figure.metric == "objective":
        found = study.optimum(figure.dataset, figure.q)
        key = (figure.dataset, figure.q, "exact")
    elif figure.metric == "train_seconds":
        found = study.extra(key, ours)
    elif figure.method == MODEL:
        return None
    else:
        found = study.figure(key, ours)
    return None if found is not None else study.reason(key)
