"""h and every t_j at relaxed points, differentiable, for whole batches (paper §2).

A relaxed point gives each free variable a distribution. Its coordinates are the probabilities
of the values 1, 2, ... (value 0 has what is left), so a binary variable has one. A table's
multilinear extension is then a polynomial in the coordinates:

    T(y) = sum over a of T[a] * product over i of P(y_i = a_i)
         = sum over a of c[a] * product over the i with a_i != 0 of y_{i, a_i}

where c comes from T by differences along each axis. Evidence moves the constant and the linear
coefficients; those of higher order move only where a table joins observed and several free
variables. Quadratic terms that do not move are one symmetric matrix S for all rows:

    h(y) = c + y . (l + S y / 2),   whose gradient l + S y the forward pass has computed already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import reduce
from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from cmpe.arrays import Floats
from cmpe.learning.networks.coordinates import Coordinates
from cmpe.learning.networks.heads import Plain
from cmpe.learning.settings import TRAINING
from cmpe.models.conditioning import Conditioning
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.problem import Problem

FLOOR = 20.0

Monomial = tuple[int, ...]  # coordinates, ascending


class Coefficients(NamedTuple):
    """What evidence makes of the polynomials: one row per evidence row, F = 1 + m functions."""

    constant: Tensor  # (N, F)
    linear: Tensor  # (N, F, D)
    moving: Tensor  # (N, F, V): of the monomials of higher order that depend on the evidence

    def take(self, rows: Tensor) -> Coefficients:
        """Those of `rows`, of any shape."""
        return Coefficients(*(part[rows] for part in self))


class RelaxedProblem:
    """The functions of a problem as polynomials of the coordinates of its free variables.

    A potential of 0 counts as `floor` nats below its table's largest finite entry: values here
    serve training; reported values come from the problem.
    """

    def __init__(self, problem: Problem, *, floor: float = FLOOR, device: str = "cpu") -> None:
        self.problem, self.device = problem, torch.device(device)
        finite = all(f.is_finite for f in problem.functions)
        self._structure = (
            problem.conditioning
            if finite
            else Conditioning(
                [floored(f, floor) for f in problem.models], problem.evidence_variables
            )
        )
        self.free = self._structure.free
        cards = [problem.objective.cardinalities[v] for v in self.free]
        self.coordinates = Coordinates(cards, device=device)
        self.head = Plain(self.coordinates)
        self._read_structure()

    @property
    def functions(self) -> int:
        """F: the objective and the constraints."""
        return len(self.problem.functions)

    def _read_structure(self) -> None:
        """Find the monomials, which of them move with the evidence, and the fixed ones' terms."""
        monomials, self._differences = _monomials(self._structure, self.coordinates.first)
        moves = np.zeros(len(monomials), dtype=bool)
        varying = self._differences[_varying_entries(self._structure)]
        moves[np.unique(varying.indices)] = True
        order = np.array([len(m) for m in monomials])
        self._linear = np.flatnonzero(order == 1)
        self._linear_at = np.array([monomials[k][0] for k in self._linear], dtype=np.int64)
        self._moving = np.flatnonzero((order >= 2) & moves)
        some = np.zeros((1, len(self._structure.observed)), dtype=np.int32)
        tables = [self._structure.tables(w, some) for w in range(self.functions)]
        fixed = np.stack([(t @ self._differences)[0] for t in tables])  # (F, M)
        pairs = np.flatnonzero((order == 2) & ~moves)
        self._quadratic = self._symmetric([monomials[k] for k in pairs], fixed[:, pairs])
        higher = np.flatnonzero((order >= 3) & ~moves)
        self._terms = [
            *(_Terms(monomials, k, fixed[:, k], self.device) for k in _by_order(higher, order)),
            *(
                _Terms(monomials, k, np.searchsorted(self._moving, k), self.device)
                for k in _by_order(self._moving, order)
            ),
        ]

    def _symmetric(self, pairs: list[Monomial], values: Floats) -> Tensor:
        """S of every function side by side: (D, F D), dense or sparse by size."""
        size, count = self.coordinates.count, self.functions
        i, j = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        rows = np.concatenate([np.concatenate([i, j])] * count)
        columns = np.concatenate([np.concatenate([j, i]) + w * size for w in range(count)])
        both = np.concatenate([np.concatenate([v, v]) for v in values])
        shape = (size, count * size)
        if size <= TRAINING.dense_coordinates:
            matrix = sparse.coo_matrix((both, (rows, columns)), shape).toarray()
            return torch.as_tensor(matrix, dtype=torch.float32, device=self.device)
        # transposed: a sparse matrix stands on the left of a product
        return torch.sparse_coo_tensor(
            torch.as_tensor(np.stack([columns, rows])),
            torch.as_tensor(both, dtype=torch.float32),
            shape[::-1],
            device=self.device,
            check_invariants=True,
        ).coalesce()

    def rows(self, evidence: NDArray[np.integer]) -> Coefficients:
        """The coefficients that each row of `evidence` (N, |X|) leaves."""
        count = len(evidence)
        constant = np.zeros((count, self.functions), dtype=np.float32)
        linear = np.zeros((count, self.functions, self.coordinates.count), dtype=np.float32)
        moving = np.zeros((count, self.functions, len(self._moving)), dtype=np.float32)
        for start in range(0, count, TRAINING.relaxed_rows):
            part = slice(start, start + TRAINING.relaxed_rows)
            for w in range(self.functions):
                found = self._structure.tables(w, evidence[part]) @ self._differences
                constant[part, w] = found[:, 0]
                linear[part, w, self._linear_at] = found[:, self._linear]
                moving[part, w] = found[:, self._moving]
        return Coefficients(
            *(torch.as_tensor(a, device=self.device) for a in (constant, linear, moving))
        )

    def values(self, rows: Coefficients, points: Tensor) -> Tensor:
        """Every function at `points` (..., D) for coefficients of the same rows: (..., F)."""
        total = _quadratic(points, rows.linear, self._quadratic) + rows.constant
        for terms in self._terms:
            total = total + terms.values(points, rows.moving)
        return total


