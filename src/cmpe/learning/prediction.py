"""One pass of a trained network: from rows of evidence to relaxed points, answers and multipliers.

A `Predictor` is the network on one device. It rounds, and does nothing else: what repairs,
improves and certifies its answers is `solver.NeuralSolver`.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from cmpe.arrays import Assignments, Floats
from cmpe.errors import MethodError
from cmpe.learning.losses.functions import relaxation_of
from cmpe.learning.losses.relaxation import Coefficients, RelaxedProblem
from cmpe.learning.networks.modules import ModuleNetwork, inputs_of
from cmpe.learning.networks.networks import Network, with_margin_input
from cmpe.learning.runs import Trained
from cmpe.learning.settings import TRAINING
from cmpe.problem import Instances, Problem


@dataclass(frozen=True, eq=False)
class Predictor:
    """A trained network on a device; `shared` is a relaxation of the problem made elsewhere."""

    problem: Problem
    trained: Trained
    device: str = "cpu"
    shared: RelaxedProblem | None = None

    @cached_property
    def relaxation(self) -> RelaxedProblem:
        """The problem's functions at relaxed points."""
        if self.shared is not None:
            return self.shared
        config = self.trained.config
        return relaxation_of(self.problem, floor=config.floor, device=self.device, head=config.head)

    @cached_property
    def network(self) -> Network | ModuleNetwork:
        """The network that the weights belong to."""
        none = np.zeros((0, len(self.problem.evidence_variables)), dtype=np.int32)
        config, own = self.trained.config, self.trained.module
        read = inputs_of(self.problem, none, config, self.trained.reads)
        width = math.prod(self.trained.inputs) if self.trained.inputs else read.shape[1]
        network: Network | ModuleNetwork = Network.of(config, width, self.relaxation)
        if own is not None:
            module = copy.deepcopy(own.module).to(self.device)
            network = ModuleNetwork(module, self.problem, width, len(self.problem.constraints))
        wanted = {name: (1, *shape) for name, shape, _ in network.shapes()}
        found = {name: tuple(value.shape) for name, value in self.trained.parameters.items()}
        if wanted != found:
            raise MethodError("the weights do not fit the network of config.json")
        return network

    @cached_property
    def _parameters(self) -> dict[str, torch.Tensor]:
        return {name: value.to(self.device) for name, value in self.trained.parameters.items()}

    def predict(
        self, instances: Instances, margin: float = 0.0
    ) -> tuple[Assignments, Floats | None]:
        """One pass: rounded assignments (B, n) and the predicted multipliers (B, m)."""
        points, multipliers = self.relaxed(instances, margin)
        places = self.relaxation.coordinates
        values = places.assignments(torch.from_numpy(points))
        return instances.complete(values), multipliers

    @torch.inference_mode()
    def relaxed(
        self, instances: Instances, margin: float = 0.0
    ) -> tuple[NDArray[np.float32], Floats | None]:
        """One pass: the relaxed outputs' coordinates (B, D) and the predicted multipliers."""
        points, prices = [], []
        for start in range(0, len(instances), TRAINING.pass_rows):
            evidence = instances.evidence[start : start + TRAINING.pass_rows]
            asked = torch.full((1, len(evidence)), margin, device=self.device)
            head = self.relaxation.head
            config = self.trained.config
            read = inputs_of(self.problem, evidence, config, self.trained.reads)
            x = with_margin_input(read.to(self.device).unsqueeze(0), asked, config)
            outputs = self.network(self._parameters, x)
            rows = self._rows(evidence) if head.reads_rows else None
            relaxed = head.points(rows, outputs.logits)
            points.append(relaxed[0].cpu().numpy())
            if self.network.constraints == 0:
                prices.append(np.zeros((len(evidence), 0)))
            elif outputs.multipliers is not None:
                prices.append(outputs.multipliers[0].double().cpu().numpy())
        count = self.relaxation.coordinates.count
        whole = np.concatenate([np.zeros((0, count), np.float32), *points])
        return whole, np.concatenate(prices) if prices else None

    def relaxed_violations(self, instances: Instances, margin: float) -> NDArray[np.bool_]:
        """Which relaxed outputs break a constraint when asked to keep `margin`: (B,)."""
        points, _ = self.relaxed(instances, margin)
        rows = self.relaxation.rows(instances.evidence)
        places = torch.from_numpy(points).to(self.device)
        values = self.relaxation.values(rows, places)[:, 1:].double().cpu().numpy()
        over = values - self.problem.limits > self.problem.tolerances
        return np.asarray(over.any(axis=1))

    def _rows(self, evidence: Assignments) -> Coefficients:
        rows = self.relaxation.rows(evidence)
        return type(rows)(*(part.unsqueeze(0) for part in rows))
