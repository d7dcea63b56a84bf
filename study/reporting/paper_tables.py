"""The paper's Tables 1 to 3, its tables by q and its data sets, our figures beside the printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from study.reporting.names import (
    MAIN_METHODS,
    PAPER_METHODS,
    label_of,
    q_text,
    slug_of,
)
from study.reporting.results import AttackFigures
from study.reporting.study import MODEL, NO_FIGURE, NOT_RUN, Measured, Study
from study.reporting.tables import (
    NOTHING,
    Column,
    Entry,
    Row,
    Table,
    count,
    mark_best,
    number,
    plain,
    words,
)

SECTION = "The paper's tables"
MAIN_Q = 80.0
RULE = (
    "Bold: the best by the paper's rule, among the methods of the paper; underlined: violations "
    "above 0.15, which disqualify. "
    "ILP obj. is our mean optimum h*; the paper's carries a shift that it does not state. "
)
DIFFERENT = (
    "Our instances are not the paper's, so ours and the printed figures are not comparable. "
    "SS-CMPE as trained here may have a contrast and an entropy bonus (temperature), which the "
    "paper does not mention."
)
SHOWN_BEYOND = ("constant", "tuned", "tuned+moves", "tuned+repair", "lagrangian", "exact")
Pair = tuple[Entry, Entry]


@dataclass(frozen=True)
class Place:
    """A data set at q: two columns, ours and the paper's."""

    heading: str
    dataset: str
    q: float | None


def paper_tables(study: Study) -> list[Table]:
    """Tables 1 to 3 and the data sets."""
    found = [
        _main(study, "table-1", "Table 1: UAI models", "uai"),
        _main(study, "table-2", "Table 2: tractable models", "tractable"),
        _attacks(study),
        _facts(study),
    ]
    return [table for table in found if table.rows]


def q_tables(study: Study) -> list[Table]:
    """One table per data set, all q side by side."""
    return [_by_q(study, d) for d in study.datasets("uai", "tractable")]


def alone(table: Table) -> Table:
    """A table without the paper's columns, for results that have no printed figures."""
    kept = [i for i, c in enumerate(table.columns) if c.title.rpartition(", ")[2] != "paper"]
    columns = tuple(table.columns[i] for i in kept)
    rows = (replace(row, entries=tuple(row.entries[i] for i in kept)) for row in table.rows)
    return replace(table, columns=columns, rows=tuple(rows))


def _main(study: Study, name: str, title: str, group: str) -> Table:
    places = [Place(d, d, MAIN_Q) for d in study.datasets(group) if MAIN_Q in study.qs(d)]
    table = _grid(study, places, MAIN_METHODS)
    return replace(table, name=name, title=f"{title}, q = {MAIN_Q:g}")


def _by_q(study: Study, dataset: str) -> Table:
    places = [Place(f"q = {q_text(q)}", dataset, q) for q in study.qs(dataset)]
    table = _grid(study, places, PAPER_METHODS)
    title = f"{dataset} for every q"
    return replace(table, name=f"q-{slug_of(dataset)}", title=title, dataset=dataset)


def _grid(study: Study, places: Sequence[Place], competing: Sequence[str]) -> Table:
    """Methods down, places across; two lines a method."""
    beyond = [m for m in SHOWN_BEYOND if any(study.cells((p.dataset, p.q, m)) for p in places)]
    columns = [Column("method", words=True), Column("metric", words=True)]
    for place in places:
        ours = Column("ours", over=place.heading, dataset=place.dataset, q=q_text(place.q))
        columns += [ours, replace(ours, title="paper")]
    pairs = {p: _pairs(study, p, competing, beyond) for p in places}
    rows = [_objectives(study, places)] if places else []
    for i, method in enumerate([*competing, *beyond] if places else []):
        for line, metric in enumerate(("gap", "violations")):
            entries = [e for p in places for e in (pairs[p][0][i][line], pairs[p][1][i][line])]
            head = (words(label_of(method)), words(metric))
            rows.append(Row((*head, *entries), method=method, block=1 + line))
    caption = f"{study.spread} {RULE}{DIFFERENT}"
    return Table("", "", caption, tuple(columns), tuple(rows), SECTION)


def _objectives(study: Study, places: Sequence[Place]) -> Row:
    entries = [words("ILP obj."), words("objective")]
    for p in places:
        note = study.reason((p.dataset, p.q, "exact"))
        entries.append(plain(study.optimum(p.dataset, p.q), "objective", note=note))
        entries.append(plain(study.paper(p.dataset, p.q, "ilp", "objective"), "objective"))
    return Row(tuple(entries), method="ilp")


def _pairs(
    study: Study, place: Place, competing: Sequence[str], beyond: Sequence[str]
) -> tuple[list[Pair], list[Pair]]:
    """(gap, violations) of every method: ours and the paper's, marked among those that compete."""
    ours = [_ours(study, place, m) for m in (*competing, *beyond)]
    printed = [_printed(study, place, m) for m in (*competing, *beyond)]
    n = len(competing)
    marked = [
        mark_best([gap for gap, _ in pairs[:n]], [v for _, v in pairs[:n]]) + pairs[n:]
        for pairs in (ours, printed)
    ]
    return marked[0], marked[1]


