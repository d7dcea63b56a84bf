"""Networks that read evidence of any mask and any q, and answer with logits of every variable.

    messages  rounds of message passing on the factor graph, whose tables they read. Round k sends
              on theta = (h - sum of mu_j t_j) / its size, soft max-marginals at a learnt
              temperature T_k and with a learnt damping d_k, which depend on the share of free
              variables and on mu:

                  m_fi(a) <- T_k log of the sum over a' with a'_i = a of
                             exp((theta_f(a') + sum over j != i of b_j(a'_j) - m_fj(a'_j)) / T_k)

              corrects the beliefs b by a small network of each value's numbers, and moves mu by
              how far t of the answer is from q: of the relaxed one where weights follow gradients,
              of the one that is nearly rounded where they are tuned (`tuning`), because the relaxed
              one lies elsewhere and leaves room that is never used. Steps of mu depend on the same
              two numbers as T, and follow q plus a learnt *lean* times the root of the number of
              free variables: moves mend a small violation well. The first mu is guessed from q
              and t of the uniform answer. All weights are shared by variables and tables, so that
              they serve any model.
    mlp       hidden ReLU layers over all variables of one model, with a linear map beside them
              where that has at most LARGEST_SKIP weights;
              inputs are centred evidence, the mask, and q relative to t of the uniform answer.
              On a GPU its layers compute in bfloat16.

mu is what `search` is started with. The mlp says none: it is fitted to its relaxed answer
(`ModelTables.multipliers`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, reduce
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

from cmpe.errors import MethodError
from cmpe.learning.amortised.config import AmortisedConfig
from cmpe.learning.amortised.kernels.pricing import LEAN_UNIT
from cmpe.learning.amortised.tables import OUT, ModelTables, Potentials

LARGEST_ARITY = 4  # of tables that messages are passed through
LARGEST_SKIP = 1 << 22
NODE_INPUTS = 7
PRICE_HIDDEN = 8
SURE = 32.0  # sharpness of an answer that is nearly rounded
ABOUT = 2  # numbers of a row that T, sharpness, damping and the steps of mu depend on
FUSED = True  # compile what tables say on a GPU: in training, and for very many rows


class Said(NamedTuple):
    """What a network says of B questions."""

    logits: Tensor  # (n, K, B)
    multipliers: Tensor | None  # (B, m): mu, where the network says it


class MaskedMlp(nn.Module):
    """Hidden layers over all variables of one model."""

    def __init__(self, config: AmortisedConfig, tables: ModelTables) -> None:
        super().__init__()
        self._outputs = tables.variables * tables.width
        inputs = self._outputs + tables.variables + tables.functions - 1
        sizes = [inputs, *config.hidden]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self.last = nn.Linear(sizes[-1], self._outputs)
        small = inputs * self._outputs <= LARGEST_SKIP
        self.skip = nn.Linear(inputs, self._outputs, bias=False) if small else None

    def forward(self, tables: ModelTables, given: Tensor, limits: Tensor) -> Said:
        """Logits of every variable's values."""
        allowed = tables.allowed(given)
        uniform = tables.points(torch.zeros_like(allowed, dtype=torch.float32), allowed)
        room = _room(tables, given, limits, uniform)
        chance = tables.exists / tables.exists.sum(-1, keepdim=True)
        seen = 2.0 * (given >= 0).float() - 1.0
        centred = 2.0 * (uniform - chance.unsqueeze(-1))
        x = torch.cat([centred.flatten(0, 1).t(), seen, room], 1)
        with torch.autocast(x.device.type, torch.bfloat16, enabled=x.is_cuda):
            logits = self._logits(x).float()
        return Said(logits.t().view(tables.variables, tables.width, len(x)), None)

    def _logits(self, x: Tensor) -> Tensor:
        hidden = x
        for layer in self.layers:
            hidden = layer(hidden).relu()
        logits: Tensor = self.last(hidden)
        return logits if self.skip is None else logits + self.skip(x)


