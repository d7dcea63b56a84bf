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
gradients and no GPU. In the end some more schedules are chosen that complement the tuned one
(`portfolio`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cmpe.arrays import Assignments, Floats
from cmpe.core.lanes import LANES
from cmpe.learning.amortised.compiled import CompiledMessages
from cmpe.learning.amortised.networks import network_of
from cmpe.learning.amortised.teaching import selecting
from cmpe.learning.amortised.tuning.evolution import Evolution
from cmpe.learning.amortised.tuning.portfolio import candidates, complements
from cmpe.learning.amortised.tuning.schedules import LEAN, NUMBERS, scheduled
from cmpe.learning.amortised.working import Course, Held
from cmpe.learning.runs import Record
from cmpe.problem import Instances
from cmpe.problem.groups import by_observed
from cmpe.solvers.local import improve
from cmpe.solvers.local.mixing import mixed

FIRST_SIZE = 0.3  # of changes of numbers
FIRST_LEAN = 2.0  # the other numbers begin with 0
BLOCKS = 4  # masks of a generation
HELD = 8  # masks that are looked at
EVERY, BEST = 10, 4  # of every tenth generation the four best candidates are kept, to choose from
CHOOSING = 8  # masks that schedules are chosen on
TUNING, LOOKING, DRAWING, CHOICE, POOL = 11, 12, 13, 14, 15  # generators, apart from other ones
LOST = 10.0  # mean slopes that an answer loses where repair finds nothing feasible


@dataclass(frozen=True)
class SameMask:
    """Questions with one mask."""

    subject: int
    instances: Instances  # of the problem with a selector of limits
    given: Tensor  # (LANES, n)
    limits: Tensor  # (LANES, m)


@dataclass
class Tuner(Course):
    """Generations of questions about one model, or about many in turns."""

    def __post_init__(self) -> None:
        super().__post_init__()
        first = self.subjects[0].tables
        self._start = dict(network_of(self.config, first).state_dict())
        self._passes = [CompiledMessages(s.tables, self._start) for s in self.subjects]
        middle = np.zeros(NUMBERS)
        self._held = [self._block(k, LOOKING) for k in range(HELD)]
        self._known = [self._worth(block, middle[None])[0] for block in self._held]
        middle[LEAN] = FIRST_LEAN
        self.evolution = Evolution.around(middle, FIRST_SIZE)
        self._earlier, self._chosen = np.zeros((0, NUMBERS)), np.zeros((0, NUMBERS))
        if self.session.resume:
            self.resume()

    @property
    def total(self) -> int:
        """Generations of the whole run."""
        return self.config.generations

    def step(self) -> None:
        """One generation."""
        number, self._chosen = self.evolution.generation, np.zeros((0, NUMBERS))
        blocks = [self._block(number * BLOCKS + k, TUNING) for k in range(BLOCKS)]
        random = np.random.default_rng((self.config.seed, DRAWING, number))
        drawn = self.evolution.draw(random)
        losses = np.zeros(len(drawn))
        for block in blocks:
            tables = self.subjects[block.subject].tables
            worth = np.stack([self._worth(block, a[None])[0] for a in drawn])
            known = np.where(np.isfinite(worth), worth, np.inf).min(0)
            least = np.where(np.isfinite(known), known, 0.0) - LOST * tables.scale
            losses -= np.where(np.isfinite(worth), worth, least).mean(1) / tables.scale
        if number % EVERY == 0:
            best = np.argsort(losses, kind="stable")[:BEST]
            self._earlier = np.concatenate([self._earlier, drawn[best]])
        self.evolution = self.evolution.after(drawn, losses)
        self.updates = self.evolution.generation

    def _block(self, number: int, kind: int) -> SameMask:
        """New questions with one mask."""
        turn = number % len(self.subjects)
        subject, maker = self.subjects[turn], self.subjects[turn].maker
        seed = np.random.SeedSequence((self.config.seed, kind, number)).generate_state(1)[0]
        random = torch.Generator().manual_seed(int(seed))
        ends = (0, subject.trained) if kind != LOOKING else (subject.trained, len(subject.samples))
        low = min(ends[0], ends[1] - 1)
        chosen = torch.randint(low, ends[1], (LANES,), generator=random)
        given = subject.samples[chosen].masked_fill(~maker.masks(1, random), -1)
        limits = maker.limits_of(given, random)
        whole = selecting(subject.tables.problem, limits.double().numpy())
        rows = np.column_stack([given.numpy(), np.arange(LANES)]).astype(np.int32)
        [(instances, _)] = by_observed(whole, rows)
        return SameMask(turn, instances, given, limits)

    def finish(self) -> None:
        """Choose the schedules that are kept."""
        random = np.random.default_rng((self.config.seed, POOL))
        pool = candidates(self.evolution, self._earlier, random)
        if self.config.schedules == 1:
            pool = pool[:1]
        blocks = [self._block(k, CHOICE) for k in range(CHOOSING if len(pool) > 1 else 0)]
        answers = [[self._moved(block, a)[0] for block in blocks] for a in pool]
        asked, threads = [block.instances for block in blocks], self.session.threads
        self._chosen = pool[complements(asked, answers, self.config.schedules, threads)]

    def _moved(self, block: SameMask, numbers: Floats) -> tuple[Assignments, float]:
        """Answers of a schedule after single moves, with the selector: (LANES, n + 1); the share
        that had to be repaired."""
        passes, problem = self._passes[block.subject], block.instances.problem
        passes.use(scheduled(self._start, torch.as_tensor(numbers)), sure=True)
        said, _ = passes.predict(block.given.numpy(), block.limits.double().numpy())
        rows = np.column_stack([said, np.arange(LANES)]).astype(np.int32)
        broken = float((~problem.is_feasible(rows)).mean())
        return improve(block.instances, rows, sweeps=0, threads=self.session.threads), broken

    def _worth(self, block: SameMask, schedules: Floats) -> tuple[Floats, float]:
        """h of the mixed answers of schedules (K, NUMBERS), -inf where none is feasible: (LANES,);
        the share of the first one's answers that had to be repaired."""
        problem = block.instances.problem
        every = [self._moved(block, numbers) for numbers in schedules]
        found = every[0][0]
        if len(every) > 1:
            rows = [answers for answers, _ in every]
            found = mixed(block.instances, rows, trades=1, threads=self.session.threads)
        value = problem.objective.value(found)
        return np.where(problem.is_feasible(found), value, -np.inf), every[0][1]

    def look(self) -> Record:
        """What the tuned schedules gain beside the first one."""
        found = [self._worth(block, self.schedules().numpy()) for block in self._held]
        now, known = np.concatenate([worth for worth, _ in found]), np.concatenate(self._known)
        both = np.isfinite(now) & np.isfinite(known)
        gain = float((now[both] - known[both]).mean()) if both.any() else 0.0
        violated = float(np.mean([broken for _, broken in found]))
        return {"loss": -gain, "gain": gain, "violated": violated, "questions": len(now),
                "size": self.evolution.size}  # fmt: skip

    def weights(self) -> dict[str, Tensor]:
        """Those that schedules change."""
        return self._start

    def schedules(self) -> Tensor:
        """Those that were chosen; before that the middle of the distribution."""
        return torch.as_tensor(self._chosen if len(self._chosen) else self.evolution.mean[None])

    def held(self) -> Iterable[Held]:
        """The questions that are held out."""
        return [(self.subjects[b.subject], b.given, b.limits) for b in self._held]

    def state(self) -> dict[str, Tensor]:
        """The distribution, what there is to choose from, and what was chosen."""
        plain = {k: torch.as_tensor(np.asarray(v)) for k, v in vars(self.evolution).items()}
        both = {"earlier": self._earlier, "chosen": self._chosen}
        return {**plain, **{name: torch.as_tensor(rows) for name, rows in both.items()}}

    def restore(self, state: dict[str, Tensor]) -> None:
        """The inverse of `state`."""
        parts = {name: value.numpy() for name, value in state.items()}
        self._earlier, self._chosen = parts.pop("earlier"), parts.pop("chosen")
        size, generation = float(parts.pop("size")), int(parts.pop("generation"))
        self.evolution = Evolution(**parts, size=size, generation=generation)
