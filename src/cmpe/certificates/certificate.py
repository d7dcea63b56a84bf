"""`cmpe.certify`: proofs of the bounds of answers, in a file that `checker` verifies.

The file states the question with them: which model files hold the tables, further tables (counts,
rules, models that did not come from a UAI file), and of each row its evidence, log-potentials and
limits.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmpe.arguments import file_path
from cmpe.arrays import FREE, Floats
from cmpe.certificates.checker import Refused, Table, read_model
from cmpe.certificates.proofs import Clustering, Message, Proof, Where
from cmpe.certificates.proving import prove
from cmpe.display import html_table, number_text
from cmpe.errors import MethodError
from cmpe.formats.text import write_text
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.problem import Evidence, Form, Problem
from cmpe.problem.expansion import Expansion, expanded
from cmpe.problem.rows import Limits, Potentials, Rows
from cmpe.solution import Solutions, Status
from cmpe.solution.frames import frame_of_rows
from cmpe.solution.solutions import OPTIMALITY_TOLERANCE
from cmpe.solving import solve

READ = (".uai", ".LG", ".xz", ".gz")  # suffixes of files that the checker reads


@dataclass(frozen=True)
class Certificate:
    """A certificate that was written: for each row the proof, or the reason why there is none."""

    path: Path
    bound: Floats  # (B,) what the cubes prove; -inf: no assignment is feasible; inf: no proof
    claims: Floats  # (B,) the bounds of the answers, with their tolerance
    cubes: tuple[int, ...]
    failures: tuple[str, ...]  # "" where there is a proof

    @property
    def weaker(self) -> NDArray[np.bool_]:
        """(B,) whether the cubes prove a weaker bound than the answer has."""
        return np.isfinite(self.bound) & (self.bound > self.claims)

    @property
    def complete(self) -> bool:
        """Whether every row has a proof of its answer's bound."""
        return not any(self.failures) and not self.weaker.any()

    def to_frame(self) -> Any:
        """A pandas DataFrame: a line for each row (extra `frames`)."""
        columns = ("row", "bound", "cubes", "proof")
        return frame_of_rows(
            [dict(zip(columns, line, strict=True)) for line in self._lines()], list(columns)
        )

    def _lines(self) -> list[tuple[int, float, int, str]]:
        words = [
            failure or ("weaker than the answer's bound" if weaker else "complete")
            for failure, weaker in zip(self.failures, self.weaker, strict=True)
        ]
        return list(zip(range(len(words)), self.bound.tolist(), self.cubes, words, strict=True))

    def _repr_html_(self) -> str:
        lines = [(str(i), number_text(b), str(n), words) for i, b, n, words in self._lines()[:20]]
        return html_table(repr(self), ("row", "bound", "cubes", "proof"), lines)

    def __repr__(self) -> str:
        proved = sum(not failure for failure in self.failures)
        return (
            f"Certificate({self.path}: {proved} of {len(self.cubes)} rows, {sum(self.cubes)} cubes)"
        )


def certify(
    problem: Problem,
    evidence: Evidence | None,
    path: Path | str,
    *,
    answers: Solutions | None = None,
    potentials: Potentials | None = None,
    limits: Limits | None = None,
    models: Sequence[Path | str] = (),
) -> Certificate:
    """Prove the bounds of answers to these rows, and write the proofs to a file.

    answers: what `cmpe.solve` returned for the same rows; without them the rows are solved.
    models: the UAI files that the problem's functions were read from. The certificate names them
    instead of holding their tables, so that the checker reads them itself.
    """
    target = file_path(path, "certify", "file")
    rows = Rows.of(problem, evidence, potentials, limits)
    if answers is None:
        answers = solve(problem, **rows.keywords)
    if len(answers) != len(rows):
        raise MethodError(
            f"certify needs an answer to each of {len(rows)} rows, found {len(answers)}"
        )
    return certified(rows, answers, target, models)


def certified(
    rows: Rows, answers: Solutions, path: Path, models: Sequence[Path | str]
) -> Certificate:
    """The same of checked rows."""
    asked, completed = _tabled(rows)
    claims = claims_of(answers)
    proofs = prove(asked, claims)
    question = _Sources(path, models).question(asked.problem)
    structures: dict[Clustering | None, int] = {}
    values = completed(answers.assignments)
    lines = []
    for i, proof in enumerate(proofs):
        stated = {} if proof.failure else _proof(proof, structures)
        holds = answers.feasible[i]
        lines.append({
            **_row(asked, i),
            "assignment": values[i].tolist() if holds else None,
            "objective": float(answers.objective[i]) if holds else None,
            **({"uncertified": proof.failure} if proof.failure else stated),
        })  # fmt: skip
    listed = [{"clusters": s.clusters, "moves": s.moves} for s in structures if s]
    content = {"problem": question, "structures": listed, "rows": lines}
    write_text(path, _text(content))
    bound = [math.inf if proof.failure else proof.bound for proof in proofs]
    counts = tuple(0 if proof.failure else len(proof.cubes) for proof in proofs)
    failures = tuple(proof.failure for proof in proofs)
    return Certificate(path, np.array(bound), claims, counts, failures)


