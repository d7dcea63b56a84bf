"""`answer`: the entry point behind `cmpe.solve`. Any evidence, any method, one answer per row.

Evidence is parsed and wrapped once. Rows that observe the same variables form a batch; many small
batches become one (`problem.patterns`) where elimination is cheap. Equal rows of a batch are
answered once. An option that the method cannot honour is refused, never dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import FREE, Indices, Values
from cmpe.core.compiler import timing
from cmpe.core.compiler.notices import asked_for
from cmpe.errors import Interrupted, MethodError
from cmpe.problem import Evidence, Form, Instances, Problem
from cmpe.problem.groups import by_observed, distinct_rows, full_rows
from cmpe.problem.patterns import Twins
from cmpe.problem.rows import Rows
from cmpe.problem.starts import check_start
from cmpe.solution import Solutions, Status
from cmpe.solvers import METHODS, method_named
from cmpe.solvers.base import Engine, Limits, Method, Solver
from cmpe.solvers.branches import Branches
from cmpe.solvers.settings import SOLVERS
from cmpe.solvers.spread import answer_spread
from cmpe.solvers.structures import answer_structure, structure_of

Chosen = str | Engine | Solver
BEYOND_TABLES = (Form.CONTINUOUS, Form.OTHER)


def answer(
    problem: Problem,
    evidence: Evidence | None = None,
    method: Chosen = "auto",
    limits: Limits | None = None,
    *,
    ignore_extra: bool = False,
) -> Solutions:
    """Answer every row of `evidence` with `method`: a name, or a solver (a trained one, say).

    `cmpe.solve` describes evidence and options; `limits` holds the options. An answer is never
    worse than its start.
    """
    limits = limits or Limits()
    lifts = _lifts(method, problem)
    if _may_recognise(method, limits) and structure_of(problem) is not None:
        rows = Rows(problem, full_rows(problem, evidence, ignore_extra=ignore_extra))
        return answer_rows(rows, method, limits)
    if limits.is_spread or lifts:
        rows = Rows(problem, full_rows(problem, evidence, ignore_extra=ignore_extra))
        if lifts and len(rows):
            return answer_rows(rows, method, limits)
        return answer_spread(answer_rows, rows, method, limits)
    engine = engine_of(method, problem, limits)
    shares = isinstance(method, str) and method_named(method).shares
    with asked_for(method if isinstance(method, str) else type(method).__name__):
        return _answer(engine, problem, evidence, limits.begun(1), shares, ignore_extra)


def answer_rows(rows: Rows, method: Chosen = "auto", limits: Limits | None = None) -> Solutions:
    """Answer rows with numbers of their own or under rules, each distinct row once.

    Engines are given the lifted problem, which has more variables.
    """
    limits = limits or Limits()
    if _may_recognise(method, limits) and (structure := structure_of(rows.problem)) is not None:
        refuse_options(method_named(str(method)), limits, rows.problem.form)
        found = answer_structure(rows, structure, limits)
        if found is not None:
            return found
    lifts = rows.has_numbers or _lifts(method, rows.problem)
    if not (lifts and len(rows)):
        return answer(rows.problem, rows.evidence, method, limits)
    if not isinstance(method, str | Engine):
        raise MethodError(
            "potentials, limits and inputs of rows go with a method by name or a trained network; "
            "found a solver of kind "
            f"{type(method).__name__}"
        )
    if limits.is_spread:
        return answer_spread(answer_rows, rows, method, limits)
    start = limits.start
    if start is not None and start.shape != rows.evidence.shape:
        raise MethodError(f"a start must have shape {rows.evidence.shape}, found {start.shape}")
    first, where, counts = rows.distinct(start)
    if len(first) == len(rows):
        return _answer_lifted(rows, method, limits)
    try:
        here = limits if start is None else replace(limits, start=start[first])
        return _shared(_answer_lifted(rows.take(first), method, here), where, counts)
    except Interrupted as stop:
        raise Interrupted(_shared(stop.solutions, where, counts), stop.finished) from None


def _may_recognise(method: Chosen, limits: Limits) -> bool:
    """Whether a method answers problems of a special structure by what fits it."""
    if not isinstance(method, str) or limits.is_spread or limits.start is not None:
        return False
    return method_named(method).recognises


def _lifts(method: Chosen, problem: Problem) -> bool:
    """Whether a method by name answers a problem under rules by tables only."""
    is_named = isinstance(method, str) and problem.form is Form.RULES
    return is_named and Form.RULES not in method_named(str(method)).engines


def _answer_lifted(rows: Rows, method: Chosen, limits: Limits) -> Solutions:
    """What the lifted problem's answers say of the rows."""
    if limits.start is not None:
        limits = replace(limits, start=rows.begun(limits.start))
    try:
        found = answer(rows.lifted, rows.numbered(rows.evidence), method, limits)
    except Interrupted as stop:
        raise Interrupted(Solutions.of_rows(rows, stop.solutions), stop.finished) from None
    return Solutions.of_rows(rows, found)


