"""What a reader wants first: every data set at q = 80, the wide problems, and every cell."""

from __future__ import annotations

from dataclasses import replace

from study.reporting.names import label_of, q_text
from study.reporting.paper_tables import MAIN_Q
from study.reporting.study import Key, Study
from study.reporting.tables import (
    Column,
    Entry,
    Row,
    Table,
    count,
    mark_smallest,
    number,
    plain,
    words,
)

SECTION = "At a glance"
TUNED = "tuned+repair"
MOVES = "tuned+moves"
SHOWN = 0.005  # nats
MOVES_TITLES = ("regret (nats)", "time a row")
OTHERS = ("exact", "milp:highs", "milp:scip", "toulbar2")


def headline_tables(study: Study) -> list[Table]:
    """The headline, the wide problems."""
    return [table for table in (_headline(study), _wide(study)) if table.rows]


def _headline(study: Study) -> Table:
    """One row per data set at q = 80."""
    moves = MOVES in study.methods()
    columns = [
        Column("data set", words=True),
        Column("rows on which the constraint binds"),
        Column("rows also in training"),
        *(Column(title, over="distinct answers") for title in (label_of(TUNED), "optima")),
        *(Column(title, over=label_of("constant")) for title in ("violations", "regret (nats)")),
        *(
            Column(title, over=label_of(TUNED))
            for title in ("violations", "regret (nats)", "certified gap (nats)", "time a row")
        ),
        *(Column(title, over=label_of(MOVES)) for title in MOVES_TITLES if moves),
        *(Column(title, over="no network") for title in ("regret (nats)", "time a row")),
        *(Column(title, over="exact") for title in ("regret (nats)", "rows proved")),
        *(Column(label_of(m), over="time a row") for m in OTHERS),
    ]
    ours = {dataset for dataset, q, _ in study.places() if q == MAIN_Q}
    datasets = [d for d in study.datasets("uai", "tractable") if d in ours]
    rows = tuple(Row(_headline_entries(study, d), dataset=d) for d in datasets)
    seeds = "one seed" if "one seed" in study.spread else "mean over seeds"
    caption = (
        f"All rows, {seeds}. The constraint binds on a row whose unconstrained optimum breaks it; "
        "on all other rows the answer is that of plain MPE. The certified gap is the proved bound "
        "minus the objective. The constant is one answer to all rows, chosen on training rows. "
        "Repair by moves ends where no move helps; full repair then tries "
        'random changes. "No network" is the answer of the Lagrangian dual, improved by local '
        "search. HiGHS, SCIP and toulbar2 had a time limit and a few rows; in brackets is their "
        "regret in nats where it is not 0. Bold is the least time."
    )
    title = f"Every data set at q = {MAIN_Q:g}"
    one, mine, other = label_of("constant"), label_of(TUNED), "time a row"
    main = (("", "data set"), ("", "rows on which the constraint binds"), (one, "regret (nats)"),
            (mine, "violations"), (mine, "regret (nats)"), (mine, "time a row"),
            (other, label_of("exact")))  # fmt: skip
    return Table(
        "headline", title, caption, tuple(columns), rows, SECTION, q=q_text(MAIN_Q), main=main
    )


def _headline_entries(study: Study, dataset: str) -> tuple[Entry, ...]:
    methods = (TUNED, "lagrangian", "exact", "constant")
    tuned, free, exact, constant = ((dataset, MAIN_Q, m) for m in methods)
    times = [_time(study, (dataset, MAIN_Q, m)) for m in (TUNED, "lagrangian")]
    times += [_with_regret(study, (dataset, MAIN_Q, m)) for m in OTHERS]
    network, baseline, *others = mark_smallest(times)
    return (
        words(dataset),
        plain(study.binding(dataset, MAIN_Q), "percent"),
        plain(study.extra(exact, "overlap"), "percent", note=study.reason(exact)),
        *(_answers(study, key) for key in (tuned, exact)),
        plain(study.figure(constant, "violation"), "percent", note=study.reason(constant)),
        _regret(study, constant),
        plain(study.figure(tuned, "violation"), "percent", note=study.reason(tuned)),
        _regret(study, tuned),
        plain(study.figure(tuned, "certified_gap"), "nats", note=study.reason(tuned)),
        network,
        *_moves(study, dataset),
        _regret(study, free),
        baseline,
        _regret(study, exact),
        plain(study.figure(exact, "optimal"), "percent", note=study.reason(exact)),
        *others,
    )


def _answers(study: Study, key: Key) -> Entry:
    found = study.figure(key, "distinct_answers")
    return count(None if found is None else found.mean)


def _moves(study: Study, dataset: str) -> tuple[Entry, ...]:
    if MOVES not in study.methods():
        return ()
    key = (dataset, MAIN_Q, MOVES)
    return _regret(study, key), _time(study, key)


def _with_regret(study: Study, key: Key) -> Entry:
    """A time, with the regret in brackets where the answers are not optimal."""
    time, regret = _time(study, key), study.figure(key, "regret")
    if regret is None or abs(regret.mean) < SHOWN:
        return time
    return replace(time, text=f"{time.text} ({regret.mean:,.2f} off)")


def _regret(study: Study, key: Key) -> Entry:
    return plain(study.figure(key, "regret"), "nats", note=study.reason(key))


