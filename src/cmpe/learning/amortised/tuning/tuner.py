"""`Tuner`: messages whose schedule is tuned by what their answers are worth after repair.

Gradients follow a relaxed answer, which may be good where the rounded one is not. Message passing
that nobody has trained is near its best already, and has some numbers that matter: how temperature
and damping go from the first round to the last and depend on the share of free variables and on mu,
how far mu moves, where it begins, and how far its answers *lean* over the limit. The last one
matters most: single moves mend a violation by the cheapest changes, but rarely use up room that an
answer leaves, so answers that violate a little are the better ones after repair. An evolution
strategy (`evolution`) changes the numbers. A generation asks BLOCKS x LANES new questions; every
candidate answers them by the compiled pass, answers are repaired by single moves (with pairs a row
of 2,500 variables took 36 ms instead of 2), and the mean of h decides. It needs no labels, no
gradients and no GPU.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cmpe.arrays import Floats
from cmpe.compiling.vectors import LANES
from cmpe.learning.amortised.compiled import CompiledMessages
from cmpe.learning.amortised.networks import network_of
from cmpe.learning.amortised.teaching import selecting
from cmpe.learning.amortised.tuning.evolution import Evolution
from cmpe.learning.amortised.working import Course, Held
from cmpe.learning.runs import Record
from cmpe.problem import Instances
from cmpe.problem.groups import by_observed
from cmpe.solvers.local import improve

NUMBERS = 18  # that are tuned
FIRST_SIZE = 0.3  # of their changes
LEAN_AT, FIRST_LEAN = 12, 2.0  # which of them, and what it begins with; the others begin with 0
BLOCKS = 4  # masks of a generation
HELD = 8  # masks that are looked at
TUNING, LOOKING, DRAWING = 11, 12, 13  # generators, apart from those of other training
LOST = 10.0  # mean slopes that an answer loses where repair finds nothing feasible


@dataclass(frozen=True)
class SameMask:
    """Questions with one mask."""

    subject: int
    instances: Instances  # of the problem with a selector of limits
    given: Tensor  # (LANES, n)
    limits: Tensor  # (LANES, m)


def scheduled(weights: dict[str, Tensor], numbers: Floats) -> dict[str, Tensor]:
    """Weights of a message network with changes of its schedule; all 0: as it was."""
    out = {name: value.clone() for name, value in weights.items()}
    rounds = len(out["damping"])
    along = torch.linspace(0.0, 1.0, rounds)
    a = torch.as_tensor(numbers, dtype=torch.float32)
    out["log_temperature"] += a[0] + a[1] * along
    out["log_temperature_by"] += torch.stack([a[2], a[3]])
    out["damping"] += a[4] + a[5] * along
    out["damping_by"][:, 0] += a[6]
    out["price_step"] *= torch.exp(a[7] + a[8] * along)
    out["first_price"] += a[9]
    for name in ("first_in", "first_out"):
        out[name].zero_()
    out["first_in"][0, 0] = out["first_in"][1, 1] = 1.0  # the room, and the share of free ones
    out["first_out"][:2] = a[10:12]
    out["lean"] = a[LEAN_AT : LEAN_AT + 3].clone()
    out["price_step_by"] += a[15:17]
    out["damping_by"][:, 1] += a[17]
    return out


@dataclass
class Tuner(Course):
    """Generations of questions about one model, or about many in turns."""

    def __post_init__(self) -> None:
        super().__post_init__()
        first = self.subjects[0].tables
        self._start = dict(network_of(self.config, first).state_dict())
        self._passes = [CompiledMessages(s.tables, self._start) for s in self.subjects]
        middle = np.zeros(NUMBERS)
        middle[LEAN_AT] = FIRST_LEAN
        self.evolution = Evolution.around(middle, FIRST_SIZE)
        self._held = [self._block(k, LOOKING) for k in range(HELD)]
        self._known = [self._worth(block, self._start)[0] for block in self._held]
        if self.session.resume:
            self.resume()

    @property
    def total(self) -> int:
        """Generations of the whole run."""
        return self.config.generations

    def step(self) -> None:
        """One generation."""
        number = self.evolution.generation
        blocks = [self._block(number * BLOCKS + k, TUNING) for k in range(BLOCKS)]
        random = np.random.default_rng((self.config.seed, DRAWING, number))
        drawn = self.evolution.draw(random)
        losses = np.zeros(len(drawn))
        for block in blocks:
            tables = self.subjects[block.subject].tables
            worth = np.stack([self._worth(block, scheduled(self._start, a))[0] for a in drawn])
            known = np.where(np.isfinite(worth), worth, np.inf).min(0)
            least = np.where(np.isfinite(known), known, 0.0) - LOST * tables.scale
            losses -= np.where(np.isfinite(worth), worth, least).mean(1) / tables.scale
        self.evolution = self.evolution.after(drawn, losses)
        self.updates = self.evolution.generation

    def _block(self, number: int, kind: int) -> SameMask:
        """New questions with one mask."""
        turn = number % len(self.subjects)
        subject, maker = self.subjects[turn], self.subjects[turn].maker
        seed = np.random.SeedSequence((self.config.seed, kind, number)).generate_state(1)[0]
        random = torch.Generator().manual_seed(int(seed))
        ends = (0, subject.trained) if kind == TUNING else (subject.trained, len(subject.samples))
        low = min(ends[0], ends[1] - 1)
        chosen = torch.randint(low, ends[1], (LANES,), generator=random)
        given = subject.samples[chosen].masked_fill(~maker.masks(1, random), -1)
        limits = maker.limits_of(given, random)
        whole = selecting(subject.tables.problem, limits.double().numpy())
        rows = np.column_stack([given.numpy(), np.arange(LANES)]).astype(np.int32)
        [(instances, _)] = by_observed(whole, rows)
        return SameMask(turn, instances, given, limits)

    def _worth(self, block: SameMask, weights: dict[str, Tensor]) -> tuple[Floats, float]:
        """h of the repaired answers (LANES,), -inf where none is feasible; the share that had to be
        repaired."""
        passes, problem = self._passes[block.subject], block.instances.problem
        passes.use(weights, sure=True)
        said, _ = passes.predict(block.given.numpy(), block.limits.double().numpy())
        rows = np.column_stack([said, np.arange(LANES)]).astype(np.int32)
        broken = float((~problem.is_feasible(rows)).mean())
        found = improve(block.instances, rows, pair_moves=False, threads=self.session.threads)
        value = problem.objective.value(found)
        return np.where(problem.is_feasible(found), value, -np.inf), broken

    def look(self) -> Record:
        """What the tuned schedule gains beside the first one."""
        found = [self._worth(block, self.weights()) for block in self._held]
        now, known = np.concatenate([worth for worth, _ in found]), np.concatenate(self._known)
        both = np.isfinite(now) & np.isfinite(known)
        gain = float((now[both] - known[both]).mean()) if both.any() else 0.0
        violated = float(np.mean([broken for _, broken in found]))
        return {"loss": -gain, "gain": gain, "violated": violated, "questions": len(now),
                "size": self.evolution.size}  # fmt: skip

    def weights(self) -> dict[str, Tensor]:
        """Those in the middle of the distribution."""
        return scheduled(self._start, self.evolution.mean)

    def held(self) -> Iterable[Held]:
        """The questions that are held out."""
        return [(self.subjects[b.subject], b.given, b.limits) for b in self._held]

    def state(self) -> dict[str, Tensor]:
        """The distribution."""
        return {k: torch.as_tensor(np.asarray(v)) for k, v in vars(self.evolution).items()}

    def restore(self, state: dict[str, Tensor]) -> None:
        """The inverse of `state`."""
        parts = {name: value.numpy() for name, value in state.items()}
        size, generation = float(parts.pop("size")), int(parts.pop("generation"))
        self.evolution = Evolution(**parts, size=size, generation=generation)