def _answer(
    engine: Engine,
    problem: Problem,
    evidence: Evidence | None,
    limits: Limits,
    shares: bool,
    ignore_extra: bool,
) -> Solutions:
    begin = timing.now()
    batches = by_observed(problem, evidence, ignore_extra=ignore_extra)
    rows = sum(len(numbers) for _, numbers in batches)
    if limits.seconds is not None:
        limits = replace(limits, until=limits.until + (rows - 1) * limits.seconds)
    _check_starts(batches, limits.start)
    if len(batches) > 1:
        shares &= (
            problem.is_log_linear and limits.start is None and len(batches) >= SOLVERS.many_sets
        )
        if shares:
            return _answer_as_one(engine, batches, limits, begin)
        return _answer_all(engine, batches, limits)
    instances = batches[0][0]
    seen = np.broadcast_to(_observed(instances), (len(instances), problem.variables))
    return replace(_answer_batch(engine, instances, limits), observed=seen)


def engine_of(method: Chosen, problem: Problem, limits: Limits) -> Engine:
    """The engine that answers a problem, after refusing what it cannot honour."""
    if isinstance(method, str):
        row = method_named(method)
        refuse_options(row, limits, problem.form)
        return _engine_for(row, problem)
    if isinstance(method, Engine):
        return method
    if not isinstance(method, Solver):
        raise MethodError(
            f"a method is a name, an engine or a solver; found {type(method).__name__}"
        )
    _refuse_for_solver(limits)
    return _Brought(method)


def refuse_options(method: Method, limits: Limits, form: Form = Form.TABLES) -> None:
    """Refuse, in one sentence, an option that a method cannot honour."""
    if limits.gap and not method.takes_gap:
        takers = _names(row for row in METHODS.values() if row.takes_gap)
        raise MethodError(
            f"only method {takers} takes a gap, found {method.name!r} with gap {limits.gap}"
        )
    if limits.device != "cpu" and (not method.takes_device or form in BEYOND_TABLES):
        where = " of problems made of tables" if form in BEYOND_TABLES else ""
        takers = _names(row for row in METHODS.values() if row.takes_device)
        raise MethodError(
            f"only method {takers}{where} and trained networks take a device; found "
            f"{method.name!r} with device {limits.device!r}"
        )


def _names(rows: Iterable[Method]) -> str:
    return " and ".join(row.name for row in rows)


def _engine_for(method: Method, problem: Problem) -> Engine:
    if problem.form in method.engines:
        return method.engines[problem.form]()
    problem.need_tables(f"method {method.name}")
    return Branches(method.engines[Form.TABLES]())


def _refuse_for_solver(limits: Limits) -> None:
    given = {
        "gap": limits.gap > 0,
        "workers": limits.workers > 1,
        "threads": limits.threads > 1,
        "device": limits.device != "cpu",
        "progress": limits.progress is not None,
        "memory": limits.memory is not None,
    }
    odd = [name for name, is_given in given.items() if is_given]
    if odd:
        raise MethodError(
            f"a solver of your own takes time_limit, seed and start; found {', '.join(odd)}: give "
            "it a method `answer(instances, limits)` to receive more options"
        )


@dataclass(frozen=True)
class _Brought:
    """A user's Solver as an engine."""

    solver: Solver

    def answer(self, instances: Instances, limits: Limits) -> Solutions:
        return self.solver.solve(
            instances.problem, instances.evidence, time_limit=limits.seconds, seed=limits.seed
        )


def _check_starts(batches: Sequence[tuple[Instances, Indices]], start: Values | None) -> None:
    if start is None:
        return
    total = sum(len(numbers) for _, numbers in batches)
    if len(start) != total:
        raise MethodError(f"a start must have {total} rows, found {len(start)}")
    for instances, numbers in batches:
        check_start(instances, start[numbers])


def _answer_batch(engine: Engine, instances: Instances, limits: Limits) -> Solutions:
    """Answer each distinct row once; equal rows share the answer and its time.

    Evidence sampled from a model repeats: nine in ten rows of some of the paper's test sets.
    Rows that begin from different starts are different rows.
    """
    if len(instances) < 2:
        return _asked(engine, instances, limits)
    start = limits.start
    given = [instances.evidence] if start is None else [instances.evidence, start]
    first, where, counts = distinct_rows(np.concatenate(given, axis=1))
    if len(first) == len(instances):
        return _asked(engine, instances, limits)
    here = limits if start is None else replace(limits, start=start[first])
    try:
        few = _asked(engine, instances.take(first), here)
    except Interrupted as stop:
        answered = stop.solutions.status != Status.UNKNOWN
        # Rows that were interrupted may have an answer, too.
        done = int(counts[answered].sum()) if answered.sum() == stop.finished else stop.finished
        raise Interrupted(_shared(stop.solutions, where, counts), done) from None
    return _shared(few, where, counts)