def _time(study: Study, key: Key) -> Entry:
    return plain(study.figure(key, "seconds"), "seconds", note=study.reason(key))


def _wide(study: Study) -> Table:
    """The problems on which elimination does not pay: methods one under the other."""
    chosen = [k for k in study.places() if study.groups[k[0]] == "wide"]
    titles = (
        "regret (nats)",
        "violations",
        "certified gap (nats)",
        "proved by it",
        "rows",
        "time a row",
    )
    columns = [Column("data set", words=True), Column("q"), Column("method", words=True)]
    columns += [Column(title) for title in (*titles, "training")]
    rows = []
    for place in dict.fromkeys(k[:2] for k in chosen):
        keys = [k for k in chosen if k[:2] == place]
        regrets = mark_smallest([_regret(study, k) for k in keys])
        times = mark_smallest([_time(study, k) for k in keys])
        for key, regret, time in zip(keys, regrets, times, strict=True):
            rows.append(_wide_row(study, key, regret, time))
    caption = (
        "Few variables are observed here, so elimination is wide, and the methods come in another "
        "order than above. Search from a start has 1 ms a row, search alone 0.1 s, HiGHS, SCIP and "
        "toulbar2 10 s, and exact ends with a proof; other times are in the figures. Regret is "
        'against the best value known. "Proved by it" is the share of rows whose optimum the '
        "method proved itself; the certified gap is that of the worst row. There is no figure "
        "where no answer was feasible or the optimum is not known. Bold are the least regret and "
        "time of each problem."
    )
    shown = ("data set", "q", "method", "regret (nats)", "violations", "proved by it", "time a row")
    main = tuple(("", title) for title in shown)
    return Table("wide", "Wide problems", caption, tuple(columns), tuple(rows), SECTION, main=main)


def _wide_row(study: Study, key: Key, regret: Entry, time: Entry) -> Row:
    note = None if study.figure(key, "regret") else study.reason(key)
    rows = study.figure(key, "rows")
    entries = (
        words(key[0]),
        Entry(q_text(key[1]), key[1]),
        words(label_of(key[2])),
        regret,
        plain(study.figure(key, "violation"), "percent", note=note),
        plain(study.figure(key, "certified_gap"), "nats", note=note),
        plain(study.figure(key, "proved"), "percent", note=note),
        count(None if rows is None else rows.mean),
        time,
        plain(study.extra(key, "train_seconds"), "seconds"),
    )
    return Row(entries, method=key[2], dataset=key[0], q=q_text(key[1]))


def cell_table(study: Study) -> Table:
    """Everything, one line per data set, q and method."""
    columns = [
        Column("data set", words=True),
        Column("q"),
        Column("method", words=True),
        *(Column(title, over="gap") for title in ("ours", "paper")),
        *(
            Column(title, over="violations")
            for title in ("ours", "paper", "relaxed", "size (nats)")
        ),
        *(Column(t, over="regret (nats)") for t in ("all rows", "feasible", "constrained rows")),
        Column("certified gap (nats)"),
        Column("violations, constrained rows"),
        *(Column(title, over="time") for title in ("a row", "training")),
        *(Column(title, over="rows") for title in ("all", "distinct", "constrained")),
        Column("distinct answers"),
        Column("seeds"),
        Column("where", words=True),
    ]
    rows = tuple(
        Row(_cell_entries(study, key), method=key[2], dataset=key[0], q=q_text(key[1]))
        for key in study.places()
    )
    caption = (
        f"{study.spread} Constrained rows are those whose "
        "unconstrained optimum breaks the constraint. Relaxed: violations of the network's "
        "output before rounding. A column heading sorts."
    )
    main = (("", "data set"), ("", "q"), ("", "method"), ("gap", "ours"), ("violations", "ours"),
            ("regret (nats)", "all rows"), ("time", "a row"))  # fmt: skip
    return Table("cells", "Every cell", caption, tuple(columns), rows, "Every cell", main=main)


def _cell_entries(study: Study, key: Key) -> tuple[Entry, ...]:
    measured = [c for c in study.cells(key) if c.measured]
    note = None if measured else study.reason(key)

    def shown(metric: str, form: str = "ratio", *, constrained: bool = False) -> Entry:
        return number(study.figure(key, metric, constrained=constrained), form, note=note)

    def size(metric: str, *, constrained: bool = False) -> Entry:
        found = study.figure(key, metric, constrained=constrained)
        return count(None if found is None else found.mean)

    places = {c.device for c in measured if c.device}
    return (
        words(key[0]),
        Entry(q_text(key[1]), key[1]),
        words(label_of(key[2])),
        shown("gap"),
        number(study.paper(*key, "gap")),
        shown("violation"),
        number(study.paper(*key, "violations")),
        number(study.extra(key, "relaxed_violation")),
        shown("violation_size", "nats"),
        shown("regret", "nats"),
        shown("feasible_regret", "nats"),
        shown("regret", "nats", constrained=True),
        shown("certified_gap", "nats"),
        shown("violation", constrained=True),
        shown("seconds", "seconds"),
        number(study.extra(key, "train_seconds"), "seconds"),
        size("rows"),
        size("distinct"),
        size("rows", constrained=True),
        _answers(study, key),
        Entry(str(len(measured)), float(len(measured))),
        words(", ".join(sorted(places))),
    )