def floored(model: LogLinearModel, floor: float) -> LogLinearModel:
    """-inf becomes `floor` below the table's largest finite entry (0 where it has none)."""
    return LogLinearModel(
        model.cardinalities,
        tuple(Factor(f.scope, _raised(f.log_table, floor)) for f in model.factors),
    )


def _raised(table: Floats, floor: float) -> Floats:
    finite = table[np.isfinite(table)]
    top = float(finite.max()) if finite.size else 0.0
    return np.where(np.isneginf(table), top - floor, table)


class _Terms:
    """Monomials of one order with their fixed coefficients (F, V), or with the columns (V,) of
    those that move with the evidence."""

    def __init__(
        self,
        monomials: list[Monomial],
        which: NDArray[np.intp],
        weights: NDArray[np.float64] | NDArray[np.intp],
        device: torch.device,
    ) -> None:
        at = np.array([monomials[k] for k in which], dtype=np.int64)  # (V, order)
        self._at = [torch.as_tensor(column, device=device) for column in at.T.copy()]
        fixed = weights.ndim == 2
        kind = torch.float32 if fixed else torch.int64
        numbers = torch.as_tensor(weights, dtype=kind, device=device)
        self._weights: Callable[[Tensor], Tensor] = (
            (lambda moving: numbers) if fixed else (lambda moving: moving[..., numbers])
        )

    def values(self, points: Tensor, moving: Tensor) -> Tensor:
        """The sum of the monomials' values: (..., F)."""
        products = reduce(torch.mul, [points[..., k] for k in self._at])
        return (self._weights(moving) * products.unsqueeze(-2)).sum(-1)


def _by_order(which: NDArray[np.intp], order: NDArray[np.integer]) -> Iterable[NDArray[np.intp]]:
    return (which[order[which] == k] for k in np.unique(order[which]))


def _varying_entries(structure: Conditioning) -> NDArray[np.intp]:
    """The table entries that depend on the evidence, in any function."""
    targets = [
        gather.targets[gather.entries[f] : gather.entries[f + 1]]
        for gather in structure.gathers
        for f in np.flatnonzero(np.diff(gather.starts) > 0)
    ]
    return np.unique(np.concatenate([np.zeros(0, np.int64), *targets]))


