"""Networks from evidence to relaxed answers, many members at once.

A network is a pure function of its parameters: a mapping from names to tensors whose first axis
is the member. One member is a stack of one. Two kinds:

    mlp       hidden ReLU layers (paper, supplement B.C), with `skip` a linear map beside them
    unrolled  the mlp's logits, then K damped mean-field steps on h - sum of mu_j t_j with the
              predicted mu: logits <- (1 - d_k) logits + d_k b_k field(y) / scale(mu),
              where field is the gradient of h - mu t at y and scale grows with |1 - sum of mu_j|

Inputs are centred: value a of an evidence variable with k values is 2 ([x = a] - 1/k) for
a = 1, ..., k - 1, so a binary variable is -1 or 1, and one that is not observed (-1) is 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cmpe.learning.losses.relaxation import Coefficients, RelaxedProblem
from cmpe.learning.networks.coordinates import Coordinates
from cmpe.learning.training.config import TrainingConfig
from cmpe.problem import Problem

Parameters = Mapping[str, Tensor]


class NetworkInputs(NamedTuple):
    """What a network reads: encoded evidence with the margin, and the rows' coefficients."""

    encoded: Tensor  # (M, B, I)
    rows: Coefficients | None  # (M, B, ...); only mean-field steps need them


class Outputs(NamedTuple):
    """What it says."""

    logits: Tensor  # (M, B, D), relative to value 0 of each variable
    multipliers: Tensor | None  # (M, B, m): mu


def evidence_places(problem: Problem) -> Coordinates:
    """Where the values of each evidence variable lie among the inputs."""
    return Coordinates([problem.objective.cardinalities[v] for v in problem.evidence_variables])


def encode(problem: Problem, evidence: NDArray[np.integer], *, mask: bool = False) -> Tensor:
    """Evidence (N, |X|), -1 where not observed, as centred inputs (N, I)."""
    places = evidence_places(problem)
    chance = (1.0 / (places.sizes + 1.0))[places.owner].astype(np.float32)
    centred = 2.0 * (places.of(evidence) - chance)
    observed = evidence >= 0
    parts = [np.where(observed[:, places.owner], centred, 0.0)]
    if mask:
        parts.append(~observed)
    return torch.as_tensor(np.concatenate(parts, axis=1), dtype=torch.float32)


def with_margin_input(encoded: Tensor, margin: Tensor, config: TrainingConfig) -> Tensor:
    """One more input: the margin to keep, relative to the largest trained one."""
    if len(config.margins) == 1:
        return encoded
    largest = max(abs(m) for m in config.margins)
    return torch.cat([encoded, (margin / largest).unsqueeze(-1)], -1)


@dataclass(frozen=True)
class Network:
    """The shape of one member; `__call__` runs a stack of them."""

    sizes: tuple[int, ...]  # inputs, hidden layers, coordinates
    constraints: int
    skip: bool = False
    steps: int = 0
    predict_multiplier: bool = False

    @classmethod
    def of(cls, config: TrainingConfig, inputs: int, relaxation: RelaxedProblem) -> Network:
        """The network that a config asks for, reading `inputs` numbers and the margin."""
        inputs += len(config.margins) > 1
        constraints = relaxation.functions - 1
        unrolled = config.network == "unrolled"
        return cls(
            (inputs, *config.hidden, relaxation.head.code.count),
            constraints,
            config.skip or unrolled,
            config.steps if unrolled else 0,
            (config.predict_multiplier or unrolled) and constraints > 0,
        )

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...], float]]:
        """(name, shape of one member, bound of its uniform start) of every parameter."""
        for layer, (a, b) in enumerate(zip(self.sizes[:-1], self.sizes[1:], strict=True)):
            yield f"weight{layer}", (a, b), 1.0 / math.sqrt(max(a, 1))
            yield f"bias{layer}", (b,), 1.0 / math.sqrt(max(a, 1))
        inputs, last, outputs = self.sizes[0], self.sizes[-2], self.sizes[-1]
        if self.skip:
            yield "skip", (inputs, outputs), 1.0 / math.sqrt(max(inputs, 1))
        if self.predict_multiplier:
            yield "multiplier_weight", (last, self.constraints), 1.0 / math.sqrt(max(last, 1))
            yield "multiplier_skip", (inputs, self.constraints), 0.0
            yield "multiplier_bias", (self.constraints,), 0.0
        if self.steps:
            yield "damping", (self.steps,), 0.0
            yield "sharpness", (self.steps,), 0.0

    def initial(self, seed: int) -> dict[str, Tensor]:
        """The parameters of one member before training: uniform, as torch's Linear starts."""
        generator = torch.Generator().manual_seed(seed)
        return {
            name: (2.0 * torch.rand(shape, generator=generator) - 1.0) * bound
            for name, shape, bound in self.shapes()
        }

    def __call__(
        self, parameters: Parameters, inputs: NetworkInputs, relaxation: RelaxedProblem
    ) -> Outputs:
        """One pass of every member over its rows."""
        x = inputs.encoded
        hidden, logits = self.layers(parameters, x)
        if self.skip:
            logits = _affine(logits, x, parameters["skip"])
        multipliers = self._multipliers(parameters, hidden, x) if self.predict_multiplier else None
        if self.steps:
            assert inputs.rows is not None
            prices = x.new_zeros((*x.shape[:2], 0)) if multipliers is None else multipliers
            logits = self._mean_field(parameters, logits, prices, inputs.rows, relaxation)
        return Outputs(logits, multipliers)

    def layers(self, parameters: Parameters, x: Tensor) -> tuple[Tensor, Tensor]:
        """The last hidden layer and the affine layer behind it, for inputs (M, B, I)."""
        hidden = x
        last = len(self.sizes) - 2
        for layer in range(last):
            hidden = _dense(parameters, layer, hidden).relu()
        return hidden, _dense(parameters, last, hidden)

    def _multipliers(self, parameters: Parameters, hidden: Tensor, x: Tensor) -> Tensor:
        """mu >= 0 from the last hidden layer and the inputs."""
        raw = _affine(
            parameters["multiplier_bias"].unsqueeze(1), hidden, parameters["multiplier_weight"]
        )
        raw = _affine(raw, x, parameters["multiplier_skip"])
        return torch.nn.functional.softplus(raw)

    def _mean_field(
        self,
        parameters: Parameters,
        logits: Tensor,
        multipliers: Tensor,
        rows: Coefficients,
        relaxation: RelaxedProblem,
    ) -> Tensor:
        prices = torch.nn.functional.pad(-multipliers, (1, 0), value=1.0)
        scale = 0.1 + prices.sum(-1, keepdim=True).abs()  # h - mu t is about (1 - sum of mu) h
        for k in range(self.steps):
            points = relaxation.coordinates.probabilities(logits)
            fields = relaxation.fields(rows, points)
            field = (fields * prices.unsqueeze(-1)).sum(-2) / scale
            damping = torch.sigmoid(parameters["damping"][:, k]).view(-1, 1, 1)
            sharpness = torch.exp(parameters["sharpness"][:, k]).view(-1, 1, 1)
            logits = logits + damping * (sharpness * field - logits)
        return logits


def _dense(parameters: Parameters, layer: int, x: Tensor) -> Tensor:
    return _affine(parameters[f"bias{layer}"].unsqueeze(1), x, parameters[f"weight{layer}"])


def _affine(start: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """start + x weight of every member; one member alone adds the bias within the product."""
    if len(weight) == 1:
        return torch.addmm(start.squeeze(0), x.squeeze(0), weight.squeeze(0)).unsqueeze(0)
    return torch.baddbmm(start, x, weight)
