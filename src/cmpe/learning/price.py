"""The cost of a trained solver, and the number of rows after which it has paid for itself.

A network costs rows, labels and training once, and then a pass (and what follows it) a row. Against
a method that takes s seconds a row, a solver of r seconds a row that cost c seconds pays for itself
after c / (s - r) rows, and never where r >= s.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from numpy.typing import NDArray

from cmpe.arrays import Assignments
from cmpe.core.compiler import timing
from cmpe.errors import CmpeError
from cmpe.learning.settings import TRAINING
from cmpe.learning.solver import NeuralSolver
from cmpe.problem.rows import Rows
from cmpe.solution import Solutions
from cmpe.solvers.base import Limits
from cmpe.solvers.dispatch import answer_rows

OTHERS = ("exact", "search")


@dataclass(frozen=True)
class Price:
    """Seconds on this machine."""

    rows: int  # trained on
    taught: float  # drawing, labels and bounds
    trained: float
    alone: float  # a row, by the network without repair and bound
    whole: float  # a row, with them
    others: Mapping[str, float]  # a row, by method

    def break_even(self, other: str) -> float:
        """Rows after which the network with all its stages is cheaper than `other`; inf: never."""
        saved = self.others[other] - self.whole
        return (self.taught + self.trained) / saved if saved > 0.0 else math.inf

    def to_json(self) -> dict[str, Any]:
        """Plain values, with the break-even numbers; null for never."""
        pays = {name: self.break_even(name) for name in self.others}
        known = {k: v if math.isfinite(v) else None for k, v in pays.items()}
        return {**asdict(self), "others": dict(self.others), "break_even": known}

    def sentence(self) -> str:
        """The same for people."""
        pays = [_pays(name, self.break_even(name)) for name in self.others]
        return "; ".join(
            [
                f"{self.rows} rows drawn and labelled in {self.taught:.1f} s, trained in "
                f"{self.trained:.1f} s; a row takes {_micro(self.alone)} alone, "
                f"{_micro(self.whole)} with repair and bound",
                *pays,
            ]
        )


def price_of(
    solver: NeuralSolver,
    evidence: Assignments,
    *,
    rows: int,
    taught: float,
    trained: float,
    inputs: NDArray[Any] | None = None,
) -> Price:
    """Measure the solver on some rows, and `exact` and `search` on a few."""

    def part(count: int) -> NDArray[Any] | None:
        return None if inputs is None else inputs[:count]

    def by_solver(asked: NeuralSolver, count: int) -> Solutions:
        return asked.predict(evidence[:count], inputs=part(count))

    def by_method(name: str, count: int) -> Solutions:
        asked = Rows.of(solver.problem, evidence[:count], inputs=part(count))
        return answer_rows(asked, name, Limits(seconds=TRAINING.compared_seconds))

    few = min(TRAINING.compared_rows, len(evidence))
    some = min(TRAINING.priced_rows, len(evidence))
    others = {}
    for name in OTHERS:
        with suppress(CmpeError):  # a kind of problem that it does not take
            others[name] = _seconds(partial(by_method, name), few)
    alone = solver.with_stages(repair=False, certificate="none")
    pass_, whole = (_seconds(partial(by_solver, each), some) for each in (alone, solver))
    return Price(rows, taught, trained, pass_, whole, others)


def _seconds(work: Callable[[int], Solutions], rows: int) -> float:
    """A row, after a call that may load and compile."""
    work(1)
    begin = timing.now()
    work(rows)
    return (timing.now() - begin) / max(1, rows)


def _micro(seconds: float) -> str:
    return f"{seconds * 1e6:.0f} µs" if seconds < 1e-2 else f"{seconds:.2g} s"


def _pays(name: str, rows: float) -> str:
    if math.isinf(rows):
        return f"{name} is as fast: it never pays against it"
    return f"it pays against {name} from {rows:,.0f} rows on"
