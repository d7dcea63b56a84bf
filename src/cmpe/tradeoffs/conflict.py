"""`cmpe.conflict`: a minimal set of constraints, rules and findings that has no answer.

A conflict cannot hold together. It is minimal where taking any one member away leaves a question
with an answer. It is found by dividing what might be to blame (Junker 2004, QuickXplain): of k
members among n, in about k log(n / k) questions, each asked of the engine that `auto` chooses. The
model's zeros are never to blame: an assignment of probability 0 is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cmpe.arrays import FREE
from cmpe.core.compiler.notices import asked_for
from cmpe.display import html_table
from cmpe.errors import EvidenceError
from cmpe.problem import Evidence, Problem, need_problem
from cmpe.problem.rows import Limits as RowLimits
from cmpe.problem.rows import Potentials, Rows
from cmpe.solution import Status
from cmpe.solution.frames import frame_of_rows
from cmpe.solvers.base import Deadline, Limits, Running
from cmpe.solvers.dispatch import answer


@dataclass(frozen=True, repr=False)
class Conflict:
    """Statements that contradict each other; empty for a row with an answer."""

    problem: Problem  # with the row's own limits
    feasible: bool | None  # whether the row has an answer; None: not decided in the time
    constraints: tuple[int, ...]  # numbers of the problem's constraints
    rules: tuple[int, ...]  # numbers of the problem's rules
    findings: dict[Any, Any]  # the observed variables, with what was observed
    minimal: bool  # proved: without any one of them there is an answer

    @property
    def members(self) -> list[str]:
        """Every constraint, rule and finding in words."""
        problem = self.problem
        return [
            *(f"{c.name or f't{j}'} {c.relation} {c.limit:g}" for j, c in self._limited()),
            *(f"rule {problem.rules[j]!r}" for j in self.rules),
            *(f"{name}={state}" for name, state in self.findings.items()),
        ]

    def _limited(self) -> list[tuple[int, Any]]:
        return [(j, self.problem.constraints[j]) for j in self.constraints]

    def __len__(self) -> int:
        return len(self.members)

    def __str__(self) -> str:
        if self.feasible:
            return "there is a feasible answer: nothing is in conflict"
        if self.feasible is None:
            return "not decided in the time: there may be a feasible answer"
        if not len(self):
            return "the model gives every assignment probability 0"
        if len(self) == 1:
            return f"cannot hold: {self.members[0]}"
        least = "" if self.minimal else " (fewer of them may be enough)"
        return f"cannot hold together: {', '.join(self.members)}{least}"

    def __repr__(self) -> str:
        return f"Conflict({self})"

    def to_frame(self) -> Any:
        """A pandas DataFrame: a row for each member (extra `frames`)."""
        kinds = (["constraint"] * len(self.constraints)) + (["rule"] * len(self.rules))
        kinds += ["finding"] * len(self.findings)
        pairs = zip(kinds, self.members, strict=True)
        return frame_of_rows([{"kind": k, "member": m} for k, m in pairs], ["kind", "member"])

    def _repr_html_(self) -> str:
        head = str(self) if not len(self) else "cannot hold together"
        return html_table(head, ("",), [(member,) for member in self.members])


@asked_for("conflict")
def conflict(
    problem: Problem,
    row: Evidence | None = None,
    *,
    time_limit: float | None = None,
    running: Running | None = None,
    potentials: Potentials | None = None,
    limits: RowLimits | None = None,
) -> Conflict:
    """A minimal set of constraints, rules and findings of one row that contradict each other.

    `time_limit` is in seconds for the whole search. If it runs out, the
    conflict is proved, but not proved to be minimal. `potentials` and `limits` are as in
    `solve`.
    """
    rows = one_row(problem, row, "conflict", potentials, limits)
    return _Division(rows, Limits.of(running, seconds=time_limit)).run()


def one_row(
    problem: Problem,
    row: Evidence | None,
    who: str,
    potentials: Potentials | None,
    limits: RowLimits | None,
) -> Rows:
    """The one row that a question is about."""
    need_problem(problem, who)
    rows = Rows.of(problem, row, potentials, limits)
    if len(rows) != 1:
        raise EvidenceError(f"{who} is about one row of evidence; found {len(rows)}")
    return rows


Member = tuple[str, int]  # "constraint", "rule" or "finding", and its number


class _Division:
    """The search for one row."""

    def __init__(self, rows: Rows, limits: Limits) -> None:
        self._problem, self._seen = rows.problem_of(0), rows.evidence[0]
        self._parts = self._problem.parts.support()
        self._deadline = Deadline(replace(limits, progress=None, start=None))
        self._sure = True

    def run(self) -> Conflict:
        """The conflict of everything together."""
        parts = self._parts
        every: list[Member] = [
            *(("constraint", j) for j in range(len(parts.constraints))),
            *(("rule", j) for j in range(len(parts.rules))),
            *(("finding", v) for v in np.flatnonzero(self._seen != FREE).tolist()),
        ]
        status = self._asked(every)
        if status is not Status.INFEASIBLE:
            return self._of([], None if status is None else True)
        found = [] if self._asked([]) is Status.INFEASIBLE else self._divided([], [], every)
        return self._of(sorted(found), False)

    def _of(self, members: Sequence[Member], feasible: bool | None) -> Conflict:
        domain = self._problem.domain
        kinds: dict[str, list[int]] = {"constraint": [], "rule": [], "finding": []}
        for kind, number in members:
            kinds[kind].append(number)
        findings = {
            domain.name(v) if domain.names else v: domain.label(v, self._seen[v].item())
            for v in kinds["finding"]
        }
        constraints, rules = tuple(kinds["constraint"]), tuple(kinds["rule"])
        minimal = feasible is False and self._sure
        return Conflict(self._problem, feasible, constraints, rules, findings, minimal)

    def _divided(
        self, kept: list[Member], fresh: list[Member], blamed: list[Member]
    ) -> list[Member]:
        """The least part of `blamed` that cannot hold beside `kept`; all of both cannot.

        `fresh` is what was added to `kept` last: if that is enough already, nobody is to blame.
        """
        if fresh and self._asked(kept) is Status.INFEASIBLE:
            return []
        if len(blamed) == 1:
            return blamed
        first, second = blamed[: len(blamed) // 2], blamed[len(blamed) // 2 :]
        of_second = self._divided([*kept, *first], first, second)
        of_first = self._divided([*kept, *of_second], of_second, first)
        return [*of_first, *of_second]

    def _asked(self, members: Sequence[Member]) -> Status | None:
        """Whether these can hold together; None where that is not decided."""
        if self._deadline.expired():
            self._sure = False
            return None
        parts = self._parts
        chosen = {kind: [j for k, j in members if k == kind] for kind in ("constraint", "rule")}
        findings = sorted(v for kind, v in members if kind == "finding")
        posed = self._problem.made_of(
            parts._replace(
                constraints=tuple(parts.constraints[j] for j in sorted(chosen["constraint"])),
                rules=tuple(parts.rules[j] for j in sorted(chosen["rule"])),
            )
        ).observing(findings)
        found = answer(posed, self._seen[findings][np.newaxis], "auto", self._deadline.left())
        if found.feasible[0]:
            return Status.FEASIBLE
        if found.status[0] == Status.INFEASIBLE:
            return Status.INFEASIBLE
        self._sure = False
        return None
