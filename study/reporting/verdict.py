"""The verdict: what the results say, in at most three sentences, each made from cells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from study.reporting.headline import OTHERS, TUNED
from study.reporting.names import label_of
from study.reporting.paper_tables import MAIN_Q
from study.reporting.study import Key, Study
from study.reporting.tables import FORMS, Table, seconds_text

ELSEWHERE = tuple(method for method in OTHERS if method != "exact")
NEGATIVE = (
    "A regret or gap below 0 belongs to answers that break a constraint: they are better than "
    "every answer that keeps it, and count as violated, not as good."
)


def verdict(study: Study) -> list[str]:
    """How fast the optimum is proved, what a network adds, and what changes on wide problems."""
    found = (_proof(study), _network(study), _wide(study))
    return [sentence for sentence in found if sentence]


def has_negative_regret(table: Table) -> bool:
    """Whether a table shows a regret or gap below 0: each is a column, or the metric of a row."""
    below = (
        (column.over, column.title, *(e.text for e in row.entries if e.value is None))
        for row in table.rows
        for column, entry in zip(table.columns, row.entries, strict=True)
        if entry.value is not None and entry.value < -5e-4
    )
    return any("regret" in word or "gap" in word for names in below for word in names)


def _proof(study: Study) -> str | None:
    keys = _measured(study, "exact")
    if not keys:
        return None
    shares = [figure.mean for key in keys if (figure := study.figure(key, "optimal"))]
    proved = min(shares, default=1.0)
    share = "every row" if proved == 1 else f"{FORMS['percent'](proved)} of the rows"
    rivals = [
        min(times)
        for dataset, q, _ in keys
        if (times := _seconds(study, ((dataset, q, m) for m in ELSEWHERE)))
    ]
    rest = f"; the fastest other solver takes {_range(rivals)}" if rivals else ""
    return (
        f"At q = {MAIN_Q:g}, {label_of('exact')} proves the optimum of {share} on "
        f"{_several(keys, 'data set')} in {_range(_seconds(study, keys))} a row{rest}."
    )


def _network(study: Study) -> str | None:
    keys = _measured(study, TUNED)
    if not keys:
        return None
    violated = max(figure.mean for key in keys if (figure := study.figure(key, "violation")))
    pairs = [(key, (key[0], key[1], "exact")) for key in keys]
    both = [tuple(_seconds(study, pair)) for pair in pairs]
    slower = sum(len(times) == 2 and times[0] > times[1] for times in both)
    judged = (
        f", and is slower than exact on {slower} of {_several(keys, 'data set')}" if slower else ""
    )
    most = f"breaks its constraint in at most {_rounded_up(violated)} of the rows"
    breaks = most if violated > 0 else "breaks no constraint"
    return f"The trained network with repair {breaks}{judged}."


def _wide(study: Study) -> str | None:
    keys = [k for k in study.places() if study.groups[k[0]] == "wide" and k[2] == "exact"]
    proved = [key for key in keys if (found := study.figure(key, "proved")) and found.mean == 1.0]
    if not keys:
        return None
    far = [
        min(regrets)
        for dataset, q, _ in proved
        if (regrets := _means(study, ((dataset, q, m) for m in ELSEWHERE), "regret"))
    ]
    rest = (
        f", where the best of the other solvers is up to {max(far):.3g} nats off"
        if far and max(far) > 0.01
        else ""
    )
    return (
        f"Of {_several(keys, 'wide problem')}, exact proves every row of {len(proved)} in "
        f"{_range(_seconds(study, proved))} a row{rest}."
        if proved
        else f"Of {_several(keys, 'wide problem')} none was proved in every row."
    )


def _measured(study: Study, method: str) -> list[Key]:
    datasets = study.datasets("uai", "tractable")
    keys = [(dataset, MAIN_Q, method) for dataset in datasets]
    return [key for key in keys if study.figure(key, "seconds") and study.figure(key, "violation")]


def _means(study: Study, keys: Iterable[Key], name: str) -> list[float]:
    return [found.mean for key in keys if (found := study.figure(key, name))]


def _seconds(study: Study, keys: Iterable[Key]) -> list[float]:
    return _means(study, keys, "seconds")


def _range(seconds: Sequence[float]) -> str:
    least, most = (seconds_text(float(f"{value:.2g}")) for value in (min(seconds), max(seconds)))
    return least if least == most else f"{least} to {most}"


def _rounded_up(share: float) -> str:
    """A percentage that no share exceeds."""
    return f"{math.ceil(round(1e4 * share, 6)) / 100:g} %"


def _several(keys: Sequence[Key], noun: str) -> str:
    return f"{len(keys)} {noun}{'' if len(keys) == 1 else 's'}"
