"""Problems with cutset networks at relaxed points: every leaf at once, without expanding them.

The multilinear extension of a cutset network needs no tables over its paths:

    h(y) = sum over leaves l of pi_l(y) q_l(y),    pi_l = product over the path of P(y_s = c_ls),

where q_l is the polynomial of the leaf's tree, of order 2, which does not mention the path. All
leaves of all functions are columns of one matrix of coefficients, so that a batch is a few matrix
products. A log-linear function is one leaf without a path.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cmpe.arrays import Floats
from cmpe.learning.losses.relaxation import FLOOR, Monomial, floored
from cmpe.learning.networks.coordinates import Coordinates, Observed
from cmpe.learning.networks.heads import Plain
from cmpe.learning.settings import TRAINING
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.models.tractable.cutset import CutsetNetwork
from cmpe.problem import Problem


class LeafRelaxation:
    """The functions of a problem as sums over leaves; see `RelaxedProblem` for the interface.

    Coordinates are those of the free variables, D, then those of the observed ones, O. A potential
    of 0 counts as `floor` nats below its table's largest finite entry.
    """

    def __init__(self, problem: Problem, *, floor: float = FLOOR, device: str = "cpu") -> None:
        self.problem, self.device = problem, torch.device(device)
        self.free = problem.free
        cards = problem.objective.cardinalities
        self.coordinates = Coordinates([cards[v] for v in self.free], device=device)
        self.head = Plain(self.coordinates)
        self._observed = Coordinates([cards[v] for v in problem.evidence_variables])
        size = self.coordinates.count
        self._first = dict(zip(self.free, self.coordinates.first.tolist(), strict=False)) | {
            v: size + first
            for v, first in zip(
                problem.evidence_variables, self._observed.first.tolist(), strict=False
            )
        }
        self._width = size + self._observed.count
        leaves = list(_leaves(problem))
        self._read_leaves([floored(model, floor) for _, _, model in leaves])
        self._read_paths([context for _, context, _ in leaves])
        owner = np.eye(self.functions)[[function for function, _, _ in leaves]]
        self._owner = self._tensor(owner)  # (C, F)

    @property
    def functions(self) -> int:
        """F: the objective and the constraints."""
        return len(self.problem.functions)

    def _tensor(self, values: NDArray[np.floating]) -> Tensor:
        return torch.as_tensor(values, dtype=torch.float32, device=self.device)

    def _places(self, places: NDArray[np.int64]) -> Tensor:
        return torch.as_tensor(places, device=self.device)

    def _read_leaves(self, models: list[LogLinearModel]) -> None:
        """The coefficients of every leaf's polynomial, by the order of their monomials."""
        found: dict[Monomial, dict[int, float]] = {}
        for column, model in enumerate(models):
            for factor in model.factors:
                for monomial, weight in self._coefficients(factor):
                    weights = found.setdefault(monomial, {})
                    weights[column] = weights.get(column, 0.0) + weight
        self._constant = self._tensor(_dense([found.pop((), {})], len(models))[0])  # (C,)
        self._terms: list[tuple[list[Tensor], _Matrix]] = []
        for order in sorted({len(monomial) for monomial in found}):
            chosen = [monomial for monomial in found if len(monomial) == order]
            at = np.array(chosen, dtype=np.int64).T.copy()  # (order, V)
            rows = [found[monomial] for monomial in chosen]
            matrix = _Matrix(rows, len(models), self.device)
            self._terms.append(([self._places(column) for column in at], matrix))

    def _coefficients(self, factor: Factor) -> Iterator[tuple[Monomial, float]]:
        """c[a] of the table, by the coordinates of its values above 0 (see `relaxation`)."""
        table = factor.log_table.copy()
        for axis in range(table.ndim):
            table = np.moveaxis(table, axis, 0)
            table[1:] -= table[0]
            table = np.moveaxis(table, 0, axis)
        starts = [self._first.get(v, 0) for v in factor.scope]
        for values, weight in np.ndenumerate(table):
            places = [s + a - 1 for s, a in zip(starts, values, strict=True) if a]
            if weight or not places:
                yield tuple(sorted(places)), float(weight)

    def _read_paths(self, contexts: list[NDArray[np.int32]]) -> None:
        """Where each factor of pi_l lies, and how it depends on the coordinates.

        Factors are entries of [1, coordinates, P(value 0) of every variable that is split].
        """
        paths = [[(v, int(c[v])) for v in np.flatnonzero(c >= 0).tolist()] for c in contexts]
        cards = self.problem.objective.cardinalities
        paths = [[(v, k) for v, k in path if cards[v] > 1] for path in paths]
        split = sorted({v for path in paths for v, _ in path})
        depth = max(map(len, paths), default=0)
        places = np.zeros((depth, len(paths)), dtype=np.int64)
        zero = np.zeros((self._width, len(split)))
        for number, v in enumerate(split):
            zero[self._first[v] : self._first[v] + cards[v] - 1, number] = 1.0
        for column, path in enumerate(paths):
            for step, (v, k) in enumerate(path):
                if k:
                    places[step, column] = self._first[v] + k
                else:
                    places[step, column] = 1 + self._width + split.index(v)
        self._path = [self._places(step) for step in places]  # of (C,)
        self._zero = self._tensor(zero)  # (D + O, S)

    def rows(self, evidence: NDArray[np.integer]) -> Observed:
        """What each row of `evidence` (N, |X|) fixes."""
        nothing = np.zeros((len(evidence), self.functions))
        return Observed(self._tensor(nothing), self._tensor(self._observed.of(evidence)))

    def values(self, rows: Observed, points: Tensor) -> Tensor:
        """Every function at `points` (..., D) for the evidence of the same rows: (..., F)."""
        y = rows.after(points)
        leaves = _product(self._factors(y), y[..., :0]) * self._leaf_values(y)  # (..., C)
        return leaves @ self._owner + rows.constant

    def _leaf_values(self, y: Tensor) -> Tensor:
        """q of every leaf: (..., C)."""
        total = self._constant.expand(*y.shape[:-1], -1)
        for at, matrix in self._terms:
            total = total + matrix.times(_product([y[..., k] for k in at], y[..., :0]))
        return total

    def _factors(self, y: Tensor) -> list[Tensor]:
        """The factors of pi, one tensor (..., C) per step of the paths."""
        ones = y.new_ones((*y.shape[:-1], 1))
        known = torch.cat([ones, y, 1.0 - y @ self._zero], -1)
        return [known[..., places] for places in self._path]


