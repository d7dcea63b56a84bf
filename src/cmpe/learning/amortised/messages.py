"""`MessagePass`: messages about one model (`kernels`), and the numbers that schedule them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cmpe.arrays import Assignments, Floats
from cmpe.core.schedules import Passed, PassSchedule, PassTables, message_passes, room_for
from cmpe.learning.losses.relaxation import floored
from cmpe.learning.settings import AMORTISED
from cmpe.models.conditioning import Conditioning
from cmpe.models.flat import FlatTables, ranges
from cmpe.models.loglinear import LogLinearModel
from cmpe.problem import Problem
from cmpe.solvers.local.graph import mean_spread, starts_of

NUMBERS = 18  # of a schedule
LEAN = 12  # which of them is how far answers lean over the limit


def schedule_of(numbers: Floats, rounds: int) -> PassSchedule:
    """The schedule of `NUMBERS` changes to a plain one.

    temperature   0, 1: its log, in the first round and how it changes to the last; 2, 3: by the row
    multipliers   7, 8, 15, 16: the log of their steps, likewise; 9: where they begin, 10, 11: by
                  the room of the uniform answer and the share of free variables
    damping       4, 5, 6, 17: its logit, likewise
    lean          12, 13, 14
    """
    along, a = np.linspace(0.0, 1.0, rounds), numbers
    plain = (
        np.linspace(np.log(AMORTISED.hot), np.log(AMORTISED.cold), rounds),
        np.full(rounds, AMORTISED.damping),
        along * 0.0,
    )
    places = (0, 1, 2, 3), (4, 5, 6, 17), (7, 8, 15, 16)
    parts = []
    for base, (first, change, by_share, by_price) in zip(plain, places, strict=True):
        by = np.tile([a[by_share], a[by_price]], (rounds, 1))
        parts.append(np.column_stack([base + a[first] + a[change] * along, by]))
    first_price = np.array([AMORTISED.price + a[9], a[10], a[11]])
    return PassSchedule(np.stack(parts), a[LEAN : LEAN + 3].copy(), first_price)


@dataclass(frozen=True)
class MessagePass:
    """Messages on the functions of one model, for rows of any mask."""

    model: PassTables
    functions: tuple[LogLinearModel, ...]  # h and every t, without -inf

    @classmethod
    def of(cls, problem: Problem, floor: float) -> MessagePass:
        """Of a problem's models; an entry of -inf is `floor` below the largest of its table."""
        models = tuple(floored(model, floor) for model in problem.models)
        structure = Conditioning(models, ())
        none = np.zeros((1, 0), dtype=np.int64)
        entries = np.stack([structure.tables(k, none)[0] for k in range(len(models))])
        return cls(_tables(structure.layout, entries, mean_spread(models[0])), models)

    def answers(self, schedule: PassSchedule, given: Assignments, limits: Floats) -> Passed:
        """To evidence (B, n), -1 where free, and q (m,) or (B, m)."""
        rows = np.ascontiguousarray(given, dtype=np.int64)
        asked = np.broadcast_to(limits, (len(rows), len(self.model.constant) - 1))
        q = np.ascontiguousarray(asked, dtype=np.float64)
        out = Passed(np.zeros(rows.shape, np.int32), np.zeros(q.shape), np.zeros(q.shape))
        message_passes(self.model, schedule, (rows, q), room_for(self.model), out)
        return out

    def weighted(self, weights: Floats) -> MessagePass:
        """Messages on one function alone: the sum of `weights` (F,) times the functions."""
        model, by = self.model, np.asarray(weights, dtype=np.float32)
        alone = model._replace(
            constant=by[None] @ model.constant,
            unary=np.tensordot(by[None], model.unary, 1),
            entries=by[None] @ model.entries,
            gram=weights[None] @ model.gram @ weights[:, None],
        )
        return MessagePass(alone, ())


def _tables(layout: FlatTables, entries: Floats, scale: float) -> PassTables:
    """Entries (F, E) of tables over all variables, those of one variable apart."""
    cards, arity = layout.cardinalities, np.diff(layout.starts)
    functions, n, width = len(entries), len(cards), int(cards.max(initial=1))
    unary = np.zeros((functions, n, width), dtype=np.float32)
    for t in np.flatnonzero(arity == 1):
        first, end = layout.offsets[t : t + 2]
        unary[:, layout.variables[layout.starts[t]], : end - first] = entries[:, first:end]
    sizes, joint = np.diff(layout.offsets), np.flatnonzero(arity > 1)
    owner = layout.variables[ranges(layout.starts[joint], arity[joint])]
    return PassTables(
        cards,
        entries[:, 0].astype(np.float32),
        unary,
        entries[:, ranges(layout.offsets[joint], sizes[joint])].astype(np.float32),
        starts_of(sizes[joint]),
        starts_of(arity[joint]),
        owner,
        starts_of(np.bincount(owner, minlength=n)),
        np.argsort(owner, kind="stable"),
        entries[:, 1:] @ entries[:, 1:].T / max(1, entries.shape[1] - 1),
        scale,
    )
