"""One training step of a stack of members: gather, forward, loss, backward, Adam, bookkeeping.

Everything lies on the device. Each member draws its own batch from its own rows; which ones is
decided before the epoch, so a step reads a counter and nothing from the host. On a GPU the step
is captured once as a CUDA graph and replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from cmpe.learning.alpha import Examples
from cmpe.learning.config import TrainingConfig
from cmpe.learning.data import TrainingData
from cmpe.learning.leaves import relaxation_of
from cmpe.learning.losses import NEED_LABELS, Evaluated, excess, loss_named
from cmpe.learning.networks import (
    Inputs,
    Network,
    Outputs,
    Parameters,
    encode,
    with_margin_input,
)
from cmpe.learning.optimizer import Adam
from cmpe.learning.primal_dual import DualNetwork
from cmpe.learning.relaxation import Coefficients
from cmpe.learning.replay import Replay

SATURATED = 1e-3  # an output this close to 0 or 1 hardly has a gradient

# What a step adds up, each a weighted mean over the rows of a batch: see `Program.sums`.
MEASURES = (
    "loss", "objective", "relaxed_violation", "rounded_violation", "excess", "alpha",
    "alpha_known", "saturated", "gradient_norm",
)  # fmt: skip


class Forward(NamedTuple):
    """The functions at relaxed outputs and at the same outputs rounded."""

    outputs: Outputs
    points: Tensor  # (M, B, D)
    f: Tensor  # (M, B)
    g: Tensor  # (M, B, m), margin included
    rounded_f: Tensor
    rounded_g: Tensor


class Program:
    """The tensors of a stack and the step over them."""

    def __init__(
        self, data: TrainingData, configs: Sequence[TrainingConfig], device: str = "cpu"
    ) -> None:
        self.data, self.configs, self.config = data, tuple(configs), configs[0]
        self.device = torch.device(device)
        self.members = len(configs)
        problem = data.problem
        self.relaxation = relaxation_of(problem, floor=self.config.floor, device=device)
        encoded = encode(problem, data.evidence, mask=self.config.mask_inputs)
        self.encoded = encoded.to(self.device)  # (N, I)
        self.rows: Coefficients = self.relaxation.rows(data.evidence)
        self.margins = self._tensor(data.margins)  # (K,)
        self.limits, self.tolerances = (
            self._tensor(problem.limits),
            self._tensor(problem.tolerances),
        )
        self.network = Network.of(self.config, self.encoded.shape[1], self.relaxation)
        inputs = self.network.sizes[0]
        self.adam = Adam(
            [self.network.initial(c.seed) for c in configs],
            [c.learning_rate for c in configs],
            self.device,
        )
        self.examples = self._examples()
        self.targets = self._targets()
        self.multipliers = self._tensor(data.multipliers.reshape(-1, data.multipliers.shape[-1]))
        self._loss = loss_named(self.config.loss)
        self.beta, self.rho, self.mix, self.gamma = (
            self._tensor([getattr(c, name) for c in configs]).unsqueeze(-1)
            for name in ("beta", "rho", "mix", "gamma")
        )
        self.temperature = self._tensor(0.0)
        self._uses_entropy = any(c.gamma or c.temperature for c in configs)
        self.counter = torch.zeros(1, dtype=torch.int64, device=self.device)
        self.sums = torch.zeros((self.members, len(MEASURES)), device=self.device)
        self.ids = torch.zeros((self.members, 0), dtype=torch.int64, device=self.device)
        self.shares = torch.zeros((self.members, 0), device=self.device)
        self.reduce: Callable[[Tensor], None] = lambda gradient: None  # data-parallel: all-reduce
        self.batch = self.config.batch_size  # rows of a batch on this device
        self.dual: DualNetwork | None = None
        if self.config.loss == "pdl":
            seeds, rates = [c.seed for c in configs], [c.learning_rate for c in configs]
            self.dual = DualNetwork(inputs, len(self.limits), seeds, rates, self.device)
        self.step = Replay(self._primal_step, self.device)
        self.dual_step = Replay(self._dual_step, self.device)

    def _tensor(self, values: object) -> Tensor:
        return torch.as_tensor(np.asarray(values), dtype=torch.float32, device=self.device)

    def _examples(self) -> Examples:
        data, start = self.data, [c.penalty_start for c in self.configs]
        count, constraints = data.p_upper.size, len(data.problem.constraints)
        upper = self._tensor(data.p_upper.ravel()).expand(self.members, count).clone()
        penalty = self._tensor(start).view(-1, 1, 1).expand(self.members, count, constraints)
        return Examples(upper, self._tensor(data.q_lower.ravel()), penalty.clone(), self.limits)

    def _targets(self) -> Tensor:
        """The labels' coordinates (N K, D) as bytes; an example without a label has no share."""
        data = self.data
        if self.config.loss not in NEED_LABELS:
            return torch.zeros((0, 0), dtype=torch.uint8, device=self.device)
        free = data.labels[..., list(self.relaxation.free)].reshape(data.p_upper.size, -1)
        coordinates = self.relaxation.coordinates.of(free).astype(np.uint8)
        return torch.as_tensor(coordinates).to(self.device)

    def load_epoch(self, ids: Tensor, shares: Tensor) -> None:
        """The examples (M, steps B) of an epoch and what each counts in its batch's mean."""
        if self.ids.shape != ids.shape:
            self.ids, self.shares = ids.to(self.device), shares.to(self.device)
            self.step.forget()
            self.dual_step.forget()
        else:
            self.ids.copy_(ids, non_blocking=True)
            self.shares.copy_(shares, non_blocking=True)
        self.counter.zero_()
        self.sums.zero_()

    def question(self, examples: Tensor) -> tuple[Tensor, Tensor]:
        """The row and the margin of each example (M, B)."""
        count = len(self.margins)
        return examples // count, self.margins[examples % count]

    def forward(self, parameters: Parameters, rows: Tensor, margin: Tensor) -> Forward:
        """Run the network and evaluate every function at its relaxed and rounded outputs."""
        known = self.rows.take(rows)
        inputs = Inputs(self.encoded_with(rows, margin), known)
        outputs = self.network(parameters, inputs, self.relaxation)
        places = self.relaxation.coordinates
        points = places.probabilities(outputs.logits)
        f, g = self._minimisation(self.relaxation.values(known, points), margin)
        with torch.no_grad():
            whole = places.round(points.detach())
            rounded = self._minimisation(self.relaxation.values(known, whole), margin)
        return Forward(outputs, points, f, g, *rounded)

    def encoded_with(self, rows: Tensor, margin: Tensor) -> Tensor:
        """What the network reads of `rows` (M, B)."""
        return with_margin_input(self.encoded[rows], margin, self.config)

    def _minimisation(self, values: Tensor, margin: Tensor) -> tuple[Tensor, Tensor]:
        """(f, g) from (h, t_1, ...): f = C - h, g = t - (q - margin)."""
        g = values[..., 1:] - self.limits + margin.unsqueeze(-1)
        return self.data.problem.shift - values[..., 0], g

    def _drawn(self) -> tuple[Tensor, Tensor]:
        """The examples of this step and their shares (M, B); the counter moves on."""
        columns = self.counter * self.batch + torch.arange(self.batch, device=self.device)
        self.counter += 1
        return self.ids.index_select(1, columns), self.shares.index_select(1, columns)

    def _primal_step(self) -> None:
        examples, share = self._drawn()
        forward = self.forward(self.adam.parameters, *self.question(examples))
        loss = self.loss(forward, examples)
        (share * loss).sum().backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            self.reduce(self.adam.gradient)
            self._measure(forward, loss, share, examples)
            self._remember(forward, examples, share > 0)
            self.adam.step()

    def _dual_step(self) -> None:
        assert self.dual is not None
        examples, share = self._drawn()
        with torch.no_grad():
            forward = self.forward(self.adam.parameters, *self.question(examples))
        encoded = self.encoded_with(*self.question(examples))
        loss = self.dual.loss(encoded, forward.g, self.examples.lambdas(examples))
        (share * loss).sum().backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            self.reduce(self.dual.adam.gradient)
            self._measure(forward, loss, share, examples)
            self.dual.adam.step()

    def loss(self, forward: Forward, examples: Tensor) -> Tensor:
        """The loss of every example (M, B), with the entropy terms and the multiplier's error."""
        evaluated = self.evaluated(forward, examples)
        total = self._loss(evaluated)
        if self._uses_entropy:
            entropy = self.relaxation.coordinates.entropy(forward.outputs.logits)
            total = total + (self.gamma - self.temperature) * entropy
        if self.network.predict_multiplier:
            total = total + self._multiplier_error(forward, examples)
        return total

    def _multiplier_error(self, forward: Forward, examples: Tensor) -> Tensor:
        """|mu - mu*|^2 where mu* is known."""
        assert forward.outputs.multipliers is not None
        wanted = self.multipliers[examples]
        error = forward.outputs.multipliers - wanted.nan_to_num()
        return torch.where(wanted.isnan(), 0.0, error).square().sum(-1)

    def evaluated(self, forward: Forward, examples: Tensor) -> Evaluated:
        """The batch as the losses see it."""
        targets = surprise = forward.f.new_zeros(())
        if len(self.targets):
            targets = self.targets[examples].to(forward.f.dtype)
            logits = forward.outputs.logits
            surprise = self.relaxation.coordinates.cross_entropy(logits, targets)
        return Evaluated(
            f=forward.f,
            g=forward.g,
            points=forward.points,
            surprise=surprise,
            targets=targets,
            alpha=self.examples.alpha(examples),
            penalty=self.examples.lambdas(examples),
            multipliers=self.prices(examples),
            beta=self.beta,
            rho=self.rho,
            mix=self.mix,
        )

    def prices(self, examples: Tensor) -> Tensor:
        """mu of the dual network (M, B, m); 0 for other losses."""
        if self.dual is not None:
            return self.dual.prices(self.encoded_with(*self.question(examples)))
        return self.limits.new_zeros((*examples.shape, len(self.limits)))

    def _measure(self, forward: Forward, loss: Tensor, share: Tensor, examples: Tensor) -> None:
        over = (forward.g > self.tolerances).any(-1)
        rounded = (forward.rounded_g > self.tolerances).any(-1)
        near = torch.minimum(forward.points, 1.0 - forward.points) < SATURATED
        alpha = self.examples.alpha(examples)
        columns = [
            loss.detach(),
            self.data.problem.shift - forward.rounded_f,
            over.to(share.dtype),
            rounded.to(share.dtype),
            excess(forward.g.detach()).sum(-1),
            alpha.nan_to_num(nan=0.0),
            (~alpha.isnan()).to(share.dtype),
            near.to(share.dtype).mean(-1),
        ]
        means = (torch.stack(columns, -1) * share.unsqueeze(-1)).sum(1)
        norm = torch.linalg.vector_norm(self.adam.gradient, dim=1, keepdim=True)
        self.sums += torch.cat([means, norm], -1)

    def _remember(self, forward: Forward, examples: Tensor, counts: Tensor) -> None:
        """Tighten p_upper by feasible answers; raise lambda_x of violated examples."""
        c = self.config
        self.examples.see_feasible(examples, forward.rounded_f, forward.rounded_g, counts)
        if not len(self.limits):
            self.examples.see_feasible(examples, forward.f.detach(), forward.g.detach(), counts)
        if c.loss in ("mse_pen", "mae_pen", "ssl_pen"):
            over = torch.where(counts.unsqueeze(-1), excess(forward.g.detach()), 0.0)
            self.examples.raise_penalty(examples, over, self.rho, c.penalty_factor, c.penalty_limit)