class MessageNetwork(nn.Module):
    """Message passing with learnt temperatures, damping, corrections and multipliers."""

    def __init__(self, config: AmortisedConfig) -> None:
        super().__init__()
        rounds, width = config.steps, config.width
        self.rounds, self.many = rounds, False  # many: so many rows come that compiling pays
        self.sure = config.tuned
        falling = torch.linspace(math.log(0.5), math.log(0.1), rounds)
        self.log_temperature = nn.Parameter(falling)
        self.log_sharpness = nn.Parameter(torch.full((rounds,), math.log(4.0)))
        self.damping = nn.Parameter(torch.full((rounds,), -1.0))
        for name in ("log_temperature", "log_sharpness", "damping"):
            self.register_parameter(f"{name}_by", nn.Parameter(torch.zeros(rounds, ABOUT)))
        self.node_in = nn.Parameter(
            torch.randn(rounds, NODE_INPUTS, width) / math.sqrt(NODE_INPUTS)
        )
        self.node_bias = nn.Parameter(torch.zeros(rounds, width))
        self.node_out = nn.Parameter(torch.zeros(rounds, width))
        self.price_in = nn.Parameter(torch.randn(rounds, 3, PRICE_HIDDEN) / math.sqrt(3.0))
        self.price_bias = nn.Parameter(torch.zeros(rounds, PRICE_HIDDEN))
        self.price_out = nn.Parameter(torch.zeros(rounds, PRICE_HIDDEN))
        self.price_step = nn.Parameter(torch.full((rounds,), 1.0))
        self.price_step_by = nn.Parameter(torch.zeros(rounds, ABOUT))
        self.lean = nn.Parameter(torch.zeros(1 + ABOUT))
        self.first_price = nn.Parameter(torch.tensor(-2.0))
        self.first_in = nn.Parameter(torch.randn(2, PRICE_HIDDEN) / math.sqrt(2.0))
        self.first_bias = nn.Parameter(torch.zeros(PRICE_HIDDEN))
        self.first_out = nn.Parameter(torch.zeros(PRICE_HIDDEN))

    def forward(self, tables: ModelTables, given: Tensor, limits: Tensor) -> Said:
        """Logits of every variable's values, and the last multipliers."""
        work = _Rounds(tables, given, self.many or torch.is_grad_enabled())
        beliefs = work.beliefs
        room = _room(tables, given, limits, tables.points(beliefs, work.allowed))
        raw = self._first(room, work.free)
        for k in range(self.rounds):
            price = torch.nn.functional.softplus(raw)
            theta = work.potentials(price)
            dear = price.sum(-1)
            about = torch.stack([work.free, dear / (1.0 + dear)])
            temperature = self._by("log_temperature", k, about).exp()
            damping = torch.sigmoid(self._by("damping", k, about))
            beliefs = work.send(theta, beliefs, temperature, damping)
            sharpness = self._by("log_sharpness", k, about).exp()
            points = tables.points(sharpness * beliefs, work.allowed)
            sure = tables.points(SURE * beliefs, work.allowed) if self.sure else points
            room = _room(tables, given, limits, sure)
            if self.node_out.shape[1]:
                beliefs = beliefs + self._correction(
                    k, beliefs, theta, points, (price, room, work.free.unsqueeze(-1))
                )
            step = self.price_step[k] * (self.price_step_by[k] @ about).exp().unsqueeze(-1)
            aim = room + self._leaning(given, about)
            raw = raw - step * aim - self._repricing(k, raw, room, work.free)
        return Said(sharpness * beliefs, torch.nn.functional.softplus(raw))

    def _correction(
        self,
        k: int,
        beliefs: Tensor,
        theta: Potentials,
        points: Tensor,
        rest: tuple[Tensor, Tensor, Tensor],
    ) -> Tensor:
        """What a network of each value's own numbers adds to its belief."""
        price, room, free = (part.sum(-1).expand_as(beliefs) for part in rest)
        centre = (beliefs - (points * beliefs).sum(1, keepdim=True)).clamp(-10, 10)
        inputs = torch.stack([centre, theta.unary, points, price, room, price * theta.unary, free])
        hidden = (self.node_in[k].t() @ inputs.flatten(1) + self.node_bias[k].unsqueeze(1)).tanh()
        return (self.node_out[k] @ hidden).view(beliefs.shape)

    def _by(self, name: str, k: int, about: Tensor) -> Tensor:
        """A number of round k, for each row by what is known `about` it (ABOUT, B): (B,)."""
        same, by = getattr(self, name)[k], getattr(self, f"{name}_by")[k]
        found: Tensor = same + by @ about
        return found

    def _leaning(self, given: Tensor, about: Tensor) -> Tensor:
        """How much more room than there is mu is moved by: (B, 1)."""
        free = (given < 0).sum(1).clamp(min=1)
        lean = (self.lean[0] + self.lean[1:] @ about) / (LEAN_UNIT * free.sqrt())
        return lean.unsqueeze(-1)

    def _first(self, room: Tensor, free: Tensor) -> Tensor:
        """Raw multipliers (B, m) to begin with, by the room of the uniform answer."""
        inputs = torch.stack([room, free.unsqueeze(-1).expand_as(room)], -1)
        hidden = (inputs @ self.first_in + self.first_bias).tanh()
        return self.first_price + hidden @ self.first_out

    def _repricing(self, k: int, raw: Tensor, room: Tensor, free: Tensor) -> Tensor:
        inputs = torch.stack([raw, room, free.unsqueeze(-1).expand_as(raw)], -1)
        hidden = (inputs @ self.price_in[k] + self.price_bias[k]).tanh()
        return hidden @ self.price_out[k]


