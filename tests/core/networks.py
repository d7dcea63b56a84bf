"""Networks of tables for tests of consistency, branching and dominance, and their enumeration."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from cmpe.core import branching
from cmpe.core.consistency import Net, NetworkState


@dataclass
class Given:
    """h and each t_j as tables of equal scopes, and the limits q_j."""

    cards: list[int]
    scopes: list[tuple[int, ...]]  # of two and more variables
    alone: list[np.ndarray]  # (1 + m, |v|) each
    tables: list[np.ndarray]  # (1 + m, ...) each
    base: np.ndarray  # (1 + m,)
    limits: np.ndarray  # (m,)

    @property
    def every(self) -> np.ndarray:
        """All assignments (N, n)."""
        return np.array(list(itertools.product(*map(range, self.cards))), dtype=np.int64)

    def value(self, which: int, z: np.ndarray) -> float:
        total = self.base[which] + sum(a[which, z[v]] for v, a in enumerate(self.alone))
        for scope, table in zip(self.scopes, self.tables, strict=True):
            total += table[(which, *z[list(scope)])]
        return float(total)

    def best(self) -> float:
        """The greatest h of a feasible assignment."""
        found = -np.inf
        for z in self.every:
            if self.is_feasible(z):
                found = max(found, self.value(0, z))
        return found

    def is_feasible(self, z: np.ndarray) -> bool:
        """Ties at q are feasible, whatever rounding makes of them."""
        return all(self.value(1 + j, z) <= q + 1e-9 for j, q in enumerate(self.limits))


def random_given(seed: int, constraints: int = 0, *, coarse: bool = False) -> Given:
    """Mixed cardinalities, scopes of two to four, zeros, ties (`coarse`)."""
    rng = np.random.default_rng(seed)
    cards = rng.integers(1, 5, int(rng.integers(1, 6))).tolist()
    every = [s for k in (2, 3, 4) for s in itertools.combinations(range(len(cards)), k)]
    chosen = rng.permutation(len(every))[: int(rng.integers(0, 7))] if every else []
    scopes = [every[i] for i in sorted(chosen)]

    def numbers(shape):
        whole = (1 + constraints, *shape)
        out = rng.integers(-1, 2, whole).astype(float) if coarse else rng.normal(size=whole)
        out[0][rng.random(shape) < (0.1 if seed % 2 else 0.0)] = -np.inf
        return out

    base = rng.normal(size=1 + constraints)
    limits = base[1:] + rng.integers(-1, 2, constraints)
    alone = [numbers((k,)) for k in cards]
    tables = [numbers([cards[v] for v in s]) for s in scopes]
    return Given(cards, scopes, alone, tables, base, limits)


def network_of(given: Given) -> tuple[Net, branching.Judged, NetworkState]:
    """The arrays of compiled code; the tables are those of h."""
    cards, scopes, count = np.array(given.cards), given.scopes, len(given.cards)
    m = len(given.limits)
    place = np.concatenate([[0], np.cumsum(cards)])
    slots = [(f, v) for f, scope in enumerate(scopes) for v in scope]
    variable = np.array([v for _, v in slots], dtype=np.int64)
    table = np.array([f for f, _ in slots], dtype=np.int64)
    strides = [np.cumprod([1, *cards[list(s)][:0:-1]])[::-1] for s in scopes]
    sizes = [int(np.prod(cards[list(s)])) for s in scopes]
    ahead = np.array([[v < max(scopes[f]), v > min(scopes[f])] for f, v in slots], dtype=np.int64)
    ahead = np.ascontiguousarray(ahead.reshape(-1, 2).T)
    most = [max(ahead[w][variable == v].sum() for w in (0, 1)) for v in range(count)]
    starts = np.cumsum([0, *map(len, scopes)])
    alone = np.concatenate(given.alone, axis=1)
    empty = [np.zeros((1 + m, 0))]
    values = np.concatenate([*empty, *(t.reshape(1 + m, -1) for t in given.tables)], axis=1)
    net = Net(
        place=place,
        offsets=np.cumsum([0, *sizes]),
        starts=starts,
        variable=variable,
        stride=np.concatenate([np.zeros(0), *strides]).astype(np.int64),
        sends=np.cumsum([0, *cards[variable]])[:-1],
        table=table,
        own=np.cumsum([0, *np.bincount(variable, minlength=count)]),
        slots=np.argsort(variable, kind="stable"),
        order=np.arange(count),
        ahead=ahead,
        share=1.0 / np.maximum(1.0, most),
        alone=alone[0].copy(),
        values=values[0].copy(),
    )
    state = NetworkState(
        size=cards.copy(),
        left=np.concatenate([np.arange(k) for k in cards]),
        belief=np.zeros(place[-1]),
        message=np.zeros(int(cards[variable].sum())),
        best=np.zeros(count + len(scopes)),
        dirty=np.zeros(count, dtype=np.int8),
        levels=np.array([np.inf, -np.inf, 0.0, 0.0]),
        scratch=np.zeros((2, int(cards.max()))),
        axes=np.zeros((1, 4), dtype=np.int64),
    )
    judged = branching.Judged(alone, values, given.base.copy(), given.limits + 1e-9)
    return net, judged, state


def domains(net: Net, state: NetworkState) -> list[set[int]]:
    """The values left of each variable."""
    return [
        set(state.left[p : p + k].tolist()) for p, k in zip(net.place, state.size, strict=False)
    ]
