"""Problems with neural functions, distances or continuous variables at relaxed points.

The same face as `RelaxedProblem`: every function of a batch of points, with gradients, whatever its
kind (`tensor.functions.Functions`).
"""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cmpe.errors import MethodError
from cmpe.learning.losses.leaves import LeafRelaxation
from cmpe.learning.losses.relaxation import FLOOR, RelaxedProblem
from cmpe.learning.networks.coordinates import Coordinates, Observed
from cmpe.learning.networks.heads import Plain, Residual
from cmpe.models.distance import Distance
from cmpe.models.neural import Slots
from cmpe.problem import Problem
from cmpe.tensor.functions import Functions


def relaxation_of(
    problem: Problem, *, floor: float = FLOOR, device: str = "cpu", head: str = "plain"
) -> RelaxedProblem:
    """The relaxation that suits a problem's functions; all kinds have the same face."""
    if not problem.has_tables:
        return cast(
            RelaxedProblem, FunctionRelaxation(problem, floor=floor, device=device, head=head)
        )
    if head != "plain":
        raise MethodError(f"head {head} is for problems with a Distance objective")
    if problem.is_log_linear:
        return RelaxedProblem(problem, floor=floor, device=device)
    return cast(RelaxedProblem, LeafRelaxation(problem, floor=floor, device=device))


class FunctionRelaxation:
    """Functions of any kind; see `RelaxedProblem` for the interface."""

    def __init__(
        self, problem: Problem, *, floor: float = FLOOR, device: str = "cpu", head: str = "plain"
    ) -> None:
        self.problem, self.device, self.free = problem, torch.device(device), problem.free
        self._functions = Functions(problem, device=device, floor=floor)
        cards = np.asarray(problem.objective.cardinalities)
        smooth = np.isin(np.arange(len(cards)), problem.continuous)
        free, observed = list(self.free), list(problem.evidence_variables)
        self.coordinates = Coordinates(cards[free].tolist(), smooth[free], device=device)
        self._observed = Slots(cards[observed].tolist())
        every = self._functions.slots
        order = np.concatenate([every.columns(free), every.columns(observed)])
        self._order = torch.as_tensor(np.argsort(order), device=device)
        self.head = self._made(head)

    def _made(self, head: str) -> Plain:
        if head == "residual":
            return Residual(self.coordinates, torch.as_tensor(self._partners(), device=self.device))
        return Plain(self.coordinates)

    def _partners(self) -> NDArray[np.int64]:
        """For each free coordinate, that of its partner among the observed ones."""
        objective = self.problem.objective
        found: dict[int, int] = {}
        if isinstance(objective, Distance):
            for i, j in objective.pairs:
                found |= {i: j, j: i}
        firsts = self._observed.first.tolist()
        place = dict(zip(self.problem.evidence_variables, firsts, strict=False))
        partners = [place.get(found.get(v, -1), -1) for v in self.free]
        if not partners or min(partners) < 0:
            raise MethodError(
                "head residual needs a Distance objective that pairs every free variable with "
                "an observed one"
            )
        return np.array(partners, dtype=np.int64)

    @property
    def functions(self) -> int:
        """F: the objective and the constraints."""
        return len(self.problem.functions)

    def rows(self, evidence: NDArray[np.generic]) -> Observed:
        """What each row of `evidence` (N, |X|) fixes."""
        constant = torch.zeros((len(evidence), self.functions), device=self.device)
        given = torch.as_tensor(self._observed.of(evidence), dtype=torch.float32)
        return Observed(constant, given.to(self.device))

    def values(self, rows: Observed, points: Tensor) -> Tensor:
        """Every function at `points` (..., D) for the evidence of the same rows: (..., F)."""
        return self._functions.values(self._everything(rows, points)) + rows.constant

    def _everything(self, rows: Observed, points: Tensor) -> Tensor:
        """The coordinates of all variables, in their order: (..., D + O)."""
        return rows.after(points)[..., self._order]