def _monomials(
    structure: Conditioning, first: NDArray[np.int64]
) -> tuple[list[Monomial], sparse.csr_matrix]:
    """The monomials, the constant first, and the matrix (E, M) from table entries to them."""
    number = {v: i for i, v in enumerate(structure.free)}
    known: dict[Monomial, int] = {(): 0}
    parts: list[tuple[NDArray[np.int64], NDArray[np.int64], Floats]] = []
    for scope, offset in zip(structure.scopes, structure.layout.offsets[:-1], strict=True):
        cards = [structure.cardinalities[v] for v in scope]
        starts = [int(first[number[v]]) for v in scope]
        columns = [
            known.setdefault(
                tuple(s + a - 1 for s, a in zip(starts, values, strict=True) if a), len(known)
            )
            for values in product(*map(range, cards))
        ]
        matrix: Floats = np.eye(1)
        for k in cards:
            matrix = np.asarray(np.kron(matrix, _difference(k)), dtype=np.float64)
        entries = sparse.coo_matrix(matrix)
        parts.append((entries.row + int(offset), np.array(columns)[entries.col], entries.data))
    rows, columns_, data = (np.concatenate(column) for column in zip(*parts, strict=True))
    shape = (len(structure.layout.values), len(known))
    return list(known), sparse.coo_matrix((data, (rows, columns_)), shape).tocsr()


def _difference(values: int) -> Floats:
    """From entries T[e] to coefficients c[0] = T[0], c[a] = T[a] - T[0]: (e, a)."""
    matrix = np.eye(values)
    matrix[0, 1:] = -1.0
    return matrix


def _plus_times(linear: Tensor, points: Tensor, matrix: Tensor, weight: float) -> Tensor:
    """linear (..., F, D) + weight * S points of every function."""
    count = linear.shape[:-2].numel()
    rows = points.reshape(count, points.shape[-1])
    if matrix.layout is torch.strided:
        with _whole_float32():
            out = torch.addmm(linear.reshape(count, matrix.shape[1]), rows, matrix, alpha=weight)
        return out.view(linear.shape)
    product: Tensor = _SparseProduct.apply(rows, matrix)  # type: ignore[no-untyped-call]
    return torch.add(linear, product.view(linear.shape), alpha=weight)


@contextmanager
def _whole_float32() -> Iterator[None]:
    """Networks may be multiplied in TF32, values of functions may not: its ten bits would move
    an f of 1,000 nats by one."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


class _SparseProduct(torch.autograd.Function):
    """points (R, D) times a sparse (F D, D) matrix from the left, and back."""

    @staticmethod
    def forward(ctx, points, matrix):  # type: ignore[no-untyped-def]
        """(matrix points')'."""
        ctx.matrix = matrix
        return torch.sparse.mm(matrix, points.t().contiguous()).t()

    @staticmethod
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        """Each block of the matrix is symmetric: add up its products with the blocks."""
        size = ctx.matrix.shape[1]
        total = torch.zeros((gradient.shape[0], size), device=gradient.device)
        blocks = gradient.reshape(gradient.shape[0], -1, size)
        for w in range(blocks.shape[1]):
            both = torch.sparse.mm(ctx.matrix, blocks[:, w].t().contiguous()).t()
            total = total + both.reshape(len(gradient), -1, size)[:, w]
        return total, None


class _Quadratic(torch.autograd.Function):
    """y . (l + S y / 2) of every function: its gradient l + S y is the forward pass's product."""

    @staticmethod
    def forward(ctx, points, linear, matrix):  # type: ignore[no-untyped-def]
        """(..., F)."""
        half = _plus_times(linear, points, matrix, 0.5)
        ctx.save_for_backward(half, linear)
        return (half * points.unsqueeze(-2)).sum(-1)

    @staticmethod
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        """l + S y = 2 (l + S y / 2) - l."""
        half, linear = ctx.saved_tensors
        fields = torch.sub(half, linear, alpha=0.5).unbind(-2)
        first, *others = (2.0 * gradient).unsqueeze(-1).unbind(-2)
        total = first * fields[0]
        for weight, field in zip(others, fields[1:], strict=True):
            total.addcmul_(weight, field)
        return total, None, None


def _quadratic(points: Tensor, linear: Tensor, matrix: Tensor) -> Tensor:
    value: Tensor = _Quadratic.apply(points, linear, matrix)  # type: ignore[no-untyped-call]
    return value
