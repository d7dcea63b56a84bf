"""Training of a stack of members, epoch by epoch.

One seed decides everything: the start of the weights, the split, and the order of every epoch,
which depends on the seed and the epoch's number alone, so a run resumes to the same weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cmpe.arrays import Floats
from cmpe.errors import MethodError
from cmpe.learning.settings import TRAINING
from cmpe.learning.training.config import MEMBER_FIELDS, TrainingConfig
from cmpe.learning.training.data import TrainingData
from cmpe.learning.training.looking import JudgedAnswers, Look, Rows, judge, together
from cmpe.learning.training.optimizer import Plateau
from cmpe.learning.training.step import MEASURES, Program


@dataclass(frozen=True)
class Epoch:
    """What one epoch did, per member (M,); `look` where the validation rows were read."""

    number: int  # from 1
    measures: dict[str, Floats]
    rates: Floats
    look: Look | None
    kept: NDArray[np.bool_]  # whose weights of now the network would have


class Trainer:
    """A stack of members on its way through the epochs."""

    def __init__(
        self,
        data: TrainingData,
        configs: Sequence[TrainingConfig],
        splits: Sequence[tuple[Rows, Rows]],
        *,
        device: str = "cpu",
        fresh: Callable[[int], TrainingData] | None = None,
        module: nn.Module | None = None,
    ) -> None:
        """`fresh` gives the last rows of `data` anew for every epoch but the first."""
        _check_alike(configs, data)
        self._fresh, self._drawn = fresh, 0
        self.data, self.configs, self.config = data, tuple(configs), configs[0]
        self.splits = tuple(splits)
        most = max(len(train) for train, _ in splits)
        if not most:
            raise MethodError("training needs at least one row to train on, found none")
        self._batch = min(self.config.batch_size, most)
        self.steps = -(-most // self._batch)
        if any(-(-len(train) // self._batch) != self.steps for train, _ in splits):
            raise MethodError("members of one stack must have equally many batches of rows")
        if not data.usable[np.concatenate([train for train, _ in splits])].any():
            raise MethodError("training needs a feasible row, found only infeasible ones")
        self.program = Program(data, configs, device, module)
        self.program.batch = self._batch
        factors = [c.plateau_factor for c in configs]
        self.plateau = Plateau(factors, self.config.plateau_patience, self.program.device)
        self.epoch = self.position = 0  # epochs done; steps done of the next one
        self._best = self.program.adam.flat.clone()
        self._best_score = np.full(len(configs), np.inf)
        self._stale = np.zeros(len(configs))

    @property
    def is_done(self) -> bool:
        """Whether all epochs are done, or every member has stopped improving."""
        patience = self.config.patience
        stopped = patience > 0 and bool((self._stale >= patience).all())
        return self.epoch >= self.config.epochs or stopped

    def epochs(self, interrupted: Callable[[], bool] = lambda: False) -> Iterator[Epoch]:
        """Train on until done, or until `interrupted` says so between two steps."""
        yield from (epoch for epoch in self.steps_on(interrupted) if epoch is not None)

    def steps_on(self, interrupted: Callable[[], bool] = lambda: False) -> Iterator[Epoch | None]:
        """The same step by step: None after a step, after the last one what the epoch did.

        Several trainers can so take turns on one GPU.
        """
        while not self.is_done:
            in_dual = self._begin_epoch()
            while self.position < self.steps:
                if interrupted():
                    return
                self.program.step(self.position, dual=in_dual)
                self.position += 1
                yield None
            yield self._finish_epoch()

    def _begin_epoch(self) -> bool:
        """Load the examples; whether it is the dual network's turn."""
        program, dual = self.program, self.program.dual
        self._renew()
        program.load_epoch(*self.order(), self.position)
        program.temperature.copy_(self.temperatures())
        if dual is not None and not self.position:
            dual.begin(self.epoch)
        return dual is not None and dual.is_dual(self.epoch)

    def _renew(self) -> None:
        """The drawn rows of this epoch, in the place of the last one's."""
        if self._fresh is None or self._drawn == self.epoch:
            return
        part = self._fresh(self.epoch)
        self.program.rewrite(len(self.data) - len(part), part)
        self._drawn = self.epoch

    def temperatures(self) -> Tensor:
        """Of the entropy bonus: falls linearly to 0 over the first `cooling` of the epochs."""
        c = self.config
        left = max(0.0, 1.0 - self.epoch / max(1.0, c.cooling * c.epochs))
        first = torch.tensor([[c.temperature] for c in self.configs])
        return first * self.program.tensors.scale * left

    def _cooling(self) -> float:
        """What the learning rate is multiplied by after this epoch, so that it ends near 0."""
        left = self.config.epochs - self.epoch
        begun = left <= self.config.cooldown * self.config.epochs
        return (left - 1) / left if begun and left > 1 else 1.0

    def order(self) -> tuple[Tensor, Tensor]:
        """The examples of an epoch and their shares: (M, steps B)."""
        size, margins = self.steps * self._batch, self.data.margins.shape[1]
        rows = np.full((len(self.configs), size), len(self.data))  # no row: it counts 0
        turn = (np.arange(size) + self.epoch) % margins
        weight = np.zeros(rows.shape)
        orders: dict[tuple[int, int], Rows] = {}  # members of one seed and split share theirs
        for k, (config, (train, _)) in enumerate(zip(self.configs, self.splits, strict=True)):
            which = (config.seed, id(train))
            if which not in orders:
                generator = np.random.default_rng([config.seed, 1 + self.epoch])
                orders[which] = generator.permutation(train)
            order = orders[which]
            rows[k, : len(order)] = order
            weight[k, : len(order)] = self.data.usable[order, turn[: len(order)]]
        ids = rows * margins + turn
        batches = weight.reshape(len(ids), self.steps, -1)
        shares = batches / np.maximum(batches.sum(-1, keepdims=True), 1.0)
        weights = shares.reshape(weight.shape).astype(np.float32)
        return torch.from_numpy(ids), torch.from_numpy(weights)

    def _finish_epoch(self) -> Epoch:
        """Adapt rates and lambda, look at the validation rows."""
        program, steps = self.program, self.steps
        in_dual = program.dual is not None and program.dual.is_dual(self.epoch)
        measured = steps if in_dual else -(-steps // TRAINING.measure_every)
        sums, losses = program.sums / measured, program.losses / steps
        if not in_dual:
            self.plateau.see(losses, program.adam.rates)
        program.adam.rates.mul_(self._cooling())
        if program.dual is not None:
            over = sums[:, MEASURES.index("excess")]
            program.dual.grow(self.epoch, over, program.examples.penalty)
        values = sums.double().cpu().numpy()
        measures = {"loss": losses.double().cpu().numpy()}
        measures |= {name: values[:, i] for i, name in enumerate(MEASURES)}
        with np.errstate(invalid="ignore", divide="ignore"):  # NaN where every bound is missing
            measures["alpha"] = measures["alpha"] / measures["alpha_known"]
        rates = program.adam.rates[:, 0].double().cpu().numpy()
        self.epoch, self.position = self.epoch + 1, 0
        before, look = self._best_score, self._look()
        kept = (self._best_score < before) | (not self.config.keep_best)
        return Epoch(self.epoch, measures, rates, look, kept)

    def _look(self) -> Look | None:
        c = self.config
        last = self.epoch >= c.epochs
        if self.epoch % c.evaluate_every and not last:
            return None
        if any(not len(held) for _, held in self.splits):
            return None
        asked = [m for m in c.margins if m >= 0.0] if c.passes > 1 else [0.0]
        look = together([self.judge(margin) for margin in asked]).look()
        better = look.score < self._best_score
        self._best_score = np.where(better, look.score, self._best_score)
        self._stale = np.where(better, 0.0, self._stale + 1.0)
        chosen = torch.as_tensor(better, device=self.program.device).unsqueeze(-1)
        self._best.copy_(torch.where(chosen, self.program.adam.flat, self._best))
        return look

    def finish(self) -> None:
        """Go back to the weights of the best look, where the config says so."""
        if self.config.keep_best and np.isfinite(self._best_score).all():
            with torch.no_grad():
                self.program.adam.flat.copy_(self._best)

    def look(self, margin: float, rows_of: Sequence[Rows] | None = None) -> Look:
        """Read each member's rows (default: its validation rows) when asked to keep `margin`."""
        return self.judge(margin, rows_of).look()

    def judge(self, margin: float, rows_of: Sequence[Rows] | None = None) -> JudgedAnswers:
        """The same row by row."""
        parts = [held for _, held in self.splits] if rows_of is None else rows_of
        return judge(self.program, margin, parts)

    def state(self) -> dict[str, Tensor]:
        """Everything that a later run needs to continue to the same weights."""
        own = {
            **self._places(),
            "epoch": torch.tensor(self.epoch),
            "position": torch.tensor(self.position),
            "score": torch.from_numpy(self._best_score),
            "stale": torch.from_numpy(self._stale),
        }
        return {name: value.detach().cpu().clone() for name, value in own.items()}

    @torch.no_grad()
    def load_state(self, kept: dict[str, Tensor]) -> None:
        """Continue from `state()` of a run with the same data and configs."""
        mine = self._places()
        if set(kept) != {*mine, "epoch", "position", "score", "stale"} or any(
            kept[name].shape != value.shape for name, value in mine.items()
        ):
            raise MethodError("the checkpoint is of another network, problem or set of rows")
        self.epoch, self.position = int(kept["epoch"]), int(kept["position"])
        if self.position:
            self._renew()
        for name, value in mine.items():
            value.copy_(kept[name])
        self.program.examples.refresh()
        self._best_score, self._stale = kept["score"].numpy().copy(), kept["stale"].numpy().copy()

    def _places(self) -> dict[str, Tensor]:
        """The tensors of a checkpoint, in their places."""
        program = self.program
        parts = {"adam": program.adam.state(), "plateau": self.plateau.state()}
        if program.dual is not None:
            parts["dual"] = program.dual.state()
        return {
            "sums": program.sums, "losses": program.losses, "best": self._best,
            "p_upper": program.examples.p_upper, "penalty": program.examples.penalty,
            **{f"{part}.{k}": v for part, state in parts.items() for k, v in state.items()},
            **{f"module.{name}": value for name, value in program.buffers.items()},
        }  # fmt: skip


def _check_alike(configs: Sequence[TrainingConfig], data: TrainingData) -> None:
    """Members of one stack share everything but MEMBER_FIELDS."""
    if not configs:
        raise MethodError("a stack needs at least one config, found none")
    first = configs[0]
    known = tuple(np.unique(data.margins).tolist())
    if set(known) - set(first.margins) or (not first.rows and len(known) < len(first.margins)):
        raise MethodError(f"the data has margins {known}, not {first.margins}")
    if len({math.isinf(c.beta) for c in configs}) > 1:
        raise MethodError("members of one stack are all piecewise (beta inf) or all smooth")
    for config in configs[1:]:
        same = {name: getattr(first, name) for name in MEMBER_FIELDS}
        if replace(config, **same) != first:
            raise MethodError(
                f"members of one stack may differ only in {', '.join(sorted(MEMBER_FIELDS))}"
            )
