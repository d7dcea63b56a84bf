"""Networks from evidence to relaxed answers, many members at once.

A network is a pure function of its parameters: a mapping from names to tensors whose first axis
is the member. One member is a stack of one. A member has hidden ReLU layers (paper, supplement
B.C), and with `skip` a linear map from the inputs to the logits beside them.

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

from cmpe.learning.losses.relaxation import RelaxedProblem
from cmpe.learning.networks.coordinates import Coordinates
from cmpe.learning.training.config import TrainingConfig
from cmpe.problem import Problem

Parameters = Mapping[str, Tensor]


class Outputs(NamedTuple):
    """What it says."""

    logits: Tensor  # (M, B, D), relative to value 0 of each variable
    multipliers: Tensor | None  # (M, B, m): mu


def evidence_places(problem: Problem) -> Coordinates:
    """Where the values of each evidence variable lie among the inputs."""
    return Coordinates([problem.objective.cardinalities[v] for v in problem.evidence_variables])


def encode(problem: Problem, evidence: NDArray[np.integer]) -> Tensor:
    """Evidence (N, |X|), -1 where not observed, as centred inputs (N, I)."""
    places = evidence_places(problem)
    chance = (1.0 / (places.sizes + 1.0))[places.owner].astype(np.float32)
    centred = 2.0 * (places.of(evidence) - chance)
    observed = evidence >= 0
    inputs = np.where(observed[:, places.owner], centred, 0.0)
    return torch.as_tensor(inputs, dtype=torch.float32)


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
    predict_multiplier: bool = False

    @classmethod
    def of(cls, config: TrainingConfig, inputs: int, relaxation: RelaxedProblem) -> Network:
        """The network that a config asks for, reading `inputs` numbers and the margin."""
        inputs += len(config.margins) > 1
        constraints = relaxation.functions - 1
        return cls(
            (inputs, *config.hidden, relaxation.coordinates.count),
            constraints,
            config.skip,
            config.predict_multiplier and constraints > 0,
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

    def initial(self, seed: int) -> dict[str, Tensor]:
        """The parameters of one member before training: uniform, as torch's Linear starts."""
        generator = torch.Generator().manual_seed(seed)
        return {
            name: (2.0 * torch.rand(shape, generator=generator) - 1.0) * bound
            for name, shape, bound in self.shapes()
        }

    def __call__(self, parameters: Parameters, x: Tensor) -> Outputs:
        """One pass of every member over its rows: encoded evidence with the margin (M, B, I)."""
        hidden, logits = self.layers(parameters, x)
        if self.skip:
            logits = _affine(logits, x, parameters["skip"])
        return Outputs(
            logits, self._multipliers(parameters, hidden, x) if self.predict_multiplier else None
        )

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


def _dense(parameters: Parameters, layer: int, x: Tensor) -> Tensor:
    return _affine(parameters[f"bias{layer}"].unsqueeze(1), x, parameters[f"weight{layer}"])


def _affine(start: Tensor, x: Tensor, weight: Tensor) -> Tensor:
    """start + x weight of every member; one member alone adds the bias within the product."""
    if len(weight) == 1:
        return torch.addmm(start.squeeze(0), x.squeeze(0), weight.squeeze(0)).unsqueeze(0)
    return torch.baddbmm(start, x, weight)
