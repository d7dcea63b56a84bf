"""`cmpe.bound`: proved upper bounds on the best feasible objective of every row.

    bounds = cmpe.bound(problem, evidence, method="splitting", work=cmpe.Work(steps=200))
    bounds.upper          # (B,), never below the best feasible objective; -inf: infeasible

`BOUNDS` is the one list of bounds. The help of `cmpe bound`, the error of an unknown name, the
table in docs/wide.md and the tests read it.

To add a bound:

1. write `bounds/NAME.py` with a class that has `upper_bound(instances, work) -> Bounds`, and
   `tests/bounds/test_NAME.py`; import compiled code inside its functions;
2. add a function that makes it and a row to `BOUNDS` below. The tests in tests/test_bounding.py
   now compare it with brute force at several amounts of work;
3. add its row to the table in docs/wide.md, and its formula to docs/mathematics.md.

To let a bound run on a device, add a class with the same method to `tensor/bounds.py`, say how
near it comes to the compiled one, and set `on_device` of its row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from cmpe.bounds.settings import SETTINGS
from cmpe.errors import MethodError
from cmpe.problem import Form, need_problem
from cmpe.problem.rows import Limits, Potentials, Rows

if TYPE_CHECKING:  # the list is read by the help of the command line, which has to be quick
    from cmpe.arrays import Values
    from cmpe.bounds.base import Bounder, Bounds, Work
    from cmpe.execution import Workplace
    from cmpe.problem import Evidence, Instances, Problem

AUTO = "auto"
CPU = "cpu"


@dataclass(frozen=True)
class Setting:
    """What a bound may look at when it is made."""

    work: Work
    training: Sequence[Instances] = ()
    device: str = CPU


@dataclass(frozen=True)
class Bound:
    """One row of the list."""

    name: str
    about: str
    takes: tuple[Form, ...]
    make: Callable[[Setting], Bounder]
    on_device: Callable[[Setting], Bounder] | None = None  # None: the CPU only


def _lagrangian(setting: Setting) -> Bounder:
    from cmpe.bounds.lagrangian import Lagrangian

    return Lagrangian()


def _minibucket(setting: Setting) -> Bounder:
    from cmpe.bounds.minibucket import MiniBucket

    return MiniBucket()


def _splitting(setting: Setting) -> Bounder:
    from cmpe.bounds.splitting import Splitting

    return Splitting().fitted(setting.training, setting.work)


def _messages(setting: Setting) -> Bounder:
    from cmpe.bounds.messages import Messages

    return Messages()


def _knapsack(setting: Setting) -> Bounder:
    from cmpe.bounds.knapsack import Knapsack

    return Knapsack()


def _rlt(setting: Setting) -> Bounder:
    from cmpe.bounds.rlt import Rlt

    return Rlt()


def _spans(setting: Setting) -> Bounder:
    from cmpe.bounds.spans import Spans

    return Spans()


def _device_lagrangian(setting: Setting) -> Bounder:
    from cmpe.tensor.bounds import DeviceLagrangian

    return DeviceLagrangian(setting.device)


def _device_splitting(setting: Setting) -> Bounder:
    from cmpe.bounds.splitting import Splitting
    from cmpe.tensor.bounds import DeviceSplitting

    return DeviceSplitting(setting.device, Splitting().fitted(setting.training, setting.work))


_TABLES, _LEAVES = (Form.TABLES,), (Form.TABLES, Form.LEAVES)
_ROWS = (
    Bound("lagrangian", "the exact dual, by elimination", _LEAVES, _lagrangian, _device_lagrangian),
    Bound("minibucket", "mini-buckets, then cost shifting", _TABLES, _minibucket),
    Bound(
        "splitting", "strips that share copies of variables", _TABLES, _splitting, _device_splitting
    ),
    Bound("messages", "message passing (MPLP)", _TABLES, _messages),
    Bound("knapsack", "message passing, then a multiple-choice knapsack", _TABLES, _knapsack),
    Bound("rlt", "reformulation-linearisation in [0, 1]", (Form.CONTINUOUS,), _rlt),
    Bound("spans", "linear bounds of neural functions", (Form.OTHER,), _spans),
)
BOUNDS: dict[str, Bound] = {row.name: row for row in _ROWS}
ON_DEVICE = tuple(row.name for row in _ROWS if row.on_device)


def suitable(problem: Problem, device: str = CPU) -> list[str]:
    """The bounds that take this problem and run on this device."""
    form = problem.form
    return [r.name for r in _ROWS if form in r.takes and (device == CPU or r.on_device)]


def chosen(problem: Problem) -> str:
    """What `auto` is: lagrangian where elimination is cheap, else splitting; rlt in [0, 1]; spans
    where there are no tables."""
    from cmpe.bounds.lagrangian import lane_bytes

    form = problem.form
    if form is Form.TABLES:
        return "lagrangian" if lane_bytes(problem) <= SETTINGS.cheap_bytes else "splitting"
    return {Form.CONTINUOUS: "rlt", Form.OTHER: "spans"}.get(form, "lagrangian")


def bound(  # noqa: PLR0913
    problem: Problem,
    evidence: Evidence | None = None,
    *,
    method: str = AUTO,
    work: Work | None = None,
    training: Evidence | None = None,
    device: str = CPU,
    place: Workplace | None = None,
    potentials: Potentials | None = None,
    limits: Limits | None = None,
) -> Bounds:
    """Bound the best feasible objective of every row from above.

    Evidence is as in `solve`. `work` sets when to stop. `splitting` chooses its split by the
    bounds it measures on `training` rows that observe the same variables; bounds are valid with
    or without. On another device than "cpu" torch computes the bounds, all rows together; each
    class of `tensor.bounds` documents how close they are to the compiled ones. `place` is a cluster
    that blocks of rows go to, as in `cmpe.Running(executor="ray").place`. `potentials` and `limits`
    are as in `solve`; they stay on this machine, and exclude `training`.
    """
    from cmpe.bounds.base import Bounds, Work
    from cmpe.core.compiler.notices import asked_for
    from cmpe.problem.groups import by_observed

    need_problem(problem, "bound")
    check(method, device)
    own = Rows.own(problem, evidence, potentials, limits)
    if own is not None and len(own) and (own.has_numbers or place is None):
        if place is not None:
            raise MethodError(
                "bounds of rows with potentials or limits are computed on one machine"
            )
        return bound(
            own.lifted, own.numbered(own.evidence), method=method, work=work, device=device
        )
    evidence = evidence if own is None else own.evidence
    amount = work or Work()
    if device != CPU and amount.threads > 1:
        raise MethodError(f"threads are for device cpu, found {amount.threads} with {device!r}")
    if place is not None:
        return _spread(problem, evidence, (method, amount, training, device), place)
    known = by_observed(problem, training) if training is not None else []
    parts = by_observed(problem, evidence)
    out = Bounds.empty(sum(len(numbers) for _, numbers in parts), len(problem.constraints))
    for part, numbers in parts:
        observed = part.problem.evidence_variables
        rows = [rows for rows, _ in known if rows.problem.evidence_variables == observed]
        with asked_for("bounds"):
            found = _made(part.problem, method, Setting(amount, rows, device))
            out.put(numbers, found.upper_bound(part, amount))
    return out


def _spread(
    problem: Problem, evidence: Evidence | None, asked: tuple[Any, ...], place: Workplace
) -> Bounds:
    """The same from the cores of a cluster, block by block."""
    from cmpe.bounds.base import Bounds
    from cmpe.problem.groups import full_rows
    from cmpe.streams.spreading import spread

    rows = full_rows(problem, evidence)
    out = Bounds.empty(len(rows), len(problem.constraints))
    for where, part in spread(partial(_bound_block, *asked), problem, rows, place):
        out.put(np.arange(where.start, where.stop), part)
    return out


def _bound_block(
    method: str,
    work: Work,
    training: Evidence | None,
    device: str,
    problem: Problem,
    rows: Values,
) -> Bounds:
    return bound(problem, rows, method=method, work=work, training=training, device=device)


def check(method: str, device: str = CPU) -> None:
    """Refuse an unknown name, and a device that the bound cannot run on."""
    if method != AUTO and method not in BOUNDS:
        raise MethodError(
            f"the method must be one of {', '.join((*BOUNDS, AUTO))}; found {method!r}"
        )
    if device != CPU and method not in (*ON_DEVICE, AUTO):
        raise MethodError(
            f"only {', '.join(ON_DEVICE)} take a device, found {method!r} on {device!r}"
        )


def _made(problem: Problem, method: str, setting: Setting) -> Bounder:
    row, form = BOUNDS[chosen(problem) if method == AUTO else method], problem.form
    if form not in row.takes:
        others = [name for name in BOUNDS if form in BOUNDS[name].takes] or ["nothing"]
        raise MethodError(
            f"{row.name} bounds {' and '.join(f.value for f in row.takes)}; found {form.value}, "
            f"which {', '.join(others)} bounds"
        )
    if setting.device == CPU:
        return row.make(setting)
    check(row.name, setting.device)
    assert row.on_device is not None
    return row.on_device(setting)
