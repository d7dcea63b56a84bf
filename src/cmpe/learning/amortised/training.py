"""`fit_amortised`: one network for every question about a model, trained without labels.

Updates (`stepping`) lower ss_cmpe with contrast at the network's relaxed answers to questions that
are drawn all the time (`questions`). The rate falls as a cosine, the entropy bonus linearly, with
the share of the updates, or of the seconds, that is spent. A run continues where its checkpoint
ends.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cmpe.arrays import Assignments
from cmpe.errors import InputError, MethodError
from cmpe.formats.labels import models_digest
from cmpe.learning.amortised.annealing import Annealer
from cmpe.learning.amortised.config import AmortisedConfig
from cmpe.learning.amortised.networks import Said, network_of
from cmpe.learning.amortised.questions import Questions, Subject, depths, drawn
from cmpe.learning.amortised.runs import AmortisedRun
from cmpe.learning.amortised.solver import AmortisedSolver
from cmpe.learning.amortised.stepping import QuestionLoss, Stepper, adam_of
from cmpe.learning.amortised.teaching import search_answers
from cmpe.learning.amortised.tuning.tuner import Tuner
from cmpe.learning.runs import (
    CHECKPOINT,
    Record,
    locked,
    read_checkpoint,
    write_checkpoint,
    write_log,
)
from cmpe.learning.training.fitting import Session, interruptible, torch_threads
from cmpe.problem import Problem, need_problem

VALIDATING = 6  # the first kind of generators, apart from those of other training
WARM = 0.02  # the share of a run in which the rate rises
COOLING = 0.8  # the share of a run in which the entropy bonus falls to 0


def fit_amortised(
    problem: Problem,
    config: AmortisedConfig | None = None,
    session: Session | None = None,
    *,
    samples: Assignments | None = None,
) -> AmortisedSolver:
    """Train one network for any evidence and any q; `samples` of the objective save drawing them.

    What `config.questions` fixes is taken from the problem: its evidence variables or its limits.
    """
    need_problem(problem, "fit_amortised")
    if not problem.is_log_linear:
        raise MethodError(
            "a network for any question needs log-linear models of discrete variables"
        )
    settings, how = config or AmortisedConfig(), session or Session()
    with torch_threads(how.threads), locked(how.out):
        device = "cpu" if settings.tuned else how.device  # tuning runs on a core
        work = work_of([Subject.of(problem, settings, device, samples)], settings, how)
        with interruptible() as interrupted:
            finished = work.train(stop=interrupted)
        if not finished:
            where = f"; {how.out} holds what there is, --resume continues" if how.out else ""
            raise KeyboardInterrupt(f"stopped after {work.updates} updates{where}")
        return work.solver()


def work_of(
    subjects: Sequence[Subject], config: AmortisedConfig, session: Session
) -> AmortisedTraining | Tuner:
    """What a config asks for: updates by gradients, or generations of tuning."""
    kind = Tuner if config.tuned else AmortisedTraining
    return kind(subjects, config, session)


@dataclass
class AmortisedTraining:
    """One run over questions about one model, or about many in turns."""

    subjects: Sequence[Subject]
    config: AmortisedConfig
    session: Session
    records: list[Record] = field(default_factory=list)

    def __post_init__(self) -> None:
        first = self.subjects[0].tables
        self.network = network_of(self.config, first)
        self.adam = adam_of(self.network, self.config.learning_rate, first.device)
        loss = QuestionLoss(self.network, self.config, first.device)
        self._steppers = [Stepper(loss, self.adam, s.maker) for s in self.subjects]
        self._chunks: dict[int, tuple[int, Questions]] = {}
        self._orders: dict[int, Tensor] = {}
        self.updates, self._before, self._begin = 0, 0.0, time.monotonic()
        self._kept = self._begin
        self._held = self._held_out()
        self._taught = [self._teach(number) for number in range(len(self.subjects))]
        if self.session.resume:
            self._load()

    @property
    def spent(self) -> float:
        """Seconds, those of the runs that this one resumes included."""
        return self._before + time.monotonic() - self._begin

    @property
    def progress(self) -> float:
        """The share of the run that is over."""
        by_time = 0.0 if self.config.seconds is None else self.spent / self.config.seconds
        return min(1.0, max(self.updates / self.config.updates, by_time))

    def train(self, stop: Callable[[], bool] = lambda: False) -> bool:
        """Update until the run is over (True), or until it is told to stop."""
        looked = int(self.progress * self.config.looks)
        while (progress := self.progress) < 1.0 and not stop():
            loss = self._update(progress)
            due = int(self.progress * self.config.looks)
            if due > looked:
                looked = due
                self._look(loss)
            if time.monotonic() - self._kept > 60.0 * self.session.checkpoint_minutes:
                self.keep()
        self.keep()
        return self.progress >= 1.0

    def _update(self, progress: float) -> Tensor:
        """One step on questions about one of the models; its loss."""
        turn, number = divmod(self.updates, len(self.subjects))
        cool = max(0.0, 1.0 - progress / COOLING)
        loss = self._steppers[number].step(
            self._batch(number, turn), self.config.learning_rate * _rate(progress),
            self.config.temperature * cool,
        )  # fmt: skip
        self.updates += 1
        return loss

    def _batch(self, number: int, turn: int) -> Questions:
        """The questions of a model's turn. Those of a chunk are drawn at once, and used again and
        again in another order."""
        config, subject = self.config, self.subjects[number]
        piece, place = divmod(turn, config.chunk * config.reuse)
        count = config.chunk * config.batch_size
        random = self._generator(piece * len(self.subjects) + number, 0)
        if self._chunks.get(number, (-1,))[0] != piece:
            self._refresh(subject, piece)
            rows = torch.randint(subject.trained, (count,), generator=random, device=random.device)
            self._chunks[number] = piece, self._drawn(subject, subject.samples[rows], random)
        again, part = divmod(place, config.chunk)
        if part == 0 or number not in self._orders:
            random = self._generator(
                (piece * config.reuse + again) * len(self.subjects) + number, 2
            )
            self._orders[number] = torch.randperm(count, generator=random, device=random.device)
        here = self._orders[number][part * config.batch_size : (part + 1) * config.batch_size]
        batch = Questions(*(values[here] for values in self._chunks[number][1]))
        return batch if not config.taught else self._with_taught(batch, number, turn)

    def _drawn(self, subject: Subject, rows: Tensor, random: torch.Generator) -> Questions:
        """Questions about samples, with annealed answers where they are asked for."""
        asked = subject.maker.draw(rows, random)
        if not self.config.annealed:
            return asked
        high = subject.maker.ends(subject.tables.allowed(asked.given))[1]
        annealer = Annealer(subject.tables, self.config.annealed)
        answers = annealer.answers(asked.given, asked.limits, high, random)
        found = subject.maker.loss_if_feasible(answers, asked.shift, asked.limits)
        known = (answers >= 0).all(1)
        p_upper = torch.where(known, torch.minimum(asked.p_upper, found), asked.p_upper)
        return asked._replace(answers=answers, p_upper=p_upper)

    def _teach(self, number: int) -> Questions | None:
        """Questions about samples that are trained on, with answers of `search`."""
        config, subject = self.config, self.subjects[number]
        if not config.taught:
            return None
        random = self._generator(number, 3)
        rows = torch.randint(
            subject.trained, (config.taught,), generator=random, device=random.device
        )
        asked = subject.maker.draw(subject.samples[rows], random)
        given, limits = asked.given.cpu().numpy(), asked.limits.cpu().numpy()
        found = search_answers(
            subject.tables.problem, given, limits, config.teaching, seed=config.seed
        )
        return asked._replace(answers=torch.as_tensor(found).to(asked.given))

    def _with_taught(self, batch: Questions, number: int, turn: int) -> Questions:
        """A batch and, for four of its questions, one that is taught."""
        random, pool = self._generator(turn * len(self.subjects) + number, 4), self._taught[number]
        assert pool is not None
        count = (max(1, len(batch.given) // 4),)
        here = torch.randint(len(pool.given), count, generator=random, device=random.device)
        return Questions(*(torch.cat([a, b[here]]) for a, b in zip(batch, pool, strict=True)))

    def _refresh(self, subject: Subject, piece: int) -> None:
        """New samples of a model, where they are asked for and due."""
        due = piece // self.config.refresh if self.config.fresh else 0
        if due != subject.drawn:
            rows = drawn(subject.tables.problem, self.config, due)
            subject.samples.copy_(torch.as_tensor(rows, dtype=torch.int64))
            subject.drawn = due

    def _generator(self, number: int, kind: int) -> torch.Generator:
        seed = np.random.SeedSequence((self.config.seed, VALIDATING + kind, number))
        return torch.Generator(self.subjects[0].samples.device).manual_seed(
            int(seed.generate_state(1, np.uint64)[0] >> 1)
        )

    # --- looks, files ---

    def _held_out(self) -> list[tuple[Subject, Questions]]:
        held = []
        each = max(1, self.config.validation // len(self.subjects))
        for number, subject in enumerate(self.subjects[:8]):
            random = self._generator(number, 1)
            first, last = min(subject.trained, len(subject.samples) - 1), len(subject.samples)
            rows = torch.randint(first, last, (each,), generator=random, device=random.device)
            held.append((subject, subject.maker.draw(subject.samples[rows], random)))
        return held

    @torch.no_grad()
    def _look(self, loss: Tensor) -> None:
        if not bool(torch.isfinite(loss)):
            raise MethodError(
                f"the loss is not a number after {self.updates} updates; lower the learning rate"
            )
        record: Record = {"update": self.updates, "seconds": self.spent, "loss": float(loss)}
        record["questions"] = sum(len(asked.given) for _, asked in self._held)
        parts = [self._fared(subject, asked) for subject, asked in self._held]
        record |= {name: float(np.mean([part[name] for part in parts])) for name in parts[0]}
        self.records.append({**record, "progress": self.progress})
        if self.session.out is not None:
            write_log(self.session.out, self.records)
        if self.session.progress is not None:
            self.session.progress(self.records[-1])

    def _fared(self, subject: Subject, asked: Questions) -> dict[str, float]:
        """Rounded answers to questions that are not trained on."""
        tables = subject.tables
        reply: Said = self.network(tables, asked.given, asked.limits)
        values = tables.rounded(tables.points(reply.logits, tables.allowed(asked.given)))
        f = subject.maker.loss_if_feasible(values, asked.shift, asked.limits)
        fits = torch.isfinite(f)
        gain = (asked.p_upper - f)[fits]
        return {
            "violated": float((~fits).float().mean()),
            "gain": float(gain.mean()) if len(gain) else float("nan"),
            "alpha": float(asked.alpha(self.config.contrast, f).mean()),
        }

    def _about(self) -> dict[str, Any]:
        plain = {k: v for k, v in self.config.to_json().items() if k not in ("updates", "seconds")}
        return {
            "models": models_digest(self.subjects[0].tables.problem),
            "settings": json.dumps(plain),
        }

    def keep(self) -> None:
        """Write the checkpoint and the run."""
        self._kept = time.monotonic()
        if self.session.out is None:
            return
        state = {f"weights/{k}": v.cpu() for k, v in self.network.state_dict().items()}
        for number, moments in self.adam.state_dict()["state"].items():
            state |= {f"adam/{number}/{k}": torch.as_tensor(v).cpu() for k, v in moments.items()}
        about = {
            "updates": self.updates,
            "seconds": self.spent,
            "records": json.dumps(self.records),
        }
        write_checkpoint(self.session.out, state, {**self._about(), **about})
        self.run().write(self.session.out)

    def _load(self) -> None:
        out = self.session.out
        if out is None or not (Path(out) / CHECKPOINT).exists():
            raise InputError(f"{out}: nothing to resume: no {CHECKPOINT} there")
        state, about = read_checkpoint(out)
        for name, mine in self._about().items():
            if about.get(name) != mine:
                raise InputError(f"{out}: the checkpoint is of other {name}")
        self.updates, self._before = int(about["updates"]), about["seconds"]
        self.records = json.loads(about["records"])
        self.network.load_state_dict(
            {k.removeprefix("weights/"): v for k, v in state.items() if k.startswith("weights/")}
        )
        moments: dict[int, dict[str, Tensor]] = {}
        for name, value in state.items():
            kind, number, *which = name.split("/")
            if kind == "adam":
                moments.setdefault(int(number), {})["/".join(which)] = value
        self.adam.load_state_dict({**self.adam.state_dict(), "state": moments})

    def run(self) -> AmortisedRun:
        """What a run directory holds of it."""
        tables = self.subjects[0].tables
        weights = {k: v.detach().cpu().clone() for k, v in self.network.state_dict().items()}
        digest = models_digest(tables.problem) if len(self.subjects) == 1 else ""
        depth = _depths(self._held)
        return AmortisedRun(
            self.config, digest, weights, depth, self.updates, self.progress >= 1.0,
            tables.problem.name,
        )  # fmt: skip

    def solver(self) -> AmortisedSolver:
        """The network as a solver of the first model."""
        return AmortisedSolver(self.subjects[0].tables.problem, self.run())


def _depths(held: list[tuple[Subject, Questions]]) -> tuple[float, float]:
    every = torch.cat([depths(t.tables, a.given, a.limits).flatten() for t, a in held])
    return (float(every.min()), float(every.max())) if len(every) else (0.0, 1.0)


def _rate(progress: float) -> float:
    """Of the learning rate: up in a line, down as a cosine."""
    return min(progress / WARM + 0.05, 0.5 * (1.0 + math.cos(math.pi * progress)))
