"""A message network as compiled loops, for rows on a core (`kernels`)."""

from __future__ import annotations

from copy import copy

import numpy as np
from torch import Tensor

from cmpe.arrays import Assignments, Floats
from cmpe.learning.amortised.config import AmortisedConfig
from cmpe.learning.amortised.kernels.passes import message_passes
from cmpe.learning.amortised.kernels.pricing import PassWeights
from cmpe.learning.amortised.kernels.sending import PassTables
from cmpe.learning.amortised.networks import SURE, network_of
from cmpe.learning.amortised.tables import ModelTables
from cmpe.problem import Problem


class CompiledMessages:
    """The pass of `networks.MessageNetwork` about one model, without torch."""

    def __init__(
        self, tables: ModelTables, parameters: dict[str, Tensor], *, sure: bool = False
    ) -> None:
        self._model = _flat(tables)
        self.use(parameters, sure=sure)

    def use(self, parameters: dict[str, Tensor], *, sure: bool = False) -> None:
        """Other weights; `sure` compares t of nearly rounded answers with q."""
        plain = {k: v.double().cpu().numpy() for k, v in parameters.items()}
        self._net = _weights(plain, SURE if sure else 0.0)

    def like(self, parameters: dict[str, Tensor]) -> CompiledMessages:
        """The same pass about the same model with other weights."""
        other = copy(self)
        other.use(parameters, sure=self._net.sure > 0.0)
        return other

    def predict(self, given: Assignments, limits: Floats) -> tuple[Assignments, Floats]:
        """Rounded answers (B, n) and mu (B, m); given values stay."""
        rows = np.ascontiguousarray(given, dtype=np.int64)
        q = np.ascontiguousarray(limits, dtype=np.float64)
        found, prices = message_passes(self._model, self._net, rows, q)
        return found.astype(np.int32), prices


def untrained(problem: Problem) -> CompiledMessages:
    """The pass of a network that nobody has trained."""
    tables = ModelTables(problem)
    weights = network_of(AmortisedConfig(steps=1, width=1), tables).state_dict()
    return CompiledMessages(tables, dict(weights))


def _flat(tables: ModelTables) -> PassTables:
    sizes, axes, owner, entries = [0], [0], [], []
    for group in tables.groups:
        scopes, size = group.scopes.cpu().numpy(), int(np.prod(group.shape))
        sizes += [size] * len(scopes)
        axes += [scopes.shape[1]] * len(scopes)
        owner.append(scopes.ravel())
        entries.append(group.tables.double().cpu().numpy())
    every = np.concatenate([np.zeros((tables.functions, 0)), *entries], axis=1)
    unary = tables.unary.double().cpu().numpy()
    by = np.concatenate([np.zeros(0, dtype=np.int64), *owner])
    degrees = np.bincount(by, minlength=tables.variables)
    flat = np.concatenate([unary.reshape(tables.functions, -1), every], axis=1)
    return PassTables(
        np.array(tables.problem.objective.cardinalities, dtype=np.int64),
        tables.constant.cpu().numpy(),
        unary.astype(np.float32),
        every.astype(np.float32),
        np.cumsum(sizes),
        np.cumsum(axes),
        by,
        np.concatenate([[0], np.cumsum(degrees)]),
        np.argsort(by, kind="stable"),
        flat @ flat.T / max(1, flat.shape[1]),
        tables.scale,
    )


def _weights(kept: dict[str, Floats], sure: float) -> PassWeights:
    how = [
        np.column_stack([kept[name], kept[f"{name}_by"]])
        for name in ("log_temperature", "log_sharpness", "damping")
    ]
    steps = kept["price_step_by"]
    how.append(np.column_stack([np.zeros(len(steps)), steps]))
    return PassWeights(
        np.stack(how),
        kept["node_in"].astype(np.float32),
        kept["node_bias"].astype(np.float32),
        kept["node_out"].astype(np.float32),
        kept["price_in"],
        kept["price_bias"],
        kept["price_out"],
        kept["price_step"],
        kept["lean"],
        np.stack([*kept["first_in"], kept["first_bias"], kept["first_out"]]),
        float(kept["first_price"]),
        sure,
    )