def _asked(engine: Engine, instances: Instances, limits: Limits) -> Solutions:
    """What an engine answers, or the start where that is better.

    After Ctrl-C all that is known; at least the start.
    """
    try:
        found = engine.answer(instances, limits)
    except KeyboardInterrupt as stop:
        problem, nothing = instances.problem, np.full((len(instances), 1), FREE)
        start = nothing if limits.start is None else limits.start[:, list(problem.free)]
        begun = instances.complete(start)
        known = Solutions.of(problem, begun, method="unfinished")
        if not isinstance(stop, Interrupted):
            raise Interrupted(known, 0) from None
        whole = stop.solutions.or_better(known)
        raise Interrupted(whole, stop.finished) from None
    return found if limits.start is None else _not_worse_than_start(found, instances, limits.start)


def _not_worse_than_start(found: Solutions, instances: Instances, start: Values) -> Solutions:
    """The answers; of each open row its start, where that is feasible and worth more."""
    open_rows = np.flatnonzero(~found.proved & (start >= 0).all(axis=1))
    if not len(open_rows):
        return found
    part, problem = found.take(open_rows), instances.problem
    begun = instances.take(open_rows).complete(start[open_rows][:, list(problem.free)])
    given = Solutions.of(problem, begun, bound=part.bound, method=part.method.tolist())
    return found.replaced(open_rows, part.or_better(replace(given, seconds=part.seconds)))


def _shared(few: Solutions, where: Indices, counts: Indices) -> Solutions:
    return replace(few, seconds=few.seconds / counts).take(where)


def _answer_as_one(
    engine: Engine, batches: Sequence[tuple[Instances, Indices]], limits: Limits, begin: float
) -> Solutions:
    """Answer many sets of observed variables by one plan, where that is less work than their own.

    What evidence and plan take from `begin` on is shared by all rows, also where the plan turns out
    to be too dear.
    """
    from cmpe.solvers.exact import seconds_of_elimination, too_wide

    twins = Twins.of(batches)
    problem, whole, rows = twins.problem, twins.instances.problem, len(twins.instances)
    apart = SOLVERS.preparation * problem.variables * len(batches)
    as_one = not too_wide(whole, limits) and rows * seconds_of_elimination(whole) <= apart
    if as_one:
        _ = whole.compiled_plan
    each = (timing.now() - begin) / rows
    if not as_one:
        found = _answer_all(engine, batches, limits)
        return replace(found, seconds=found.seconds + each)
    seen = twins.seen

    def told(answers: Solutions) -> Solutions:
        found = Solutions.of(
            problem,
            answers.assignments[:, : problem.variables],
            bound=answers.bound,
            infeasible=answers.status == Status.INFEASIBLE,
            method=answers.method.tolist(),
            seconds=answers.seconds + each,
        )
        return replace(found, observed=seen)

    try:
        return told(_answer_batch(engine, twins.instances, limits))
    except Interrupted as stop:
        raise Interrupted(told(stop.solutions), stop.finished) from None


def _answer_all(
    engine: Engine, batches: Sequence[tuple[Instances, Indices]], limits: Limits
) -> Solutions:
    """Answer each set of observed variables on its own; give the rows back in their order.

    What a set takes beyond its rows' seconds, its plan above all, is shared by its rows, where
    there are many sets. Loading compiled code, which shows as one set far above the others, is not.
    """
    total = sum(len(numbers) for _, numbers in batches)
    found: list[Solutions] = []
    beyond: list[float] = []
    done = 0
    for instances, numbers in batches:
        here = replace(
            limits,
            start=None if limits.start is None else limits.start[numbers],
            progress=_shifted(limits, done, total),
        )
        begin = timing.now()
        try:
            part = _answer_batch(engine, instances, here)
        except Interrupted as stop:
            rows = [numbers for _, numbers in batches]
            whole = _in_order(batches, [*found, stop.solutions], rows)
            raise Interrupted(whole, done + stop.finished) from None
        spent = timing.now() - begin
        beyond.append(max(0.0, spent - part.seconds.sum() / limits.cores))
        found.append(part)
        done += len(numbers)
    if len(batches) >= SOLVERS.many_sets:
        most = 4.0 * float(np.median(beyond))
        pairs = zip(found, beyond, strict=True)
        found = [replace(p, seconds=p.seconds + min(b, most) / len(p)) for p, b in pairs]
    return _in_order(batches, found, [numbers for _, numbers in batches])


def _in_order(
    batches: Sequence[tuple[Instances, Indices]], found: list[Solutions], rows: list[Indices]
) -> Solutions:
    """The answers of the batches as one, in the order of the rows; none where there is none yet."""
    problem = batches[0][0].problem
    for instances, _ in batches[len(found) :]:
        nothing = np.full((len(instances), problem.variables), FREE)
        found = [*found, Solutions.of(problem, nothing, method="unfinished")]
    order = np.argsort(np.concatenate(rows))
    seen = np.concatenate(
        [np.broadcast_to(_observed(i), (len(i), problem.variables)) for i, _ in batches]
    )
    return replace(Solutions.concatenate(found), observed=seen).take(order)


def _observed(instances: Instances) -> NDArray[np.bool_]:
    seen = np.zeros(instances.problem.variables, dtype=bool)
    seen[list(instances.problem.evidence_variables)] = True
    return seen


def _shifted(limits: Limits, done: int, total: int) -> Callable[[int, int], None]:
    return lambda finished, _: limits.report(done + finished, total)
