"""`fit_amortised`: messages whose schedule is tuned by the value of their answers after repair.

An evolution strategy (`evolution`) changes the numbers of a schedule (`messages.schedule_of`). A
generation draws BLOCKS x LANES new questions. Every candidate answers them, answers are repaired by
single moves (with pairs a row of 2,500 variables took 36 ms instead of 2), and the mean of h
decides. It needs neither labels nor gradients. The number that matters most is how far answers
*lean* over the limit: single moves mend a violation by the cheapest changes but rarely use up the
room that an answer leaves, so answers that violate a little are better after repair.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cmpe.arrays import Assignments, Floats
from cmpe.core.lanes import LANES
from cmpe.errors import InputError, MethodError
from cmpe.formats.labels import models_digest
from cmpe.learning.amortised.config import AmortisedConfig
from cmpe.learning.amortised.evolution import Evolution
from cmpe.learning.amortised.messages import LEAN, NUMBERS, schedule_of
from cmpe.learning.amortised.questions import Subject, selecting
from cmpe.learning.amortised.runs import AmortisedRun
from cmpe.learning.amortised.solver import AmortisedSolver
from cmpe.learning.runs import (
    CHECKPOINT,
    Record,
    locked,
    read_checkpoint,
    write_checkpoint,
    write_log,
)
from cmpe.learning.settings import AMORTISED
from cmpe.learning.training.fitting import Session, interruptible
from cmpe.problem import Instances, Problem, need_problem
from cmpe.problem.groups import by_observed
from cmpe.solvers.local import improve

TUNING, LOOKING, CHANGING, DRAWING = 11, 12, 13, 14  # generators, apart from other ones


def fit_amortised(
    problem: Problem,
    config: AmortisedConfig | None = None,
    session: Session | None = None,
    *,
    samples: Assignments | None = None,
) -> AmortisedSolver:
    """Tune one network for any evidence and any q; `samples` of the objective save drawing them.

    What `config.questions` fixes is taken from the problem: its evidence variables or its limits.
    """
    need_problem(problem, "fit_amortised")
    if not problem.is_log_linear:
        raise MethodError(
            "a network for any question needs log-linear models of discrete variables"
        )
    settings, how = config or AmortisedConfig(), session or Session()
    if how.device != "cpu":
        raise MethodError(
            f"a network for any question is tuned on the CPU, found device {how.device!r}"
        )
    with locked(how.out):
        work = Tuner(Subject.of(problem, settings, samples), settings, how)
        with interruptible() as interrupted:
            finished = work.train(stop=interrupted)
        if not finished:
            where = f"; {how.out} holds what there is, --resume continues" if how.out else ""
            raise KeyboardInterrupt(f"stopped after {work.generation} generations{where}")
        return work.solver()


@dataclass(frozen=True)
class SameMask:
    """Questions with one mask."""

    instances: Instances  # of the problem with a selector of limits
    given: Assignments  # (LANES, n)
    limits: Floats  # (LANES, m)


@dataclass
class Tuner:
    """Generations of questions about one model; its clock and files."""

    subject: Subject
    config: AmortisedConfig
    session: Session
    records: list[Record] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._before = 0.0
        middle = np.zeros(NUMBERS)
        self._held = [self._block(k, LOOKING) for k in range(AMORTISED.held)]
        self._plain = [self._worth(block, middle)[0] for block in self._held]
        middle[LEAN] = AMORTISED.first_lean
        self.evolution = Evolution.around(middle, AMORTISED.first_size)
        if self.session.resume:
            self.resume()
        self._begin = self._kept = time.monotonic()

    # --- generations ---

    @property
    def generation(self) -> int:
        """How many are over."""
        return self.evolution.generation

    def step(self) -> None:
        """One generation."""
        number = self.generation
        blocks = [
            self._block(number * AMORTISED.blocks + k, TUNING) for k in range(AMORTISED.blocks)
        ]
        drawn = self.evolution.draw(np.random.default_rng((self.config.seed, CHANGING, number)))
        losses, scale = np.zeros(len(drawn)), self.subject.passes.model.scale
        for block in blocks:
            worth = np.stack([self._worth(block, numbers)[0] for numbers in drawn])
            best = np.where(np.isfinite(worth), worth, np.inf).min(0)
            least = np.where(np.isfinite(best), best, 0.0) - AMORTISED.lost * scale
            losses -= np.where(np.isfinite(worth), worth, least).mean(1) / scale
        self.evolution = self.evolution.after(drawn, losses)

    def _block(self, number: int, kind: int) -> SameMask:
        """New questions with one mask."""
        subject = self.subject
        random = np.random.default_rng((self.config.seed, kind, number))
        ends = (0, subject.trained) if kind != LOOKING else (subject.trained, len(subject.samples))
        chosen = random.integers(min(ends[0], ends[1] - 1), ends[1], LANES)
        given = np.where(subject.maker.mask(random), subject.samples[chosen], -1)
        limits = subject.maker.limits(given, random)
        rows = np.column_stack([given, np.arange(LANES)]).astype(np.int32)
        [(instances, _)] = by_observed(selecting(subject.problem, limits), rows)
        return SameMask(instances, given, limits)

    def _worth(self, block: SameMask, numbers: Floats) -> tuple[Floats, float]:
        """h of the answers of a schedule after single moves, -inf where none is feasible: (LANES,);
        the share of answers that had to be repaired."""
        passes, problem = self.subject.passes, block.instances.problem
        schedule = schedule_of(numbers, self.config.steps)
        answers = passes.answers(schedule, block.given, block.limits).values
        rows = np.column_stack([answers, np.arange(LANES)]).astype(np.int32)
        broken = float((~problem.is_feasible(rows)).mean())
        rows = improve(block.instances, rows, sweeps=0, threads=self.session.threads)
        value = problem.objective.value(rows)
        return np.where(problem.is_feasible(rows), value, -np.inf), broken

    def look(self) -> Record:
        """What the tuned schedule gains beside the plain one, on questions that are held out."""
        found = [self._worth(block, self.evolution.mean) for block in self._held]
        now, plain = np.concatenate([worth for worth, _ in found]), np.concatenate(self._plain)
        both = np.isfinite(now) & np.isfinite(plain)
        gain = float((now[both] - plain[both]).mean()) if both.any() else 0.0
        violated = float(np.mean([broken for _, broken in found]))
        return {"gain": gain, "violated": violated, "questions": len(now),
                "size": self.evolution.size}  # fmt: skip

    # --- clock, log, files ---

    @property
    def spent(self) -> float:
        """Seconds, those of the runs that this one resumes included."""
        return self._before + time.monotonic() - self._begin

    @property
    def progress(self) -> float:
        """The share of the run that is over."""
        by_time = 0.0 if self.config.seconds is None else self.spent / self.config.seconds
        return min(1.0, max(self.generation / self.config.generations, by_time))

    def train(self, stop: Callable[[], bool] = lambda: False) -> bool:
        """Generation after generation until the run is over (True), or until `stop` says so."""
        looked = int(self.progress * AMORTISED.looks)
        while self.progress < 1.0 and not stop():
            self.step()
            due = int(self.progress * AMORTISED.looks)
            if due > looked:
                looked = due
                self._report({"update": self.generation, "seconds": self.spent, **self.look()})
            if time.monotonic() - self._kept > 60.0 * self.session.checkpoint_minutes:
                self.keep()
        self.keep()
        return self.progress >= 1.0

    def _report(self, record: Record) -> None:
        self.records.append({**record, "progress": self.progress})
        if self.session.out is not None:
            write_log(self.session.out, self.records)
        if self.session.progress is not None:
            self.session.progress(self.records[-1])

    def _about(self) -> dict[str, Any]:
        free = ("generations", "seconds")
        plain = {k: v for k, v in self.config.to_json().items() if k not in free}
        digest = models_digest(self.subject.problem)
        return {"models": digest, "settings": json.dumps(plain)}

    def keep(self) -> None:
        """Write the checkpoint and the run."""
        self._kept = time.monotonic()
        if self.session.out is None:
            return
        state = {k: torch.as_tensor(np.asarray(v)) for k, v in vars(self.evolution).items()}
        about = {**self._about(), "seconds": self.spent, "records": json.dumps(self.records)}
        write_checkpoint(self.session.out, state, about)
        self.run().write(self.session.out)

    def resume(self) -> None:
        """Go on where the checkpoint ends."""
        out = self.session.out
        if out is None or not (Path(out) / CHECKPOINT).exists():
            raise InputError(f"{out}: nothing to resume: no {CHECKPOINT} there")
        state, about = read_checkpoint(out)
        for name, mine in self._about().items():
            if about.get(name) != mine:
                raise InputError(f"{out}: the checkpoint is of other {name}")
        self._before, self.records = about["seconds"], json.loads(about["records"])
        parts: dict[str, Any] = {name: value.numpy() for name, value in state.items()}
        size, generation = float(parts.pop("size")), int(parts.pop("generation"))
        self.evolution = Evolution(**parts, size=size, generation=generation)

    def run(self) -> AmortisedRun:
        """What a run directory holds of it."""
        problem = self.subject.problem
        return AmortisedRun(
            self.config, models_digest(problem), self._schedules(), self._rooms(), self.generation,
            self.progress >= 1.0, problem.name,
        )  # fmt: skip

    def _schedules(self) -> Floats:
        """The tuned one, and wide draws, which answer otherwise: (SCHEDULES, NUMBERS)."""
        random = np.random.default_rng((self.config.seed, DRAWING))
        drawn = self.evolution.wider(AMORTISED.wider).draw(random, AMORTISED.schedules - 1)
        return np.concatenate([self.evolution.mean[None], drawn])

    def _rooms(self) -> tuple[float, float]:
        """Least and most room of the questions that are held out."""
        plain, passes = schedule_of(np.zeros(NUMBERS), 1), self.subject.passes
        every = [passes.answers(plain, b.given, b.limits).rooms.ravel() for b in self._held]
        rooms = np.concatenate(every)
        return (float(rooms.min()), float(rooms.max())) if len(rooms) else (0.0, 1.0)

    def solver(self) -> AmortisedSolver:
        """The network as a solver."""
        return AmortisedSolver(self.subject.problem, self.run())
