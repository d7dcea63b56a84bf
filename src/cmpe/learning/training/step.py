"""One training step of a stack of members: gather, forward, loss, backward, Adam, bookkeeping.

Everything lies on the device. Each member draws its own batch from its own rows; which ones is
decided before the epoch, so a step reads a counter and nothing from the host. On a GPU the step
is captured once as a CUDA graph and replayed. Every MEASURE_EVERY-th step also measures, and
lowers alpha_x by the feasible rounded outputs it sees; with alpha "paper" every step lowers it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from cmpe.learning.losses.alpha import Examples
from cmpe.learning.losses.catalogue import Family
from cmpe.learning.losses.losses import (
    NOTHING,
    Evaluated,
    excess,
    loss_named,
)
from cmpe.learning.losses.relaxation import Coefficients
from cmpe.learning.networks.modules import ModuleNetwork
from cmpe.learning.networks.networks import Network, Outputs, Parameters
from cmpe.learning.settings import TRAINING
from cmpe.learning.training.config import TrainingConfig
from cmpe.learning.training.cuda_graphs import Replay
from cmpe.learning.training.data import TrainingData
from cmpe.learning.training.optimizer import Adam
from cmpe.learning.training.primal_dual import DualNetwork
from cmpe.learning.training.tensors import Tensors

# What measuring steps add up, each a weighted mean over the rows of a batch.
MEASURES = (
    "objective", "relaxed_violation", "rounded_violation", "excess", "alpha", "alpha_known",
    "saturated", "gradient_norm",
)  # fmt: skip


class Forward(NamedTuple):
    """What the network read, its outputs, and the functions there."""

    encoded: Tensor  # (M, B, I)
    rows: Coefficients  # (M, B, ...)
    outputs: Outputs
    points: Tensor  # (M, B, D)
    f: Tensor  # (M, B)
    g: Tensor  # (M, B, m), margin included


class Program:
    """The state of a stack and the steps over it."""

    def __init__(
        self,
        data: TrainingData,
        configs: Sequence[TrainingConfig],
        device: str = "cpu",
        module: nn.Module | None = None,
    ) -> None:
        self.configs, self.config = tuple(configs), configs[0]
        self.device = torch.device(device)
        self.tensors = Tensors(data, self.config, self.device)
        self.relaxation = self.tensors.relaxation
        width = math.prod(self.tensors.encoded.shape[1:])
        self.network: Network | ModuleNetwork = Network.of(self.config, width, self.relaxation)
        if module is not None:
            constraints = len(data.problem.constraints)
            self.network = ModuleNetwork(module.to(self.device), data.problem, width, constraints)
        seeds, rates = [c.seed for c in configs], [c.learning_rate for c in configs]
        self.adam = Adam([self.network.initial(s) for s in seeds], rates, self.device)
        self.examples = self._examples()
        self._loss = loss_named(self.config.loss)
        # only labels are compared: functions are evaluated only to be measured
        distilled = self.config.kind.family is Family.distilled
        self._lean_steps = distilled and not self.relaxation.head.compares_points
        self._penalised = self.config.kind.penalty and not self.config.kind.dual
        # the f of a floored potential is too low to bound p*
        finite = data.problem.objective.is_finite
        self._refines = self.config.kind.alpha and self.config.alpha != "precomputed" and finite
        self._always_refines = self._refines and self.config.alpha == "paper"
        self._rho, self._gamma = self._numbers("rho"), self._numbers("gamma")
        betas = self._numbers("beta")
        self._beta = None if betas.isinf().all() else betas
        self.temperature = torch.zeros((len(configs), 1), device=self.device)
        self._uses_entropy = any(c.gamma or c.temperature for c in configs)
        self.batch = self.config.batch_size  # rows of a batch on this device
        self.columns = torch.zeros(0, dtype=torch.int64, device=self.device)
        self.ids = torch.zeros((len(configs), 0), dtype=torch.int64, device=self.device)
        self.shares = torch.zeros((len(configs), 0), device=self.device)
        self.losses = torch.zeros(len(configs), device=self.device)  # summed over steps
        self.sums = torch.zeros((len(configs), len(MEASURES)), device=self.device)
        self.dual: DualNetwork | None = None
        if self.config.kind.dual:
            sizes = self.network.sizes[0], len(self.tensors.limits)
            self.dual = DualNetwork(*sizes, self.configs, self.device)
        count, generator = self.relaxation.coordinates.count, torch.Generator().manual_seed(0)
        drawn = torch.rand(count, dtype=torch.float64, generator=generator)
        self._projection = drawn.to(self.device)
        works = (self._step, self._measured_step, self._dual_step)
        captured = torch.device("cpu") if module is not None else self.device  # not any module
        self._lean, self._measured, self._dual = (Replay(w, captured) for w in works)

    @property
    def buffers(self) -> dict[str, Tensor]:
        """What a module has besides the weights that are trained."""
        return self.network.others() if isinstance(self.network, ModuleNetwork) else {}

    def _numbers(self, name: str) -> Tensor:
        """A field of every member's config: (M, 1)."""
        return self.tensors.floats([getattr(c, name) for c in self.configs]).unsqueeze(-1)

    def _examples(self) -> Examples:
        tensors, limits = self.tensors, self.tensors.limits
        shape = (len(self.configs), len(tensors.p_upper))
        penalty = tensors.floats([c.penalty_start for c in self.configs]).view(-1, 1, 1)
        return Examples(
            tensors.p_upper.expand(shape).clone(),
            tensors.q_lower,
            penalty.expand(*shape, len(limits)).clone(),
            limits,
            self._numbers("contrast"),
            1.0 if self.config.alpha == "fixed" else 0.0,
        )

    def rewrite(self, first: int, part: TrainingData) -> None:
        """Other rows from `first` on: what was learnt of the old ones is forgotten."""
        self.tensors.rewrite(first, part)
        examples, width = self.examples, part.margins.shape[1]
        at = slice(first * width, (first + len(part)) * width)
        examples.p_upper[:, at] = self.tensors.p_upper[at]
        examples.penalty[:, at] = self._numbers("penalty_start").unsqueeze(-1)
        examples.refresh()

    def load_epoch(self, ids: Tensor, shares: Tensor, position: int = 0) -> None:
        """The examples (M, steps B) of an epoch, what each counts, and the step to begin at."""
        if self.ids.shape != ids.shape or len(self.columns) != self.batch:
            self.ids, self.shares = ids.to(self.device), shares.to(self.device)
            self.columns = torch.zeros(self.batch, dtype=torch.int64, device=self.device)
            for replay in (self._lean, self._measured, self._dual):
                replay.forget()
        else:
            self.ids.copy_(ids, non_blocking=True)
            self.shares.copy_(shares, non_blocking=True)
        self.columns.copy_(position * self.batch + torch.arange(self.batch))
        if position == 0:
            self.losses.zero_()
            self.sums.zero_()

    def step(self, position: int, *, dual: bool = False) -> None:
        """One step of every member: the `position`-th of its epoch."""
        if dual:
            self._dual()
        elif position % TRAINING.measure_every == 0:
            self._measured()
        else:
            self._lean()

    def _drawn(self) -> tuple[Tensor, Tensor]:
        """The examples of this step and their shares (M, B); the columns move on."""
        found = self.ids.index_select(1, self.columns), self.shares.index_select(1, self.columns)
        self.columns += self.batch
        return found

    def forward(
        self, parameters: Parameters, rows: Tensor, margin: Tensor, *, lean: bool = False
    ) -> Forward:
        """Run the network and, unless `lean`, evaluate every function at its relaxed outputs."""
        encoded, known = self.tensors.read(rows, margin)
        outputs = self.network(parameters, encoded)
        if lean:
            return Forward(encoded, known, outputs, NOTHING, NOTHING, NOTHING)
        points = self.relaxation.head.points(known, outputs.logits)
        functions = self.tensors.minimisation(known, points, margin)
        return Forward(encoded, known, outputs, points, *functions)

    def rounded(self, forward: Forward, margin: Tensor) -> tuple[Tensor, Tensor]:
        """f and g at the rounded outputs."""
        whole = self.relaxation.coordinates.round(forward.points.detach())
        return self.tensors.minimisation(forward.rows, whole, margin)

    def fingerprints(self, forward: Forward) -> Tensor:
        """One number per rounded answer (M, B): equal answers have equal ones."""
        whole = self.relaxation.coordinates.round(forward.points.detach()).double()
        return whole @ self._projection

    def _step(self, lean: bool = True) -> tuple[Forward, Tensor, Tensor]:
        examples, share = self._drawn()
        forward = self.forward(
            self.adam.parameters, *self.tensors.question(examples), lean=lean and self._lean_steps
        )
        loss = self.loss(forward, examples)
        self._descend(self.adam, loss, share)
        if self._penalised:
            self._raise_penalty(forward, examples, share)
        if lean and self._always_refines:
            with torch.no_grad():
                margin = self.tensors.question(examples)[1]
                self._refine(forward, examples, share, *self.rounded(forward, margin))
        return forward, examples, share

    def _refine(
        self, forward: Forward, examples: Tensor, share: Tensor, f: Tensor, g: Tensor
    ) -> None:
        """Lower p_upper to f of rounded outputs that are feasible, and without constraints to that
        of relaxed ones."""
        self.examples.see_feasible(examples, f, g, share > 0)
        if not len(self.tensors.limits):
            self.examples.see_feasible(examples, forward.f.detach(), forward.g, share > 0)

    def _descend(self, adam: Adam, loss: Tensor, share: Tensor) -> None:
        adam.differentiate(loss, share)
        with torch.no_grad():
            adam.step()
            self.losses += (share * loss).sum(-1)

    def _measured_step(self) -> None:
        forward, examples, share = self._step(lean=False)
        with torch.no_grad():
            self._measure(forward, examples, share)

    def _dual_step(self) -> None:
        assert self.dual is not None
        examples, share = self._drawn()
        with torch.no_grad():
            forward = self.forward(self.adam.parameters, *self.tensors.question(examples))
        loss = self.dual.loss(forward.encoded, forward.g, self.examples.lambdas(examples))
        self._descend(self.dual.adam, loss, share)
        with torch.no_grad():
            self._measure(forward, examples, share)

    def loss(self, forward: Forward, examples: Tensor) -> Tensor:
        """The loss of every example (M, B), with the entropy terms and the multiplier's error."""
        total = self._loss(self.evaluated(forward, examples))
        if self._uses_entropy:
            entropy = self.relaxation.coordinates.entropy(forward.outputs.logits)
            total = total + (self._gamma - self.temperature) * entropy
        if self.network.predict_multiplier:
            total = total + self._multiplier_error(forward, examples)
        return total

    def _multiplier_error(self, forward: Forward, examples: Tensor) -> Tensor:
        """|mu - mu*|^2 where mu* is known."""
        assert forward.outputs.multipliers is not None
        wanted = self.tensors.multipliers[examples]
        error = forward.outputs.multipliers - wanted.nan_to_num()
        return torch.where(wanted.isnan(), 0.0, error).square().sum(-1)

    def evaluated(self, forward: Forward, examples: Tensor) -> Evaluated:
        """The batch as the loss sees it."""
        kind = self.config.kind
        found = Evaluated(forward.f, forward.g, forward.points)
        found = found._replace(beta=self._beta, rho=self._rho)
        found = found._replace(gate_gradient=self.config.gate_gradient)
        if len(self.tensors.targets):
            targets = self.tensors.targets[examples].to(forward.f.dtype)
            if kind.family is Family.distilled:
                logits, head = forward.outputs.logits, self.relaxation.head
                surprise = head.surprise(logits, forward.points, targets)
                found = found._replace(surprise=surprise)
            else:
                found = found._replace(targets=targets)
        if kind.alpha:
            alpha, contrast = self.examples.alpha(examples), self.examples.contrast
            found = found._replace(alpha=alpha, contrast=contrast)
        if kind.penalty:
            found = found._replace(penalty=self.examples.lambdas(examples))
        if self.dual is not None:
            found = found._replace(multipliers=self.dual.prices(forward.encoded))
        return found

    def _raise_penalty(self, forward: Forward, examples: Tensor, share: Tensor) -> None:
        over = torch.where((share > 0).unsqueeze(-1), excess(forward.g.detach()), 0.0)
        factor, most = self.config.penalty_factor, self.config.penalty_limit
        self.examples.raise_penalty(examples, over, self._rho, factor, most)

    def _measure(self, forward: Forward, examples: Tensor, share: Tensor) -> None:
        """Add up MEASURES; lower p_upper where an answer is feasible and better."""
        margin = self.tensors.question(examples)[1]
        f, g = self.rounded(forward, margin)
        if self._refines:
            self._refine(forward, examples, share, f, g)
        allowed = margin.unsqueeze(-1) + self.tensors.tolerances  # g includes the margin
        alpha = self.examples.alpha(examples)
        near = torch.minimum(forward.points, 1.0 - forward.points) < TRAINING.saturated
        columns = [
            self.tensors.data.problem.shift - f,
            (forward.g > allowed).any(-1).to(f.dtype),
            (g > allowed).any(-1).to(f.dtype),
            excess(forward.g).sum(-1),
            alpha.nan_to_num(nan=0.0),
            (~alpha.isnan()).to(f.dtype),
            near.to(f.dtype).mean(-1),
        ]
        means = (torch.stack(columns, -1) * share.unsqueeze(-1)).sum(1)
        norm = torch.linalg.vector_norm(self.adam.gradient, dim=1, keepdim=True)
        self.sums += torch.cat([means, norm], -1)