class _Matrix:
    """Coefficients (V, C) of monomials in leaves, dense or sparse by size."""

    def __init__(self, rows: list[dict[int, float]], columns: int, device: torch.device) -> None:
        self._columns, self._is_dense = columns, len(rows) * columns <= TRAINING.dense_coefficients
        if self._is_dense:
            matrix = torch.as_tensor(_dense(rows, columns), dtype=torch.float32)
        else:
            places = [(i, j) for i, row in enumerate(rows) for j in row]
            weights = [weight for row in rows for weight in row.values()]
            matrix = torch.sparse_coo_tensor(
                torch.tensor(places).t(),
                torch.tensor(weights, dtype=torch.float32),
                (len(rows), columns),
                check_invariants=True,
            ).coalesce()
        self._matrix = matrix.to(device)

    def times(self, products: Tensor) -> Tensor:
        """(..., V) to (..., C); a sparse matrix stands on the left of a product."""
        if self._is_dense:
            return products @ self._matrix
        flat = products.reshape(-1, products.shape[-1])
        out: Tensor = torch.sparse.mm(self._matrix.t(), flat.t()).t()
        return out.reshape(*products.shape[:-1], self._columns)


def _product(parts: list[Tensor], nothing: Tensor) -> Tensor:
    """The product of tensors; of none, a 1 that fits the batch of `nothing` (..., 0)."""
    return reduce(torch.mul, parts) if parts else nothing.new_ones((*nothing.shape[:-1], 1))


def _dense(rows: list[dict[int, float]], columns: int) -> Floats:
    matrix = np.zeros((len(rows), columns))
    for row, weights in zip(matrix, rows, strict=True):
        row[list(weights)] = list(weights.values())
    return matrix


def _leaves(problem: Problem) -> Iterator[tuple[int, NDArray[np.int32], LogLinearModel]]:
    """(function, context, model) of every leaf of every function."""
    for number, function in enumerate(problem.functions):
        if isinstance(function, CutsetNetwork):
            for leaf, context in enumerate(function.contexts):
                yield number, context, function.leaf_model(leaf)
        else:
            nothing = np.full(problem.variables, -1, dtype=np.int32)
            assert isinstance(function, LogLinearModel)
            yield number, nothing, function
