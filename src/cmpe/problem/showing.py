"""A problem as a line, and as a table for a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cmpe.display import html_table, shortened

if TYPE_CHECKING:
    from cmpe.problem.problem import Problem

WIDTH = 80  # characters of a list of names
SHOWN_RULES = 10


def text_of(problem: Problem) -> str:
    """One line."""
    named = f"{problem.name!r}: " if problem.name else ""
    words = [f"{problem.variables} variables", f"{len(problem.evidence_variables)} observed"]
    words += [c.stated() for c in problem.constraints]
    several = "" if len(problem.rules) == 1 else "s"
    words += [f"{len(problem.rules)} rule{several}"] if problem.rules else []
    return f"Problem({named}{', '.join(words)})"


def table_of(problem: Problem) -> str:
    """What is maximised, subject to what, over which variables."""
    domain, observed = problem.domain, set(problem.evidence_variables)
    kinds = {"observed": observed, "free": set(range(problem.variables)) - observed}
    rows = [("maximise", repr(problem.objective))]
    rows += [
        ("subject to", f"{_named(c.name)}{c.function!r} {c.relation} {c.limit:g}")
        for c in problem.constraints
    ]
    rows += [("rule", text) for text in problem.rules[:SHOWN_RULES]]
    more = len(problem.rules) - SHOWN_RULES
    rows += [("...", f"{more} more rules")] if more > 0 else []
    rows += [
        (f"{len(which)} {kind}", shortened([domain.name(v) for v in sorted(which)], WIDTH))
        for kind, which in kinds.items()
    ]
    return html_table(problem.name or "problem", ("", ""), rows)


def _named(name: str) -> str:
    return f"{name}: " if name else ""