def _ours(study: Study, place: Place, method: str) -> Pair:
    key = (place.dataset, place.q, method)
    note = study.reason(key)
    gap, violation = study.figure(key, "gap"), study.figure(key, "violation")
    return number(gap, note=note), number(violation, note=note)


def _printed(study: Study, place: Place, method: str) -> Pair:
    gap, violation = (
        number(study.paper(place.dataset, place.q, method, m)) for m in ("gap", "violations")
    )
    return gap, violation


ATTACK_METRICS = (  # heading, our name, the paper's, format
    ("objective (L1)", "objective", "objective", "nats"),
    ("gap", "gap", "gap", "ratio"),
    ("violations", "violation", "violations", "ratio"),
    ("training", "train_seconds", "train_seconds", "seconds"),
    ("per image", "seconds", "inference_seconds", "seconds"),
)

ATTACK_EXTRAS = (  # heading, heading over it, name, format
    ("ratio", "to the proved optimum", "ratio_proved", "ratio"),
    ("rows", "to the proved optimum", "proved_rows", "whole"),
    ("L1 of the changed", "", "objective_flipped", "nats"),
    ("violated as 8 bits", "", "violation_8bit", "ratio"),
)


def _attacks(study: Study) -> Table:
    """Table 3: mean L1 distance of adversarial digits."""
    columns = [Column("method", words=True), Column("rows")]
    columns += [Column(title, over=over) for title, over, *_ in ATTACK_EXTRAS]
    for heading, *_ in ATTACK_METRICS:
        columns += [Column("ours", over=heading), Column("paper", over=heading)]
    columns += [Column(title, words=True) for title in ("device", "classifier", "note")]
    rows = [_attack_row(study, attack) for attack in study.results.attacks]
    done = {a.method for a in study.results.attacks}
    printed = dict.fromkeys(p.method for p in study.results.paper if p.dataset == "mnist")
    rows += [_only_printed(study, method) for method in printed if method not in done]
    caption = (
        "Adversarial examples on handwritten digits: mean L1 distance over all images, and the "
        "share of images whose class was not changed (violations), which a distance must be read "
        "with. Our gap is relative to the nearest change of each image that any method found, the "
        "paper's to its ILP. Ratio to the proved optimum: distance over the proved least one, on "
        "the images that have such a proof."
    )
    title = "Table 3: adversarial examples"
    return Table("table-3", title, caption, tuple(columns), tuple(rows), SECTION)


def _attack_row(study: Study, attack: AttackFigures) -> Row:
    named = label_of(attack.method) if attack.label == attack.method else attack.label
    entries = [words(named), count(attack.values["rows"])]
    for _, _, name, form in ATTACK_EXTRAS:
        entries.append(number(maybe(attack.values[name]), form))
    for _, ours, theirs, form in ATTACK_METRICS:
        found = maybe(attack.values[ours], attack.values.get(f"{ours}_std"))
        paper = study.paper("mnist", None, attack.method, theirs)
        entries += [number(found, form, note=NO_FIGURE if paper else None), plain(paper, form)]
    entries += [words(attack.device), words(attack.classifier), words(attack.note)]
    return Row(tuple(entries), method=attack.method)


def _only_printed(study: Study, method: str) -> Row:
    entries = [words(label_of(method)), *[Entry(NOTHING)] * (1 + len(ATTACK_EXTRAS))]
    for *_, theirs, form in ATTACK_METRICS:
        paper = plain(study.paper("mnist", None, method, theirs), form)
        entries += [Entry(NOTHING, note=NOT_RUN), paper]
    return Row((*entries, words(""), words(""), words("")), method=method)


def maybe(mean: float | None, std: float | None = None) -> Measured | None:
    """A figure that may be missing."""
    return None if mean is None else Measured(mean, std)


def _facts(study: Study) -> Table:
    keys = (
        *("variables", "functions", "free", "evidence", "width"),
        *("train_rows", "test_rows", "distinct_test_rows"),
    )
    printed = [k for k in keys if any(study.paper(d, None, MODEL, k) for d in study.datasets())]
    columns = [Column("data set", words=True), Column("group", words=True)]
    for key in keys:
        columns.append(Column(key.replace("_", " ")))
        if key in printed:
            columns.append(Column(f"{key.replace('_', ' ')}, paper"))
    rows = []
    facts = {f.dataset: f for f in study.results.datasets}
    for d in (d for d in study.datasets() if d in facts or study.groups[d] != "wide"):
        entries = [words(d), words(study.groups[d])]
        for key in keys:
            value = facts[d].counts[key] if d in facts else None
            entries.append(count(value, note=None if d in facts else NOT_RUN))
            if key in printed:
                found = study.paper(d, None, MODEL, key)
                entries.append(count(found.mean if found else None))
        rows.append(Row(tuple(entries), dataset=d))
    caption = "Models and rows. Width is the induced width that is left once evidence is given."
    known = tuple(rows) if facts else ()
    return Table("datasets", "Data sets", caption, tuple(columns), known, SECTION)