class _Rounds:
    """Messages of some questions on their way."""

    def __init__(self, tables: ModelTables, given: Tensor, many: bool) -> None:
        if any(len(group.shape) > LARGEST_ARITY for group in tables.groups):
            raise MethodError(f"messages need tables of at most {LARGEST_ARITY} variables; use mlp")
        self.tables, self.allowed = tables, tables.allowed(given)
        self._said = _fused() if FUSED and many and given.is_cuda else _said
        self.free = (given < 0).float().mean(1)
        self.beliefs = torch.zeros_like(self.allowed, dtype=torch.float32)
        self._messages: list[list[Tensor]] = []

    def potentials(self, price: Tensor) -> Potentials:
        """(h - mu t) over the mean size of its entries."""
        weights = torch.nn.functional.pad(-price, (1, 0), value=1.0)
        found = self.tables.weighted(weights)
        parts = [found.unary, *found.tables]
        square = torch.stack([p.square().flatten(0, -2).sum(0) for p in parts]).sum(0)
        count = sum(p[..., 0].numel() for p in parts)
        size = (square / count + 1e-8).sqrt()  # (B,)
        return Potentials(found.unary / size, [table / size for table in found.tables])

    def send(
        self, theta: Potentials, beliefs: Tensor, temperature: Tensor, damping: Tensor
    ) -> Tensor:
        """Every table sends to all its variables at once; the new beliefs."""
        every = self.tables.spread(beliefs.masked_fill(~self.allowed, OUT))
        for g, (heard, table) in enumerate(zip(every, theta.tables, strict=True)):
            before = self._messages[g] if self._messages else None
            every[g] = self._said(table, heard, before, (temperature, damping))
        self._messages = every
        return theta.unary + self.tables.collect(every)


def _said(
    table: Tensor, heard: list[Tensor], before: list[Tensor] | None, how: tuple[Tensor, Tensor]
) -> list[Tensor]:
    """What tables (T, *shape, B) say to each of their axes (T, k, B), the largest number 0.

    `how` is the temperature and the damping, `before` what they said last.
    """
    temperature, damping = how
    if before is not None:
        heard = [part - m.view(part.shape) for part, m in zip(heard, before, strict=True)]
    joint, out = reduce(torch.add, heard, table), []
    for i, part in enumerate(heard):
        others = [j + 1 for j in range(len(heard)) if j != i]
        now = temperature * torch.logsumexp((joint - part) / temperature, others)
        now = now - now.amax(1, keepdim=True)
        out.append(now if before is None else torch.lerp(now, before[i], damping))
    return out


@cache
def _fused() -> Callable[..., list[Tensor]]:
    """`_said` as a few kernels, compiled once, on a GPU: it is most of the time."""
    return torch.compile(_said, dynamic=False)


def _room(tables: ModelTables, given: Tensor, limits: Tensor, points: Tensor) -> Tensor:
    """(q - t(y)) a free variable, in mean slopes: (B, m)."""
    free = (given < 0).sum(1, keepdim=True).clamp(min=1)
    return (limits - tables.values(points)[:, 1:]) / (tables.scale * free)


def network_of(config: AmortisedConfig, tables: ModelTables) -> nn.Module:
    """The network that a config asks for, its weights by the seed."""
    kinds: dict[str, Callable[[], nn.Module]] = {
        "messages": lambda: MessageNetwork(config),
        "mlp": lambda: MaskedMlp(config, tables),
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        return kinds[config.network]().to(tables.device)
