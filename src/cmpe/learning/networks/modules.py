"""A torch module of the user's in the place of the built-in networks.

It reads the inputs of rows (B, ...), where they are given. Without them it reads the evidence
(B, I): 0/1 for variables of two values, the number itself for continuous ones, one-hot otherwise;
then the potentials and limits of rows, where it is trained with them (`reading.Reads`).
It gives one logit for each free variable of two values and k for each of k values (B, L). It runs
in training mode where gradients are made, and in evaluation mode elsewhere.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call

from cmpe.errors import MethodError, ModelError
from cmpe.formats.modules import built, described, imported
from cmpe.learning.networks.networks import Outputs, Parameters, encode
from cmpe.learning.networks.reading import EVIDENCE_ALONE, Reads
from cmpe.learning.training.config import TrainingConfig
from cmpe.models.neural import row_numbers
from cmpe.problem import Problem
from cmpe.problem.rows import Rows


def module_inputs(problem: Problem, evidence: NDArray[Any]) -> Tensor:
    """Evidence (N, |X|) as a module reads it: (N, I)."""
    rows = np.asarray(evidence)
    cards = problem.objective.cardinalities
    columns = []
    for column, v in zip(rows.T, problem.evidence_variables, strict=True):
        if cards[v] <= 2:
            columns.append(column[:, np.newaxis])
        else:
            columns.append(column[:, np.newaxis] == np.arange(cards[v]))
    whole = np.concatenate([np.zeros((len(rows), 0)), *columns], axis=1)
    return torch.as_tensor(whole, dtype=torch.float32)


def inputs_of(
    problem: Problem, evidence: NDArray[Any], config: TrainingConfig, reads: Reads = EVIDENCE_ALONE
) -> Tensor:
    """What the network of a config reads of rows of evidence (N, |X|).

    That is the rows' inputs (N, ...) where they have any; else their evidence, then the numbers
    that it `reads` (N, I). The last variable of a lifted problem is the row's number.
    """
    lift: Rows | None = problem.lift
    rows = np.asarray(evidence)
    if lift is not None:
        numbers = row_numbers(rows[:, -1], len(lift)) if problem.continuous else rows[:, -1]
        if lift.inputs is not None:
            return torch.as_tensor(lift.inputs[numbers], dtype=torch.float32)
        lift, rows = lift.take(numbers), rows[:, :-1]
        problem = lift.problem.observing(problem.evidence_variables[:-1])
    encoded = module_inputs(problem, rows) if config.module else encode(problem, rows)
    return torch.cat([encoded, reads.numbers(problem, lift, len(rows))], 1)


def sizes_of(
    problem: Problem, inputs: tuple[int, ...] = (), reads: Reads = EVIDENCE_ALONE
) -> tuple[int, int]:
    """How many numbers a module reads, and how many logits it gives.

    `inputs` is the shape of a row's inputs, where it reads those in place of the other numbers.
    """
    none = np.zeros((0, len(problem.evidence_variables)), dtype=problem.dtype)
    cards = [problem.objective.cardinalities[v] for v in problem.free]
    alone = module_inputs(problem, none).shape[1] + reads.columns(problem)
    return math.prod(inputs) if inputs else alone, sum(k if k > 2 else 1 for k in cards)


@dataclass(frozen=True, eq=False)
class Own:
    """A module of the user's, and what makes it again: its layers, or an import path."""

    module: nn.Module
    factory: str = ""

    @classmethod
    def of(cls, network: object, sizes: tuple[int, int]) -> Own:
        """A copy of a module, or what an import path makes of its numbers of inputs and outputs."""
        if isinstance(network, nn.Module):
            return cls(copy.deepcopy(network).float())
        if not isinstance(network, str):
            raise ModelError(
                "network must be a torch module or an import path package.module:name, found "
                f"{type(network).__name__}"
            )
        made = imported(network)(*sizes)
        if not isinstance(made, nn.Module):
            raise ModelError(f"{network}: expected a torch module, found {type(made).__name__}")
        return cls(made.float(), network)

    def to_json(self) -> dict[str, Any]:
        """What a run keeps; nothing of a module of other layers without an import path."""
        layers = described(self.module)
        if self.factory or layers is None:
            return {"factory": self.factory} if self.factory else {}
        return {"layers": layers}

    @classmethod
    def from_json(cls, found: Mapping[str, Any], sizes: tuple[int, int]) -> Own:
        """The module again, with weights of its start."""
        if "factory" in found:
            return cls.of(str(found["factory"]), sizes)
        if "layers" in found:
            return cls(built(str(found["layers"])))
        raise ModelError(
            "this run has a network of layers that are not described; give it again: "
            "NeuralSolver.load(folder, problem, network=module)"
        )


@dataclass(frozen=True, eq=False)
class ModuleNetwork:
    """A module with the face of `networks.Network`; members of a stack run one after the other."""

    module: nn.Module
    problem: Problem
    inputs: int
    constraints: int
    predict_multiplier: bool = False

    @cached_property
    def sizes(self) -> tuple[int, int]:
        """Inputs and logits."""
        return self.inputs, sizes_of(self.problem)[1]

    def shapes(self) -> Iterator[tuple[str, tuple[int, ...], float]]:
        """Every parameter and buffer, as `initial` has it."""
        for name, value in self.module.state_dict().items():
            yield name, tuple(value.shape), 0.0

    def initial(self, seed: int) -> dict[str, Tensor]:
        """The module's weights that are trained, as they are."""
        return {
            name: value.detach().clone()
            for name, value in self.module.named_parameters()
            if value.requires_grad
        }

    def others(self) -> dict[str, Tensor]:
        """What is not trained by gradients: buffers and frozen weights."""
        trained = self.initial(0)
        return {k: v for k, v in self.module.state_dict().items() if k not in trained}

    def __call__(self, parameters: Parameters, x: Tensor) -> Outputs:
        """One pass of every member over its rows: encoded evidence (M, B, I)."""
        self.module.train(torch.is_grad_enabled())
        logits = []
        for member, rows in enumerate(x):
            own = {name: value[member] for name, value in parameters.items()}
            found = functional_call(self.module, own, (rows,))
            if found.shape != (len(rows), self.sizes[1]):
                raise MethodError(
                    f"the network must give {self.sizes[1]} logits a row (one for each free "
                    "variable of two values, k for each of k), found shape "
                    f"{tuple(found.shape)} for {len(rows)} rows"
                )
            logits.append(self._relative(found))
        return Outputs(torch.stack(logits), None)

    @cached_property
    def _relative(self) -> Callable[[Tensor], Tensor]:
        """Logits (B, L) relative to value 0 of each variable: (B, D)."""
        taken, base, at = [], [], 0
        for v in self.problem.free:
            k = self.problem.objective.cardinalities[v]
            size = k if k > 2 else 1
            taken += list(range(at + (k > 2), at + size))
            base += [at if k > 2 else -1] * max(1, k - 1)
            at += size
        first = torch.tensor(base)

        def relative(logits: Tensor) -> Tensor:
            known = torch.cat([logits, logits.new_zeros(len(logits), 1)], 1)
            return logits[:, taken] - known[:, first]

        return relative
