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
from torch import Tensor

from cmpe.arrays import Floats
from cmpe.errors import MethodError
from cmpe.learning.training.config import MEMBER_FIELDS, TrainingConfig
from cmpe.learning.training.data import TrainingData
from cmpe.learning.training.distributed import Ranks
from cmpe.learning.training.optimizer import Plateau
from cmpe.learning.training.step import MEASURE_EVERY, MEASURES, Program
from cmpe.problem import Instances

Rows = NDArray[np.intp]
VIOLATION_PRICE = 0.1  # a violated answer counts as one that is 10 % of the mean f off
LOOK = 1024  # validation rows that are read together


@dataclass(frozen=True)
class Look:
    """How rounded answers to validation rows fare: one number per member (M,)."""

    regret: Floats  # mean over the feasible ones, in nats
    violation: Floats  # share of violated ones
    score: Floats  # regret, with VIOLATION_PRICE for a violated row: what early stopping reads
    dependence: Floats  # mean standard deviation of an output over the rows


@dataclass(frozen=True)
class Epoch:
    """What one epoch did, per member (M,); `look` where the validation rows were read."""

    number: int  # from 1
    measures: dict[str, Floats]
    rates: Floats
    look: Look | None


class Trainer:
    """A stack of members on its way through the epochs."""

    def __init__(
        self,
        data: TrainingData,
        configs: Sequence[TrainingConfig],
        splits: Sequence[tuple[Rows, Rows]],
        *,
        device: str = "cpu",
        ranks: Ranks | None = None,
    ) -> None:
        _check_alike(configs, data)
        self.data, self.configs, self.config = data, tuple(configs), configs[0]
        self.splits, self.ranks = tuple(splits), ranks or Ranks()
        most = max(len(train) for train, _ in splits)
        if not most:
            raise MethodError("training needs at least one row to train on, found none")
        self._whole_batch = min(self.config.batch_size, most)
        if self.ranks.size > 1:
            self._whole_batch = self.config.batch_size
        self.steps = -(-most // self._whole_batch)
        if any(-(-len(train) // self._whole_batch) != self.steps for train, _ in splits):
            raise MethodError("members of one stack must have equally many batches of rows")
        if not data.usable[np.concatenate([train for train, _ in splits])].any():
            raise MethodError("training needs a feasible row, found only infeasible ones")
        self.program = Program(data, configs, device)
        share = self.ranks.share_of(self._whole_batch)
        self.program.batch = share.stop - share.start
        self.program.reduce = self.ranks.add_up
        factors = [c.plateau_factor for c in configs]
        self._plateau = Plateau(factors, self.config.plateau_patience, self.program.device)
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

        Several trainers can so take turns on one GPU. Several processes ask each other between
        two epochs only: they must stop together.
        """
        alone = self.ranks.size == 1
        while not self.is_done:
            if not alone and self.ranks.any(interrupted()):
                return
            in_dual = self._begin_epoch()
            while self.position < self.steps:
                if alone and interrupted():
                    return
                self.program.step(self.position, dual=in_dual)
                self.position += 1
                yield None
            yield self._finish_epoch()

    def _begin_epoch(self) -> bool:
        """Load the examples; whether it is the dual network's turn."""
        program, dual = self.program, self.program.dual
        program.load_epoch(*self._order(), self.position)
        program.temperature.fill_(self._temperature())
        program.begin_mixing(self.epoch >= self.config.mix_after * self.config.epochs)
        if dual is not None and not self.position:
            dual.begin(self.epoch)
        return dual is not None and dual.is_dual(self.epoch)

    def _temperature(self) -> float:
        """Of the entropy bonus: falls linearly to 0 over the first `cooling` of the epochs."""
        c = self.config
        left = max(0.0, 1.0 - self.epoch / max(1.0, c.cooling * c.epochs))
        return c.temperature * self.program.tensors.scale * left

    def _cooling(self) -> float:
        """What the learning rate is multiplied by after this epoch, so that it ends near 0."""
        left = self.config.epochs - self.epoch
        begun = left <= self.config.cooldown * self.config.epochs
        return (left - 1) / left if begun and left > 1 else 1.0

    def _order(self) -> tuple[Tensor, Tensor]:
        """The examples of an epoch and their shares: (M, steps B) on this process."""
        size, margins = self.steps * self._whole_batch, len(self.data.margins)
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
        mine = self.ranks.share_of(self._whole_batch)
        parts = (ids.reshape(batches.shape)[..., mine], shares[..., mine].astype(np.float32))
        both = tuple(torch.from_numpy(p.reshape(len(ids), -1).copy()) for p in parts)
        return both[0], both[1]

    def _finish_epoch(self) -> Epoch:
        """Merge the processes, adapt rates and lambda, look at the validation rows."""
        program, steps = self.program, self.steps
        in_dual = program.dual is not None and program.dual.is_dual(self.epoch)
        measured = steps if in_dual else -(-steps // MEASURE_EVERY)
        for numbers in (program.sums, program.losses):
            self.ranks.add_up(numbers)
        self.ranks.merge(program.examples)
        sums, losses = program.sums / measured, program.losses / steps
        sums[:, MEASURES.index("gradient_norm")] /= self.ranks.size
        if not in_dual:
            self._plateau.see(losses, program.adam.rates)
        program.adam.rates.mul_(self._cooling())
        if program.dual is not None:
            limit, over = self.config.penalty_limit, sums[:, MEASURES.index("excess")]
            program.dual.grow(self.epoch, over, program.examples.penalty, limit)
        values = sums.double().cpu().numpy()
        measures = {"loss": losses.double().cpu().numpy()}
        measures |= {name: values[:, i] for i, name in enumerate(MEASURES)}
        known = measures.pop("alpha_known")
        with np.errstate(invalid="ignore", divide="ignore"):
            measures["alpha"] = measures["alpha"] / known  # NaN where every bound is missing
        rates = program.adam.rates[:, 0].double().cpu().numpy()
        self.epoch, self.position = self.epoch + 1, 0
        return Epoch(self.epoch, measures, rates, self._look())

    def _look(self) -> Look | None:
        c = self.config
        last = self.epoch >= c.epochs
        if self.epoch % c.evaluate_every and not last:
            return None
        if any(not len(held) for _, held in self.splits):
            return None
        look = self.look(0.0)
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

    @torch.no_grad()
    def look(self, margin: float, rows_of: Sequence[Rows] | None = None) -> Look:
        """Read each member's rows (default: its validation rows) when asked to keep `margin`."""
        program, problem = self.program, self.data.problem
        parts = [held for _, held in self.splits] if rows_of is None else rows_of
        most = max(map(len, parts))
        ids = np.stack([np.resize(part, most) for part in parts])
        counts = np.arange(most) < np.array([[len(part)] for part in parts])
        f, violated = np.zeros(ids.shape), np.zeros(ids.shape, dtype=bool)
        moments = torch.zeros((2, len(ids), program.relaxation.coordinates.count))
        moments = moments.to(program.device)
        for start in range(0, most, LOOK):
            rows = torch.as_tensor(ids[:, start : start + LOOK], device=program.device)
            asked = torch.full(rows.shape, margin, device=program.device)
            forward = program.forward(program.adam.parameters, rows, asked)
            rounded_f, rounded_g = program.rounded(forward, asked)
            moments += torch.stack([forward.points.sum(1), forward.points.square().sum(1)])
            f[:, start : start + LOOK] = rounded_f.cpu().numpy()
            over = rounded_g - (margin if len(self.data.margins) > 1 else 0.0)
            over = over > program.tensors.tolerances
            violated[:, start : start + LOOK] = over.any(-1).cpu().numpy()
            if not problem.objective.is_finite:
                violated[:, start : start + LOOK] |= self._forbidden(rows, forward.points)
        counts &= self.data.usable[ids, int(np.flatnonzero(self.data.margins == 0.0)[0])]
        best = problem.shift - self.data.reference[ids]
        mean, square = moments / most
        spread = (square - mean.square()).clamp(min=0.0).sqrt().mean(-1).cpu().numpy()
        return _summary(np.maximum(f - best, 0.0), best, violated, counts, spread)

    def _forbidden(self, rows: Tensor, points: Tensor) -> NDArray[np.bool_]:
        """Which rounded answers have h = -inf, which training knows as a floor: (M, B)."""
        free = self.program.relaxation.coordinates.assignments(points)
        shape = free.shape[:2]
        evidence = self.data.evidence[rows.cpu().numpy().reshape(-1)]
        whole = Instances(self.data.problem, evidence).complete(free.reshape(len(evidence), -1))
        return np.isneginf(self.data.problem.objective.value(whole)).reshape(shape)

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
        for name, value in mine.items():
            value.copy_(kept[name])
        self.program.examples.refresh()
        self.epoch, self.position = int(kept["epoch"]), int(kept["position"])
        self._best_score, self._stale = kept["score"].numpy().copy(), kept["stale"].numpy().copy()

    def _places(self) -> dict[str, Tensor]:
        """The tensors of a checkpoint, in their places."""
        program = self.program
        parts = {"adam": program.adam.state(), "plateau": self._plateau.state()}
        if program.dual is not None:
            parts["dual"] = program.dual.state()
        return {
            "sums": program.sums, "losses": program.losses, "best": self._best,
            "p_upper": program.examples.p_upper, "penalty": program.examples.penalty,
            **{f"{part}.{k}": v for part, state in parts.items() for k, v in state.items()},
        }  # fmt: skip


def _summary(
    regret: Floats, best: Floats, violated: NDArray[np.bool_], counts: NDArray[np.bool_],
    spread: Floats,
) -> Look:  # fmt: skip
    total = np.maximum(counts.sum(-1), 1)
    feasible = counts & ~violated & np.isfinite(regret)
    price = VIOLATION_PRICE * np.where(counts, np.nan_to_num(best), 0.0).sum(-1) / total
    summed = np.where(feasible, regret, 0.0).sum(-1)
    rate = (counts & violated).sum(-1) / total
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(feasible.any(-1), summed / feasible.sum(-1), np.nan)
    return Look(mean, rate, summed / total + price * rate, spread.astype(float))


def _check_alike(configs: Sequence[TrainingConfig], data: TrainingData) -> None:
    """Members of one stack share everything but MEMBER_FIELDS."""
    if not configs:
        raise MethodError("a stack needs at least one config, found none")
    first = configs[0]
    if tuple(data.margins) != first.margins:
        raise MethodError(f"the data has margins {tuple(data.margins)}, not {first.margins}")
    if len({math.isinf(c.beta) for c in configs}) > 1:
        raise MethodError("members of one stack are all piecewise (beta inf) or all smooth")
    for config in configs[1:]:
        same = {name: getattr(first, name) for name in MEMBER_FIELDS}
        if replace(config, **same) != first:
            raise MethodError(
                f"members of one stack may differ only in {', '.join(sorted(MEMBER_FIELDS))}"
            )
