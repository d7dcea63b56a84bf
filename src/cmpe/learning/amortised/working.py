"""`Course`: what a run over questions has, however its weights come about: clock, looks, files."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cmpe.errors import InputError
from cmpe.formats.labels import models_digest
from cmpe.learning.amortised.config import AmortisedConfig
from cmpe.learning.amortised.questions import Subject, depths
from cmpe.learning.amortised.runs import AmortisedRun
from cmpe.learning.amortised.solver import AmortisedSolver
from cmpe.learning.runs import CHECKPOINT, Record, read_checkpoint, write_checkpoint, write_log
from cmpe.learning.training.fitting import Session

Held = tuple[Subject, Tensor, Tensor]  # a model, evidence and limits of questions that are held out


@dataclass
class Course(ABC):
    """One run on questions about one model, or about many in turns."""

    subjects: Sequence[Subject]
    config: AmortisedConfig
    session: Session
    records: list[Record] = field(default_factory=list)
    updates: int = field(default=0, init=False)  # steps that are over

    def __post_init__(self) -> None:
        self._before, self._begin = 0.0, time.monotonic()
        self._kept = self._begin

    # --- what kinds of work differ in ---

    @property
    @abstractmethod
    def total(self) -> int:
        """Steps of the whole run."""

    @abstractmethod
    def step(self) -> None:
        """One of them."""

    @abstractmethod
    def look(self) -> Record:
        """How rounded answers to questions that are held out fare."""

    @abstractmethod
    def weights(self) -> dict[str, Tensor]:
        """Of the network, as they are."""

    @abstractmethod
    def held(self) -> Iterable[Held]:
        """The questions that are held out."""

    @abstractmethod
    def state(self) -> dict[str, Tensor]:
        """What a resumed run needs."""

    @abstractmethod
    def restore(self, state: dict[str, Tensor]) -> None:
        """The inverse of `state`."""

    def schedules(self) -> Tensor | None:
        """Changes of the weights' schedule, where there are any."""
        return None

    def finish(self) -> None:
        """What is to be done when the last step is over."""
        return

    # --- what they share ---

    @property
    def spent(self) -> float:
        """Seconds, those of the runs that this one resumes included."""
        return self._before + time.monotonic() - self._begin

    @property
    def progress(self) -> float:
        """The share of the run that is over."""
        by_time = 0.0 if self.config.seconds is None else self.spent / self.config.seconds
        return min(1.0, max(self.updates / self.total, by_time))

    def train(self, stop: Callable[[], bool] = lambda: False) -> bool:
        """Step after step until the run is over (True), or until it is told to stop."""
        looked = int(self.progress * self.config.looks)
        while self.progress < 1.0 and not stop():
            self.step()
            due = int(self.progress * self.config.looks)
            if self.progress >= 1.0:
                self.finish()
            if due > looked:
                looked = due
                self._tell({"update": self.updates, "seconds": self.spent, **self.look()})
            if time.monotonic() - self._kept > 60.0 * self.session.checkpoint_minutes:
                self.keep()
        self.keep()
        return self.progress >= 1.0

    def _tell(self, record: Record) -> None:
        self.records.append({**record, "progress": self.progress})
        if self.session.out is not None:
            write_log(self.session.out, self.records)
        if self.session.progress is not None:
            self.session.progress(self.records[-1])

    def _about(self) -> dict[str, Any]:
        free = ("updates", "generations", "seconds")
        plain = {k: v for k, v in self.config.to_json().items() if k not in free}
        digest = models_digest(self.subjects[0].tables.problem)
        return {"models": digest, "settings": json.dumps(plain)}

    def keep(self) -> None:
        """Write the checkpoint and the run."""
        self._kept = time.monotonic()
        if self.session.out is None:
            return
        about = {"updates": self.updates, "seconds": self.spent,
                 "records": json.dumps(self.records)}  # fmt: skip
        write_checkpoint(self.session.out, self.state(), {**self._about(), **about})
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
        self.updates, self._before = int(about["updates"]), about["seconds"]
        self.records = json.loads(about["records"])
        self.restore(state)

    def run(self) -> AmortisedRun:
        """What a run directory holds of it."""
        problem = self.subjects[0].tables.problem
        every = torch.cat([depths(s.tables, x, q).flatten() for s, x, q in self.held()])
        depth = (float(every.min()), float(every.max())) if len(every) else (0.0, 1.0)
        digest = models_digest(problem) if len(self.subjects) == 1 else ""
        return AmortisedRun(
            self.config, digest, self.weights(), depth, self.updates, self.progress >= 1.0,
            problem.name, self.schedules(),
        )  # fmt: skip

    def solver(self) -> AmortisedSolver:
        """The network as a solver of the first model."""
        return AmortisedSolver(self.subjects[0].tables.problem, self.run())
