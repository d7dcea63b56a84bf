"""`fit_amortised`: one network for every question about a model, trained without labels.

Updates (`stepping`) lower ss_cmpe with contrast at the network's relaxed answers to questions that
are drawn all the time (`questions`). The rate falls as a cosine, the entropy bonus linearly, with
the share of the updates, or of the seconds, that is spent. A run continues where its checkpoint
ends.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from cmpe.arrays import Assignments
from cmpe.errors import MethodError
from cmpe.learning.amortised.annealing import Annealer
from cmpe.learning.amortised.config import AmortisedConfig
from cmpe.learning.amortised.networks import Said, network_of
from cmpe.learning.amortised.questions import Questions, Subject, drawn
from cmpe.learning.amortised.solver import AmortisedSolver
from cmpe.learning.amortised.stepping import QuestionLoss, Stepper, adam_of
from cmpe.learning.amortised.teaching import search_answers
from cmpe.learning.amortised.tuning.tuner import Tuner
from cmpe.learning.amortised.working import Course, Held
from cmpe.learning.runs import Record, locked
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


def work_of(subjects: Sequence[Subject], config: AmortisedConfig, session: Session) -> Course:
    """What a config asks for: updates by gradients, or generations of tuning."""
    kind = Tuner if config.tuned else AmortisedTraining
    return kind(subjects, config, session)


@dataclass
class AmortisedTraining(Course):
    """Updates by gradients."""

    def __post_init__(self) -> None:
        super().__post_init__()
        first = self.subjects[0].tables
        self.network = network_of(self.config, first)
        self.adam = adam_of(self.network, self.config.learning_rate, first.device)
        loss = QuestionLoss(self.network, self.config, first.device)
        self._steppers = [Stepper(loss, self.adam, s.maker) for s in self.subjects]
        self._chunks: dict[int, tuple[int, Questions]] = {}
        self._orders: dict[int, Tensor] = {}
        self._loss = torch.zeros(())
        self._held = self._held_out()
        self._taught = [self._teach(number) for number in range(len(self.subjects))]
        if self.session.resume:
            self.resume()

    @property
    def total(self) -> int:
        """Updates of the whole run."""
        return self.config.updates

    def step(self) -> None:
        """One update by questions about one of the models."""
        progress = self.progress
        turn, number = divmod(self.updates, len(self.subjects))
        cool = max(0.0, 1.0 - progress / COOLING)
        self._loss = self._steppers[number].step(
            self._batch(number, turn), self.config.learning_rate * _rate(progress),
            self.config.temperature * cool,
        )  # fmt: skip
        self.updates += 1

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
    def look(self) -> Record:
        """How rounded answers to questions that are held out fare; the last loss."""
        if not bool(torch.isfinite(self._loss)):
            raise MethodError(
                f"the loss is not a number after {self.updates} updates; lower the learning rate"
            )
        record: Record = {"loss": float(self._loss)}
        record["questions"] = sum(len(asked.given) for _, asked in self._held)
        parts = [self._fared(subject, asked) for subject, asked in self._held]
        return record | {name: float(np.mean([part[name] for part in parts])) for name in parts[0]}

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

    def weights(self) -> dict[str, Tensor]:
        """Of the network, as they are."""
        return {k: v.detach().cpu().clone() for k, v in self.network.state_dict().items()}

    def held(self) -> Iterable[Held]:
        """The questions that are held out."""
        return [(subject, asked.given, asked.limits) for subject, asked in self._held]

    def state(self) -> dict[str, Tensor]:
        """Weights, and the moments of the optimiser."""
        state = {f"weights/{k}": v.cpu() for k, v in self.network.state_dict().items()}
        for number, moments in self.adam.state_dict()["state"].items():
            state |= {f"adam/{number}/{k}": torch.as_tensor(v).cpu() for k, v in moments.items()}
        return state

    def restore(self, state: dict[str, Tensor]) -> None:
        """The inverse of `state`."""
        self.network.load_state_dict(
            {k.removeprefix("weights/"): v for k, v in state.items() if k.startswith("weights/")}
        )
        moments: dict[int, dict[str, Tensor]] = {}
        for name, value in state.items():
            kind, number, *which = name.split("/")
            if kind == "adam":
                moments.setdefault(int(number), {})["/".join(which)] = value
        self.adam.load_state_dict({**self.adam.state_dict(), "state": moments})


def _rate(progress: float) -> float:
    """Of the learning rate: up in a line, down as a cosine."""
    return min(progress / WARM + 0.05, 0.5 * (1.0 + math.cos(math.pi * progress)))
