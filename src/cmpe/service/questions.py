"""Requests and answers of the service as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from cmpe.arguments import real_number
from cmpe.errors import CmpeError, InputError
from cmpe.formats.results import row_values
from cmpe.problem import Problem
from cmpe.problem.rows import Rows
from cmpe.solution import Solutions, Status
from cmpe.solvers.base import Limits
from cmpe.solvers.dispatch import Chosen, answer_rows
from cmpe.tradeoffs.best import best
from cmpe.tradeoffs.conflict import conflict
from cmpe.tradeoffs.front import front
from cmpe.tradeoffs.probability import probability

KEYS = ("rows", "potentials", "limits", "time_limit")
ALTERNATIVES = 3  # the answer and two others
SHOWN_POINTS = 200  # of a front
SAMPLES = 1000  # where probabilities are estimated


@dataclass(frozen=True)
class Allowed:
    """What one request may ask for, and how much may wait."""

    bytes: int = 10_000_000  # of a body
    rows: int = 10_000  # of a request, and of a batch
    seconds: float = 1.0  # per row
    queue: int = 20_000  # rows that wait or are being answered
    wait: float = 30.0  # seconds until a request that waits is refused


Kind = tuple[float, bool, bool]  # the time limit of a row; whether rows have potentials, limits


@dataclass(frozen=True)
class Asked:
    """One request: its rows, and the time limit of each."""

    rows: Rows
    seconds: float

    @property
    def kind(self) -> Kind:
        """Requests of one kind are answered together."""
        return self.seconds, bool(self.rows.potentials), self.rows.limits is not None


def parsed(problem: Problem, body: bytes, allowed: Allowed) -> Asked:
    """A request's body, checked."""
    message = _object(body)
    odd = sorted(set(message) - set(KEYS))
    if odd:
        raise InputError(f"a request has {', '.join(KEYS)}; found {odd[0]!r:.60}")
    rows = message.get("rows", [{}])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError('rows must be a list of objects, as in [{"Rain": "yes"}]')
    if not 1 <= len(rows) <= allowed.rows:
        raise InputError(f"a request has 1 to {allowed.rows} rows, found {len(rows)}")
    for key in ("potentials", "limits"):
        if not isinstance(message.get(key, {}), dict):
            raise InputError(f"{key} must be an object by name")
    seconds = real_number("time_limit", message.get("time_limit", allowed.seconds), InputError)
    if not 0.0 < seconds <= allowed.seconds:
        raise InputError(f"time_limit must be above 0 and at most {allowed.seconds:g} s a row")
    numbers = {key: _by_number(problem, message.get(key)) for key in ("potentials", "limits")}
    asked = Rows.of(problem, [_by_number(problem, row) for row in rows], **numbers)
    if len(asked) > allowed.rows:
        raise InputError(f"a request has 1 to {allowed.rows} rows, found {len(asked)}")
    return Asked(asked, seconds)


def _object(body: bytes) -> dict[str, Any]:
    try:
        message = json.loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise InputError(f"a request must be JSON: {str(error)[:80]}") from None
    if not isinstance(message, dict):
        raise InputError("a request must be a JSON object")
    return message


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"numbers must be finite, found {word}")


def _by_number(problem: Problem, values: Any) -> Any:
    """Keys of JSON are texts; without names a variable is a number."""
    if problem.domain.names or not isinstance(values, Mapping):
        return values
    return {int(key) if key.isdecimal() else key: value for key, value in values.items()}


def answered(asked: list[Asked], method: Chosen, threads: int) -> list[Solutions]:
    """The answers of each request, solved together."""
    limits = Limits(seconds=asked[0].seconds, threads=threads)
    found = answer_rows(Rows.concatenate([each.rows for each in asked]), method, limits)
    out, first = [], 0
    for each in asked:
        out.append(found.span(first, first + len(each.rows)))
        first += len(each.rows)
    return out


def told(problem: Problem, answers: Solutions) -> list[dict[str, Any]]:
    """Answers with their certificates, as `cmpe solve` writes them."""
    gap, feasible = answers.gap, answers.feasible
    return [
        row_values(problem, answers, i, float(gap[i]), bool(feasible[i]))
        for i in range(len(answers))
    ]


def explained(asked: Asked, method: Chosen) -> dict[str, Any]:
    """One row: its answer, others, how sure it is, what each limit costs, why there is none."""
    rows = asked.rows
    problem, keywords, seconds = rows.problem, rows.keywords, asked.seconds
    found = answer_rows(rows, method, Limits(seconds=seconds))
    out: dict[str, Any] = {"answer": told(problem, found)[0], "proof": found[0].proof}
    if found.status[0] == Status.INFEASIBLE:
        reason = conflict(problem, rows.evidence[0], time_limit=seconds, **_own(keywords))
        return {**out, "conflict": {"text": str(reason), "members": list(reason.members)}}
    if not found.feasible[0]:
        return out
    others = best(problem, k=ALTERNATIVES, time_limit=seconds, **keywords)[0]
    out["alternatives"] = [
        {"objective": each.objective, "states": {str(k): s for k, s in each.items()}}
        for each in others
    ]
    out["sure"] = _sure(problem, keywords, found)
    out["fronts"] = [_front(problem, j, seconds, keywords) for j in range(len(problem.constraints))]
    return out


def _own(keywords: dict[str, Any]) -> dict[str, Any]:
    return {key: keywords[key] for key in ("potentials", "limits")}


def _sure(problem: Problem, keywords: dict[str, Any], answers: Solutions) -> dict[str, Any]:
    try:
        likely = probability(problem, samples=SAMPLES, **keywords)
        share = float(likely.of(answers)[0])
    except CmpeError as error:  # too wide to sum, or no tables
        return {"reason": str(error)}
    marginals = {str(key): values[0].tolist() for key, values in likely.marginals.items()}
    return {"probability": share, "estimated": likely.estimated, "marginals": marginals}


def _front(problem: Problem, over: int, seconds: float, keywords: dict[str, Any]) -> dict[str, Any]:
    try:
        found = front(problem, over=over, time_limit=seconds, **keywords)[0]
    except CmpeError as error:
        return {"reason": str(error)}
    step = -(-len(found) // SHOWN_POINTS) or 1
    return {
        "complete": found.complete,
        "values": found.values[::step].tolist(),
        "objective": found.objective[::step].tolist(),
    }


def described(problem: Problem, allowed: Allowed) -> dict[str, Any]:
    """The problem, for people and programs that ask about it."""
    domain = problem.domain
    return {
        "name": problem.name,
        "variables": [
            {"name": domain.name(v), "states": list(domain.states_of(v))}
            for v in range(problem.variables)
        ],
        "constraints": [
            {"name": c.name or str(j), "relation": c.relation, "limit": c.limit}
            for j, c in enumerate(problem.constraints)
        ],
        "allowed": {"rows": allowed.rows, "bytes": allowed.bytes, "seconds": allowed.seconds},
    }


def encoded(value: Any) -> bytes:
    """JSON, with null for numbers that it does not know."""
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
    except ValueError:
        return json.dumps(_finite(value), separators=(",", ":"), allow_nan=False).encode()


def _finite(value: Any) -> Any:
    """The same with None in place of infinities and NaN."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
