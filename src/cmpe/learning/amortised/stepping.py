"""The loss of a batch of questions, and updates of the weights by it.

On a GPU an update is captured once as a CUDA graph and replayed: it is some thousand small kernels,
and starting them one by one takes ten times as long as running them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cmpe.learning.amortised.config import AmortisedConfig
from cmpe.learning.amortised.networks import Said
from cmpe.learning.amortised.questions import QuestionMaker, Questions
from cmpe.learning.amortised.tables import ModelTables
from cmpe.learning.losses.losses import Evaluated, ss_cmpe

CLIP = 1.0  # norm of a gradient at most
EAGER = 3  # updates before one is captured: they allocate what stays


class QuestionLoss(nn.Module):
    """ss_cmpe with contrast less an entropy bonus, a free variable, in mean slopes.

    Where an answer is taught, `mix` times its surprise - log p(y*) is added.
    """

    beta: Tensor
    one: Tensor

    def __init__(self, network: nn.Module, config: AmortisedConfig, device: torch.device) -> None:
        super().__init__()
        self.network, self.contrast = network, config.contrast
        self.mix = config.mix if config.taught or config.annealed else 0.0
        self.register_buffer("beta", torch.tensor(config.beta, device=device))
        self.register_buffer("one", torch.ones((), device=device))

    def forward(
        self, tables: ModelTables, maker: QuestionMaker, asked: Questions, warmth: Tensor
    ) -> Tensor:
        """The mean over the questions; `warmth` is the weight of the entropy."""
        reply: Said = self.network(tables, asked.given, asked.limits)
        points = tables.points(reply.logits, tables.allowed(asked.given))
        found = tables.values(points)
        f = asked.shift - found[:, 0]
        g = (found[:, 1:] - asked.limits) * tables.units
        with torch.no_grad():
            known = maker.loss_if_feasible(tables.rounded(points), asked.shift, asked.limits)
            alpha = asked.alpha(self.contrast, known)
        batch = Evaluated(
            f.unsqueeze(0), g.unsqueeze(0), alpha=alpha.unsqueeze(0), contrast=self.one,
            beta=self.beta / tables.scale,
        )  # fmt: skip
        logs = points.clamp(min=1e-9).log()
        total = ss_cmpe(batch)[0] + warmth * tables.scale * (points * logs).sum((0, 1))
        if self.mix:
            surprise = -(tables.certain(asked.answers) * logs).sum((0, 1))
            total = total + self.mix * tables.scale * surprise
        free = (asked.given < 0).sum(1).clamp(min=1) * tables.scale
        return (total / free).mean()


def adam_of(network: nn.Module, rate: float, device: torch.device) -> torch.optim.Adam:
    """An optimiser whose steps can be captured where the device is a GPU."""
    if device.type != "cuda":
        return torch.optim.Adam(network.parameters(), lr=rate)
    lr = torch.tensor(rate, device=device)
    return torch.optim.Adam(network.parameters(), lr=lr, capturable=True)


@dataclass
class _Captured:
    graph: torch.cuda.CUDAGraph
    loss: Tensor


class Stepper:
    """Updates by questions about one model."""

    def __init__(self, loss: QuestionLoss, adam: torch.optim.Adam, maker: QuestionMaker) -> None:
        self._loss, self._adam, self._maker = loss, adam, maker
        self._warmth = torch.zeros((), device=maker.tables.device)
        self._asked: Questions | None = None
        self._done = 0
        self._captured: _Captured | None = None

    def step(self, asked: Questions, rate: float, warmth: float) -> Tensor:
        """Lower the loss of these questions; the loss before."""
        self._warmth.fill_(warmth)
        for group in self._adam.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
        if self._maker.tables.device.type != "cuda":
            return self._update(asked)
        if self._asked is None:
            self._asked = Questions(*(part.clone() for part in asked))
        for mine, part in zip(self._asked, asked, strict=True):
            mine.copy_(part)
        if self._captured is not None:
            self._captured.graph.replay()
            return self._captured.loss
        return self._first(self._asked)

    def _first(self, asked: Questions) -> Tensor:
        """Some updates on a stream of their own, as capturing asks for; then the capture."""
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            loss = self._update(asked)
        torch.cuda.current_stream().wait_stream(stream)
        self._done += 1
        if self._done == EAGER:
            graph = torch.cuda.CUDAGraph()
            self._adam.zero_grad(set_to_none=True)
            with torch.cuda.graph(graph):
                later = self._update(asked)
            self._captured = _Captured(graph, later)
        return loss

    def _update(self, asked: Questions) -> Tensor:
        self._adam.zero_grad(set_to_none=True)
        loss: Tensor = self._loss(self._maker.tables, self._maker, asked, self._warmth)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self._loss.parameters(), CLIP)
        self._adam.step()
        return loss.detach()