def claims_of(answers: Solutions) -> Floats:
    """What is to be proved of each row: -inf that nothing is feasible, inf nothing at all."""
    optimal = answers.status == Status.OPTIMAL
    known = np.where(optimal, answers.objective, answers.bound)
    finite = np.where(np.isfinite(known), known, 0.0)
    room = OPTIMALITY_TOLERANCE * np.maximum(1.0, np.abs(finite))
    out = np.where(np.isfinite(known), finite + room, np.where(np.isneginf(known), -np.inf, np.inf))
    return np.where(answers.status == Status.INFEASIBLE, -np.inf, out)


def _tabled(rows: Rows) -> tuple[Rows, Any]:
    """Rows of a problem made of tables, and what completes assignments for it."""
    problem = rows.problem
    if problem.form is Form.RULES:
        observed = np.flatnonzero((rows.evidence != FREE).all(axis=0)).tolist()
        expansion: Expansion = expanded(problem, observed)
        hidden = np.full((len(rows), len(expansion.hidden)), FREE, dtype=rows.evidence.dtype)
        evidence = np.column_stack([rows.evidence, hidden])
        asked = Rows(expansion.problem, evidence, rows.potentials, rows.limits)
        return asked, expansion.tabled.completed
    if not problem.is_log_linear:
        raise MethodError(
            f"certificates need log-linear models of discrete variables; found {problem.form.value}"
        )
    return rows, lambda assignments: assignments


class _Sources:
    """The model files that the checker can read, as it reads them."""

    def __init__(self, path: Path, models: Sequence[Path | str]) -> None:
        self.files: dict[str, tuple[list[int], list[Table]]] = {}
        self.used: dict[str, None] = {}
        for model in map(Path, models):
            if model.suffix in READ:
                with suppress(Refused, OSError, ValueError, StopIteration):  # a dialect of its own
                    self.files[os.path.relpath(model, path.parent)] = read_model(model)

    def question(self, problem: Problem) -> dict[str, Any]:
        """The problem as the certificate states it: constraints are t <= q."""
        stated = []
        for constraint, function in zip(problem.constraints, problem.models[1:], strict=True):
            name = {"name": constraint.name} if constraint.name else {}
            stated.append({**name, "tables": self.tables(function)})
        question = {
            "cardinalities": list(problem.domain.cardinalities),
            "objective": self.tables(problem.models[0]),
            "constraints": stated,
        }
        return {**question, "files": list(self.used)}

    def tables(self, function: LogLinearModel) -> list[dict[str, Any]]:
        """A file, and tables that it does not hold; or tables alone."""
        factors = function.factors
        for name, (cards, tables) in self.files.items():
            is_same = list(function.cardinalities[: len(cards)]) == cards
            if tables and is_same and _begin(factors, tables):
                self.used[name] = None
                rest = factors[len(tables) :]
                return [{"file": name}, *(_table(f.scope, f.log_table) for f in rest)]
        return [_table(f.scope, f.log_table) for f in factors]


def _begin(factors: Sequence[Factor], tables: Sequence[Table]) -> bool:
    """Whether the factors begin with these tables."""
    return len(factors) >= len(tables) and all(
        factor.scope == tuple(reversed(table.offsets))
        and np.allclose(factor.log_table.ravel(), table.numbers, rtol=1e-14, atol=1e-14)
        for factor, table in zip(factors, tables, strict=False)
    )


def _table(scope: Sequence[int], table: Floats) -> dict[str, Any]:
    values = table.astype(np.float64).ravel().tolist()
    return {"scope": list(scope), "table": [x if x > -math.inf else None for x in values]}


def _row(rows: Rows, i: int) -> dict[str, Any]:
    """What is asked of a row."""
    evidence = rows.evidence[i]
    limits = rows.problem.limits if rows.limits is None else rows.limits[i]
    return {
        "evidence": [[int(v), int(evidence[v])] for v in np.flatnonzero(evidence != FREE)],
        "potentials": [_table(p.scope, p.values[i]) for p in rows.potentials],
        "limits": limits.tolist(),
    }


def _proof(proof: Proof, structures: dict[Clustering | None, int]) -> dict[str, Any]:
    """The proof of a row: of each cube what differs from the cube before."""
    cubes: list[dict[str, Any]] = []
    before: dict[int, Message] = {}
    splits: Where = ()
    for cube in proof.ordered():
        pairs = zip(splits, cube.where, strict=False)
        same = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
        stated = []
        for m, message in enumerate(cube.moved):
            if m not in before or not before[m].covers(message):
                stated.append([m, message.numbers.ravel().tolist()])
                before[m] = message
        splits = cube.where
        cubes.append({
            "same": same,
            "where": splits[same:],
            "multipliers": cube.multipliers.tolist(),
            "infeasible": cube.infeasible,
            "moved": stated,
        })  # fmt: skip
    return {
        "bound": proof.bound if math.isfinite(proof.bound) else None,
        "structure": structures.setdefault(proof.structure, len(structures)),
        "cubes": cubes,
    }


def _text(content: dict[str, Any]) -> str:
    """JSON with a line for each row."""
    *heads, (last, rows) = content.items()
    lines = ",\n ".join(map(json.dumps, rows))
    head = ",\n".join(f'"{key}": {json.dumps(value)}' for key, value in heads)
    return f'{{{head},\n"{last}": [\n {lines}\n]}}\n'
