"""Repair and single moves on tensors: one move a row and a step, all rows of a batch at once.

The state is that of `core.moves`: every function is a channel of finite parts and,
where it has potentials of 0, a channel that counts its -inf entries, so that a move changes every
channel by a finite amount. A step looks at all moves of all rows and makes, in each row,

- where a constraint is broken: the move that loses least h per unit of violation; where no move
  lowers the violation the least bad one, whose undoing is barred for a while (tabu search);
- where all hold: the move that raises h most among those that break none.

Rows that are done leave the batch. Chains, exchanges and kicks are the compiled search's alone.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor

from cmpe.arrays import Assignments
from cmpe.tensor.device import INF
from cmpe.tensor.layout import Bags
from cmpe.tensor.settings import TENSOR
from cmpe.tensor.tables import WideTables

FORBIDDEN = 1e6  # The penalty of one -inf entry of h.
DROP = 1e-12  # The least fall of the penalty that counts as one.
# Limits lie this share of max(1, |q|) inside the tolerance: sums differ by less.
PADDING = 1e-9
# A smaller share of h's largest entry, or of 1000, is a rise that rounding could feign.
LEAST_GAIN = 1e-12


@dataclass(frozen=True)
class MoveState:
    """The rows still on their way; the last axis of every tensor is theirs."""

    number: Tensor  # (B,) of the row in its chunk
    values: Tensor  # (C, E, B): the channels' tables
    limits: Tensor  # (m, B)
    weights: Tensor  # (m, B): 1 / the mean spread of the constraint's tables
    gain: Tensor  # (B,): the least rise of h that counts as one
    z: Tensor  # (F, B)
    kept: Tensor  # (F, B): the least penalised assignment so far
    lowest: Tensor  # (B,): its penalty
    barred: Tensor  # (S, B): the step up to which a move is barred
    done: Tensor  # (B,)

    def take(self, rows: Tensor) -> MoveState:
        """Some of the rows."""
        return MoveState(*(getattr(self, f.name).index_select(-1, rows) for f in fields(self)))


class SingleMoves:
    """Which tables every move touches, and the steps over all moves."""

    def __init__(self, wide: WideTables) -> None:
        self._wide = wide
        finite = [f.is_finite for f in wide.instances.problem.functions]
        zeros = len(finite) - 1 + np.cumsum(~np.array(finite))
        self._zeros = [-1 if f else int(z) for f, z in zip(finite, zeros, strict=True)]
        order = np.argsort(wide.axis_variable, kind="stable")
        degree = np.bincount(wide.axis_variable, minlength=len(wide.cards))
        owner = np.repeat(np.arange(len(wide.cards)), wide.cards)
        value = np.arange(wide.slots) - wide.first[owner]
        first = np.concatenate([[0], np.cumsum(degree)])[owner]  # of the variable's axes
        lengths = degree[owner]
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        axis = order[np.repeat(first, lengths) + within]
        self.incidences = len(axis)
        self._axis, self._owner, self._value = (wide.index(a) for a in (axis, owner, value))
        self._move = wide.index(wide.axis_stride[axis] * np.repeat(value, lengths))[:, None]
        self._sums = Bags.of([np.arange(len(axis))], lengths, wide.device)
        self._table, self._variable = wide.index(wide.axis_table), wide.index(wide.axis_variable)
        self._stride = wide.index(wide.axis_stride)[:, None]
        self._first = wide.index(wide.first[:-1])[:, None]
        self._pauses = 3 + len(wide.cards) // 4

    @property
    def channels(self) -> int:
        """Finite parts and counts."""
        return max(len(self._zeros), max(self._zeros) + 1)

    def begin(self, rows: slice, z: Tensor) -> MoveState:
        """Stand at z (F, B)."""
        wide, problem = self._wide, self._wide.instances.problem
        given = wide.given(rows)
        counts = [(v == -INF).to(v) for v, c in zip(given, self._zeros, strict=True) if c >= 0]
        spreads = [wide.mean_spread(v) for v in given[1:]]
        finite = [torch.where(v == -INF, 0.0, v) for v in given]
        lanes = z.shape[1]
        padding = PADDING * np.maximum(1.0, np.abs(problem.limits))
        limits = wide.like.new_tensor(problem.limits + problem.tolerances - padding)
        largest = finite[0].abs().amax(0).clamp(min=1000.0)
        return MoveState(
            torch.arange(lanes, device=wide.device),
            torch.stack(finite + counts),
            limits.view(-1, 1).repeat(1, lanes),
            torch.cat([largest.new_zeros((0, lanes)), *(1.0 / s[None] for s in spreads)]),
            LEAST_GAIN * largest,
            z.clone(),
            z.clone(),
            wide.like.new_full((lanes,), INF),
            torch.zeros((wide.slots, lanes), dtype=torch.int64, device=wide.device),
            torch.zeros(lanes, dtype=torch.bool, device=wide.device),
        )  # fmt: skip

    def _look(self, state: MoveState) -> tuple[Tensor, Tensor]:
        """The channels' totals (C, B) and what every move adds to them (C, S, B)."""
        position = self._wide.positions(state.z)
        at = position.index_select(0, self._table)
        at -= self._stride * state.z.index_select(0, self._variable)
        index = at.index_select(0, self._axis) + self._move  # (incidences, B)
        here, totals, deltas = self._first + state.z, [], []
        for values in state.values:
            reach = self._sums.sum(values.gather(0, index))
            deltas.append(reach - reach.gather(0, here).index_select(0, self._owner))
            totals.append(values.gather(0, position).sum(0))
        return torch.stack(totals), torch.stack(deltas)

    def _penalty(self, state: MoveState, sums: Tensor) -> Tensor:
        """How far from feasible channels' sums (C, ..., B) are: 0 exactly where they are not."""
        away = torch.zeros_like(sums[0])
        if self._zeros[0] >= 0:
            away += FORBIDDEN * sums[self._zeros[0]]
        for j, zero in enumerate(self._zeros[1:]):
            over = state.weights[j] * (sums[j + 1] - state.limits[j])
            over = torch.where(over > DROP, over, 0.0)
            away += over if zero < 0 else torch.where(sums[zero] > 0.5, 0.0, over)
        return away

    def step(self, state: MoveState, number: int) -> MoveState:
        """One move in every row that is not done."""
        totals, delta = self._look(state)
        now = self._penalty(state, totals)
        after = self._penalty(state, totals[:, None] + delta)
        lower = now < state.lowest - DROP
        kept = torch.where(lower, state.z, state.kept)
        lowest = torch.where(lower, now, state.lowest)
        feasible = now == 0.0
        mend, ok = self._mend(state, number, (now, after, delta[0]), lowest)
        raised = torch.where((after == 0.0) & (delta[0] > state.gain), delta[0], -INF)
        most, climb = raised.max(0)
        slot = torch.where(feasible, climb, mend)
        going = ~state.done & torch.where(feasible, most > -INF, ok)
        owner = self._owner[slot][None]
        old = state.z.gather(0, owner)
        new = torch.where(going, self._value[slot][None], old)
        left = self._first[:, 0][owner] + old  # the slot that is left
        pause = 2 + (number * 7919 + left * 104729) % self._pauses
        until = torch.where(going & ~feasible, number + pause, state.barred.gather(0, left))
        return replace(
            state, z=state.z.scatter(0, owner, new), kept=kept, lowest=lowest,
            barred=state.barred.scatter(0, left, until), done=~going,
        )  # fmt: skip

    def _mend(
        self, state: MoveState, number: int, moves: tuple[Tensor, Tensor, Tensor], lowest: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The move of repair, and whether there is one."""
        now, after, gain = moves
        here = self._value[:, None] == state.z.index_select(0, self._owner)
        out = here | ((state.barred > number) & (after >= lowest - DROP))
        fall = now - after
        falls = (fall > DROP) & ~out
        ratio, best = torch.where(falls, -gain / torch.where(falls, fall, 1.0), INF).min(0)
        bad = after.masked_fill(out, INF)
        least = bad.amin(0)
        rescue = torch.where(bad == least, gain, -INF).argmax(0)
        return torch.where(ratio < INF, best, rescue), least < INF

    def walk(self, state: MoveState, steps: int, z: Tensor) -> None:
        """Move until nothing is gained, at most `steps` times; where rows end goes to z (F, B)."""
        for number in range(1, steps + 1):
            state = self.step(state, number)
            if number % TENSOR.rows_checked == 0 or number == steps:
                left = torch.nonzero(~state.done)[:, 0]
                if number == steps or not len(left):
                    break
                if 2 * len(left) < len(state.done):
                    self._leave(state, z)
                    state = state.take(left)
        self._leave(state, z)

    def _leave(self, state: MoveState, z: Tensor) -> None:
        feasible = self._penalty(state, self._look(state)[0]) < state.lowest
        ends = torch.where(feasible | (state.lowest == 0.0), state.z, state.kept)
        z.index_copy_(1, state.number, ends)


def walked(wide: WideTables, rows: Assignments, steps: int) -> Assignments:
    """Where repair and climbing from full assignments (B, n) end, as the device's sums judge it.

    At most `steps` moves per free variable.
    """
    starts = wide.starts(rows)
    found = wide.complete(starts, slice(None))
    if not wide.slots or not len(found):
        return found
    moves, most = SingleMoves(wide), steps * len(wide.cards)
    size = moves.channels * (wide.entries + 2 * wide.slots) + 3 * moves.incidences
    for part in wide.chunks(size + 6 * wide.slots):
        z = starts[:, part].clone()
        moves.walk(moves.begin(part, z), most, z)
        found[part] = wide.complete(z, part)
    return found
