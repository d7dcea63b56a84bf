"""Every function of a problem at points with fractions, in torch: values that have gradients.

A point is the coordinates of all variables (`models.neural.Slots`): one number for a variable of
two values or in [0, 1], k - 1 for one of k values. Tables become their multilinear extension;
tables of one shape are evaluated together.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import singledispatch

import numpy as np
import torch
from torch import Tensor

from cmpe.errors import MethodError
from cmpe.models.distance import Distance
from cmpe.models.function import Function
from cmpe.models.loglinear import LogLinearModel
from cmpe.models.neural import ClassMargin, NeuralFunction, Slots
from cmpe.models.tractable.cutset import CutsetNetwork
from cmpe.problem import Problem

Evaluate = Callable[[Tensor], Tensor]  # coordinates (R, D) -> values (R,)


class Functions:
    """The objective and the constraints' functions of a problem on one device."""

    def __init__(
        self,
        problem: Problem,
        *,
        device: str = "cpu",
        dtype: torch.dtype = torch.float32,
        floor: float = 20.0,
    ) -> None:
        self.problem, self.device, self.dtype = problem, torch.device(device), dtype
        self.floor = floor  # nats below a table's largest entry that a potential of 0 counts as
        self.slots = Slots(problem.objective.cardinalities)
        self._evaluate = [evaluator(f, self) for f in problem.functions]

    def values(self, points: Tensor) -> Tensor:
        """Every function at points (..., D): (..., F)."""
        rows = points.reshape(points.shape[:-1].numel(), points.shape[-1])
        parts = torch.stack([evaluate(rows) for evaluate in self._evaluate], -1)
        return parts.reshape(*points.shape[:-1], len(self._evaluate))

    def gradients(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """The values (R, F) at points (R, D) and their derivatives (R, F, D)."""
        with torch.enable_grad():
            x = points.detach().requires_grad_(True)
            values = self.values(x)
            parts = [
                torch.autograd.grad(value.sum(), x, retain_graph=True)[0]
                for value in values.unbind(-1)
            ]
        return values.detach(), torch.stack(parts, -2)

    def tensor(self, values: object, dtype: torch.dtype | None = None) -> Tensor:
        """Numbers on the device, by default in the precision of the points."""
        return torch.as_tensor(np.asarray(values), dtype=dtype or self.dtype, device=self.device)

    def places(self, variables: object) -> Tensor:
        """The coordinates of variables."""
        columns = self.slots.columns(np.asarray(variables, dtype=np.int64).tolist())
        return self.tensor(columns, torch.int64)


@singledispatch
def evaluator(function: Function, on: Functions) -> Evaluate:
    """How one function is evaluated; a new kind of function registers its own way here."""
    raise MethodError(f"there is no gradient of a function of kind {type(function).__name__}")


@evaluator.register
def _(function: CutsetNetwork, on: Functions) -> Evaluate:
    return evaluator(function.to_model(), on)


@evaluator.register
def _(function: Distance, on: Functions) -> Evaluate:
    first, second = (on.places(column) for column in function.columns)
    weights = on.tensor(function.weights)
    return lambda z: -(z[:, first] - z[:, second]).abs() @ weights


@evaluator.register
def _(function: NeuralFunction, on: Functions) -> Evaluate:
    module = copy.deepcopy(function.module).to(on.device, on.dtype).eval()
    module.requires_grad_(False)
    places = on.places(function.scope)
    if not function.features:
        return lambda z: module(z[:, places]).reshape(len(z))
    inputs, count = on.tensor(function.known_inputs), len(function.known_inputs)
    number = on.places([function.variables - 1])

    def read(z: Tensor) -> Tensor:
        at = (z[:, number[0]] * count).long()
        found: Tensor = module(torch.cat([z[:, places], inputs[at]], 1)).reshape(len(z))
        return found

    return read


@evaluator.register
def _(function: ClassMargin, on: Functions) -> Evaluate:
    layers = [
        (on.tensor(w.T.copy()), on.tensor(b))
        for w, b in zip(function.network.weights, function.network.biases, strict=True)
    ]
    original, changed = on.places(function.original), on.places(function.changed)

    def logits(x: Tensor) -> Tensor:
        for weight, bias in layers[:-1]:
            x = torch.addmm(bias, x, weight).relu()
        return torch.addmm(layers[-1][1], x, layers[-1][0])

    def margin(z: Tensor) -> Tensor:
        with torch.no_grad():
            before = logits(z[:, original])
        after = logits(z[:, changed])
        if after.shape[1] == 1:
            return torch.where(before > 0, after, -after).squeeze(1)
        own = torch.nn.functional.one_hot(before.argmax(1), after.shape[1]).bool()
        others = after.masked_fill(own, -torch.inf).amax(1)
        return after.masked_fill(~own, 0.0).sum(1) - others

    return margin


@evaluator.register
def _(model: LogLinearModel, on: Functions) -> Evaluate:
    """Tables of one shape together: sum over entries of entry times product of weights."""
    groups: dict[tuple[int, ...], list[tuple[tuple[int, ...], np.ndarray]]] = {}
    for factor in model.factors:
        table = factor.log_table
        finite = table[np.isfinite(table)]
        top = float(finite.max()) if finite.size else 0.0
        raised = np.where(np.isneginf(table), top - on.floor, table)
        groups.setdefault(table.shape, []).append((factor.scope, raised))
    parts = [_group(on, shape, members) for shape, members in groups.items()]
    return lambda z: sum((part(z) for part in parts), z.new_zeros(len(z)))


def _group(
    on: Functions, shape: tuple[int, ...], members: list[tuple[tuple[int, ...], np.ndarray]]
) -> Evaluate:
    tables = on.tensor(np.stack([table for _, table in members]))  # (G, *shape)
    scopes = np.array([scope for scope, _ in members], dtype=np.int64).reshape(len(members), -1)
    places = []  # one (G, k - 1) per axis
    for axis, size in enumerate(shape):
        first = on.slots.first[scopes[:, axis]]
        places.append(on.tensor(first[:, None] + np.arange(size - 1), torch.int64))

    def evaluate(z: Tensor) -> Tensor:
        left = tables.unsqueeze(0)  # (1 or R, G, *the other axes)
        for at in places:
            chosen = z[:, at]  # (R, G, k - 1)
            weights = torch.cat([1.0 - chosen.sum(-1, keepdim=True), chosen], -1)
            spread = weights.reshape(*weights.shape, *[1] * (left.ndim - 3))
            left = (left * spread).sum(2)
        return left.sum(1).expand(len(z))

    return evaluate
