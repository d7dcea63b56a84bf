"""`NeuralSolver.export`: a trained network as a `torch.export` program.

It runs without this package. It reads rows of evidence as whole numbers (B, |X|) and margins (B,),
and returns the relaxed answers' coordinates (B, D), each free variable's most probable value
(B, n), and the predicted multipliers (B, m; m = 0 where the network predicts none).
"""

from __future__ import annotations

import io
from pathlib import Path

import torch
from torch import Tensor, nn

from cmpe.errors import MethodError
from cmpe.formats.text import atomic_writer
from cmpe.learning.networks.modules import ModuleNetwork
from cmpe.learning.networks.networks import evidence_places, with_margin_input
from cmpe.learning.prediction import Predictor


class Exported(nn.Module):
    """Encoding, network and rounding in one module."""

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        self._network, self._relaxation = predictor.network, predictor.relaxation
        self._config = predictor.trained.config
        if isinstance(self._network, ModuleNetwork):
            raise MethodError("a network of yours is exported by torch.export itself")
        if self._config.head != "plain" or predictor.problem.continuous:
            raise MethodError(
                "only networks with head plain and variables of whole numbers can be exported"
            )
        for name, value in predictor.trained.parameters.items():
            self.register_buffer(name, value)
        places = evidence_places(predictor.problem)
        self._names = list(predictor.trained.parameters)
        self.register_buffer("owner", torch.as_tensor(places.owner))
        self.register_buffer("value", torch.as_tensor(places.value))
        self.register_buffer("chance", torch.as_tensor(1.0 / (places.sizes + 1.0)[places.owner]))

    def forward(self, evidence: Tensor, margin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Relaxed coordinates, most probable values, multipliers."""
        owner, value, chance = (self.get_buffer(n) for n in ("owner", "value", "chance"))
        chosen = evidence.index_select(1, owner)
        x = 2.0 * ((chosen == value).float() - chance.float())
        x = torch.where(chosen >= 0, x, torch.zeros_like(x))
        encoded = with_margin_input(x.unsqueeze(0), margin.unsqueeze(0), self._config)
        weights = {name: self.get_buffer(name) for name in self._names}
        outputs = self._network(weights, encoded)
        places = self._relaxation.coordinates
        points = places.probabilities(outputs.logits[0])
        none = points.new_zeros((points.shape[0], 0))
        mu = none if outputs.multipliers is None else outputs.multipliers[0]
        return points, places.most_probable(points), mu


def export(predictor: Predictor, path: Path | str) -> None:
    """Write a `.pt2` program; read it back with `torch.export.load(path).module()`."""
    if Path(path).suffix != ".pt2":
        raise MethodError(f"{path}: an exported network ends in .pt2")
    module = Exported(predictor).eval()
    columns = len(predictor.problem.evidence_variables)
    example = (torch.zeros((2, columns), dtype=torch.int64), torch.zeros(2))
    rows = torch.export.Dim("rows", min=1)
    program = torch.export.export(module, example, dynamic_shapes=({0: rows}, {0: rows}))
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    with atomic_writer(path) as stream:
        stream.write(buffer.getvalue())
