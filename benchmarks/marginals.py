"""Table: posterior marginals of Bayesian networks beside pyAgrum's, row by row.

    python -m benchmarks.marginals [--rows 100] [--networks alarm insurance hepar2 child water]

Of each network: rows sampled from it, of which a random fifth of the variables is observed, the
same in all rows. `difference` is the largest of any marginal of any row. CPU seconds a row:
`cmpe_ms` is one call for all rows (compiled before), `pyagrum_ms` lazy propagation, a call a row.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyagrum

import cmpe
from benchmarks.frame import Recorder, parser, print_table
from benchmarks.real_networks import folder
from cmpe.formats.tables.bif import read_bif

NETWORKS = ("alarm", "insurance", "hepar2", "child", "water")
SHARE = 0.2  # of the variables, observed
COLUMNS = ("network", "variables", "rows", "difference", "cmpe_ms", "pyagrum_ms")


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser(__doc__)
    options.add_argument("--rows", type=int, default=100, help="of each network")
    options.add_argument("--networks", nargs="+", default=list(NETWORKS), help="by name")
    told = options.parse_args(arguments)
    with Recorder("marginals", told) as recorder:
        for name in told.networks:
            file = next(folder().rglob(f"{name}.bif*"))
            recorder.add(network=name, **compared(file, told.rows, told.seed))
    print_table(recorder.records, COLUMNS)
    return int(any(record["difference"] > 1e-9 for record in recorder.records))


def compared(file: Path, count: int, seed: int) -> dict[str, Any]:
    """Both packages' marginals of the same rows of one network."""
    net = read_bif(file)
    states = [[f"s{a}" for a in range(k)] for k in net.cardinalities]  # pyAgrum reads not all names
    net = net.named(net.names, states)
    with tempfile.TemporaryDirectory() as scratch:
        plain = Path(scratch, "network.bif")
        cmpe.write_model(net, plain)
        network = pyagrum.loadBN(str(plain))
    net = cmpe.LogLinearModel.from_pyagrum(network)  # it reads probabilities in single precision
    domain = net.domain
    rng = np.random.default_rng(seed)
    seen = np.sort(rng.choice(net.variables, round(SHARE * net.variables), replace=False))
    drawn = cmpe.sample(net, count, seed=seed).assignments
    rows = np.full_like(drawn, -1)
    rows[:, seen] = drawn[:, seen]
    problem = cmpe.Problem(net)
    cmpe.probability(problem, rows[:2])
    begin = time.process_time()
    found = cmpe.probability(problem, rows)
    own = time.process_time() - begin
    theirs, seconds = pyagrum_marginals(network, domain, rows)
    pairs = [(found.marginals[name], theirs[name]) for name in theirs]
    return {
        "variables": net.variables,
        "rows": count,
        "difference": max(float(abs(mine - other).max()) for mine, other in pairs),
        "cmpe_ms": 1e3 * own / count,
        "pyagrum_ms": 1e3 * seconds / count,
    }


def pyagrum_marginals(
    network: Any, domain: cmpe.Domain, rows: np.ndarray[Any, Any]
) -> tuple[dict[str, np.ndarray[Any, Any]], float]:
    """The marginals (B, states) of the free variables by name, and the seconds they took."""
    engine = pyagrum.LazyPropagation(network)
    free = np.flatnonzero((rows < 0).all(axis=0)).tolist()
    out = {domain.name(v): np.empty((len(rows), domain.cardinalities[v])) for v in free}
    orders = {
        name: [list(network.variable(name).labels()).index(s) for s in domain.states_of(v)]
        for v, name in zip(free, out, strict=True)
    }
    begin = time.process_time()
    for i, row in enumerate(rows):
        known = {
            domain.name(v): domain.label(v, int(row[v])) for v in np.flatnonzero(row >= 0).tolist()
        }
        engine.setEvidence(known)
        engine.makeInference()
        for name, order in orders.items():
            out[name][i] = engine.posterior(name).toarray()[order]
    return out, time.process_time() - begin


if __name__ == "__main__":
    sys.exit(main())
