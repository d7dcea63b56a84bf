"""What a trained solver has cost, and after how many questions it has paid for itself.

A network costs rows, labels and training once, and then a pass (and what follows it) a row. Against
a method that takes s seconds a row, a solver of r seconds a row that cost c seconds pays for itself
after c / (s - r) rows, and never where r >= s.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from cmpe.arrays import Assignments
from cmpe.core.compiler import timing
from cmpe.errors import CmpeError
from cmpe.learning.settings import TRAINING
from cmpe.learning.solver import NeuralSolver
from cmpe.solution import Solutions
from cmpe.solvers.base import Limits
from cmpe.solvers.dispatch import answer

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
                f"{self.rows} rows drawn and taught in {self.taught:.1f} s, trained in "
                f"{self.trained:.1f} s; a row takes {_micro(self.alone)} alone, "
                f"{_micro(self.whole)} with repair and bound",
                *pays,
            ]
        )


def price_of(
    solver: NeuralSolver, evidence: Assignments, *, rows: int, taught: float, trained: float
) -> Price:
    """Measure the solver on some rows, and `exact` and `search` on a few."""
    problem, some = solver.problem, evidence[: TRAINING.priced_rows]
    alone = solver.with_stages(repair=False, certificate="none")
    others, limits = {}, Limits(seconds=TRAINING.compared_seconds)
    for name in OTHERS:
        try:
            call = partial(answer, problem, method=name, limits=limits)
            others[name] = _seconds(call, evidence[: TRAINING.compared_rows])
        except CmpeError:  # a kind of problem that it does not take
            continue
    pass_, whole = (_seconds(partial(s.solve, problem), some) for s in (alone, solver))
    return Price(rows, taught, trained, pass_, whole, others)


def _seconds(work: Callable[[Assignments], Solutions], rows: Assignments) -> float:
    """A row, after a call that may load and compile."""
    work(rows[:1])
    begin = timing.now()
    work(rows)
    return (timing.now() - begin) / max(1, len(rows))


def _micro(seconds: float) -> str:
    return f"{seconds * 1e6:.0f} µs" if seconds < 1e-2 else f"{seconds:.2g} s"


def _pays(name: str, rows: float) -> str:
    if math.isinf(rows):
        return f"{name} is as fast: it never pays against it"
    return f"it pays against {name} from {rows:,.0f} rows on"
