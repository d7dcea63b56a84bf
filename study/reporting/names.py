"""How methods, data sets and groups are called, ordered and drawn."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from cmpe.learning.losses.catalogue import LOSS_KINDS, PAPER_LOSSES, Family, losses_of

SUPERVISED = losses_of(Family.supervised)
SELF_SUPERVISED = losses_of(Family.self_supervised)
OURS_IN_PAPER = losses_of(Family.consistent)
PAPER_METHODS = PAPER_LOSSES
MAIN_METHODS = ("mse_pen", "ssl_pen", "pdl", "ss_cmpe")  # of the paper's Tables 1 and 2
BEYOND = (
    *("tuned", "tuned+moves", "tuned+repair", "network+moves", "network+repair", "network+search"),
    *(
        "constant+search",
        "icm+search",
        "random+search",
        "search",
        "constant",
        "lagrangian",
        "exact",
    ),
    *("milp:highs", "milp:scip", "toulbar2"),
)
METHODS = ("ilp", *PAPER_METHODS, *BEYOND)
GROUPS = ("uai", "tractable", "wide")
LABELS = {
    "ilp": "ILP",
    **{name: kind.label for name, kind in LOSS_KINDS.items()},
    "tuned": "tuned network",
    "tuned+moves": "tuned + moves",
    "tuned+repair": "tuned + repair",
    "network+moves": "network + single moves",
    "network+repair": "network + repair",
    "network+search": "network + search",
    "constant+search": "constant start + search",
    "icm+search": "ICM + search",
    "random+search": "random start + search",
    "constant": "one constant answer",
    "lagrangian": "Lagrangian + local search",
    "exact": "exact",
    "milp:highs": "HiGHS",
    "milp:scip": "SCIP",
    "toulbar2": "toulbar2",
}


Marker = str | tuple[int, int, int]


@dataclass(frozen=True)
class Style:
    """How a method is drawn: marker, line and hatch tell it from others without colour."""

    color: str
    marker: Marker
    line: str
    hatch: str


_STYLES = {
    "ilp": Style("#000000", "8", ":", "oo"),
    "mae": Style("#8c510a", "v", ":", "\\\\"),
    "mse": Style("#4d4d4d", "<", "-.", "--"),
    "mae_pen": Style("#8c510a", ">", "--", "++"),
    "mse_pen": Style("#4d4d4d", "^", "-", "||"),
    "ssl_pen": Style("#0072b2", "P", "--", "///"),
    "pdl": Style("#009e73", "X", "-.", "\\\\\\"),
    "ss_cmpe": Style("#c51b7d", "*", ":", "xxx"),
    "ss_cmpe_pen": Style("#7b3294", "D", "-", "|||"),
    "tuned": Style("#d55e00", "p", "--", "-----"),
    "tuned+moves": Style("#4d4d4d", "H", "--", "..."),
    "tuned+repair": Style("#000000", "o", "-", ""),
    "network+repair": Style("#c51b7d", (7, 0, 0), "--", "///"),
    "network+moves": Style("#d55e00", (5, 1, 0), "--", "..."),
    "network+search": Style("#000000", (6, 1, 0), "-", "oo"),
    "constant+search": Style("#8c510a", (3, 0, 30), ":", "ooo"),
    "icm+search": Style("#c51b7d", (7, 1, 0), "-.", "OO"),
    "random+search": Style("#8c510a", (8, 1, 0), ":", "**"),
    "search": Style("#009e73", (4, 0, 20), "-", "\\\\"),
    "constant": Style("#4d4d4d", (8, 0, 0), "-.", "\\\\||"),
    "lagrangian": Style("#009e73", "s", "--", "++"),
    "exact": Style("#d55e00", "d", "-", "///"),
    "milp:highs": Style("#0072b2", "h", "-.", "xxx"),
    "milp:scip": Style("#7b3294", (3, 1, 0), ":", "\\\\\\"),
    "toulbar2": Style("#4d4d4d", (4, 1, 0), "--", "|||"),
}
_SPARE = (
    Style("#c51b7d", "H", "-", "/"),
    Style("#8c510a", (5, 1, 0), "--", "\\"),
    Style("#0072b2", (6, 1, 0), ":", "x"),
    Style("#000000", (3, 0, 30), "-.", "+"),
)


def style_of(method: str) -> Style:
    """The same for a method in every figure."""
    return _STYLES.get(method) or _SPARE[sum(method.encode()) % len(_SPARE)]


def label_of(method: str) -> str:
    """What a reader sees."""
    return LABELS.get(method, method)


def by_rank(methods: Iterable[str]) -> list[str]:
    """The paper's methods first, then ours, then others by name."""
    return sorted(
        set(methods),
        key=lambda m: (METHODS.index(m) if m in METHODS else len(METHODS), natural(m)),
    )


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sorting key in which Grids_9 comes before Grids_10."""
    pieces = re.findall(r"\d+|\D+", name)
    return tuple((0, int(p), "") if p.isdecimal() else (1, 0, p.casefold()) for p in pieces)


def family_of(dataset: str, group: str) -> str:
    """The panel of a data set, as in the paper's Figure 2."""
    for family in ("Grids", "Segmentation"):
        if dataset.startswith(family) and group == "uai":
            return family
    names = {"uai": "UAI models", "tractable": "Tractable models", "wide": "Wide problems"}
    return names.get(group, group)


def q_text(q: float | None) -> str:
    """A percentile as a reader sees it."""
    return "–" if q is None else f"{q:g}"


def slug_of(text: str) -> str:
    """A name that is safe in a file name and in an address."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60] or "x"
