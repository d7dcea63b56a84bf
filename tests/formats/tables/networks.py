"""Bayesian networks that the tests of formats share."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cmpe import LogLinearModel, read_model
from cmpe.errors import FormatError
from tests.refusals import refused


def random_network(seed: int, count: int = 6, least: int = 1) -> LogLinearModel:
    """Random tables with zeros, named variables and states."""
    rng = np.random.default_rng(seed)
    cards = [int(k) for k in rng.integers(least, 4, count)]
    names = [f"v{v}" for v in range(count)]
    states = [[f"s{v}_{k}" for k in range(size)] for v, size in enumerate(cards)]
    tables = []
    for v in range(count):
        parents = rng.permutation(v)[: int(rng.integers(0, min(v, 3) + 1))].tolist()
        table = rng.dirichlet(np.ones(cards[v]), size=[cards[u] for u in parents])
        if cards[v] > 1 and rng.random() < 0.3:
            table[..., 0] += table[..., 1]
            table[..., 1] = 0.0
        with np.errstate(divide="ignore"):
            tables.append(((*parents, v), np.log(table)))
    return LogLinearModel.from_tables(cards, tables, names, states)


def refused_file(path: Path, text: str, message: str) -> None:
    """A file of this text is refused in one line that holds the message."""
    path.write_text(text)
    assert message in refused(lambda: read_model(path), kind=FormatError)


def same(first: LogLinearModel, second: LogLinearModel, tolerance: float = 1e-9) -> bool:
    """Whether two models over the same domain have the same values everywhere."""
    from tests.problems import all_assignments

    rows = all_assignments(first.cardinalities)
    one, two = first.value(rows), second.value(rows)
    return bool(np.allclose(one, two, rtol=0, atol=tolerance))
