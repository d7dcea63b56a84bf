"""Check: the most probable explanation under soft evidence beside pyAgrum's and pgmpy's.

    python -m benchmarks.soft_evidence [--cases 100] [--networks alarm insurance child]

Cases are rows sampled from a network: all but `ASKED` variables are observed, half of those have
likelihoods. More are too many for others: pgmpy tabulates their joint distribution. So does this
check with pyAgrum, whose `mpe` ends with the error "Empty tensor" (version 3.3.1). All read one
network. `apart` is the largest distance of the values of both answers in nats, each recomputed
here from the network and the likelihoods; `equal` counts those of one value, because ties may have
different answers.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

import cmpe
from benchmarks.frame import Recorder, parser, print_table
from benchmarks.real_networks import folder

NETWORKS = ("alarm", "insurance", "child")
ASKED = 8  # variables
COLUMNS = ("network", "package", "cases", "equal", "apart")

Case = tuple[dict[str, str], dict[str, list[float]]]  # states, and likelihoods


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser(__doc__)
    options.add_argument("--cases", type=int, default=100, help="of each network and package")
    options.add_argument("--networks", nargs="+", default=list(NETWORKS), help="by name")
    told = options.parse_args(arguments)
    with Recorder("soft_evidence", told, data="the BIF files of pgmpy") as recorder:
        for name in told.networks:
            for package in ("pyagrum", "pgmpy"):
                recorder.add(network=name, package=package, **compared(name, package, told))
                print_table(recorder.records[-1:], COLUMNS)
    return int(any(record["apart"] > 1e-9 for record in recorder.records))


def compared(name: str, package: str, told: Any) -> dict[str, Any]:
    """The values of both answers to the same cases about one network."""
    warnings.simplefilter("ignore")
    answers, net = (_of_pyagrum if package == "pyagrum" else _of_pgmpy)(name)
    rng = np.random.default_rng(told.seed)
    drawn = cmpe.sample(net, told.cases, seed=told.seed).assignments
    rows = [{n: str(net.domain.label(v, row[v])) for v, n in enumerate(net.names)} for row in drawn]
    cases = [_case(rng, net, row) for row in rows]
    problem = cmpe.Problem(net)
    apart = []
    for states, likelihoods in cases:
        ours = cmpe.solve(problem, [{**states, **likelihoods}])
        assert ours.proved.all()
        theirs = answers(states, likelihoods)
        assert all(theirs.get(variable, state) == state for variable, state in states.items())
        apart.append(float(ours.objective[0]) - _value(net, {**states, **theirs}, likelihoods))
    return {
        "cases": len(apart),
        "equal": sum(abs(difference) <= 1e-9 for difference in apart),
        "apart": max(map(abs, apart)),
    }


def _case(rng: np.random.Generator, net: cmpe.LogLinearModel, row: dict[str, str]) -> Case:
    """Which variables of a sampled row are known, and likelihoods of some others."""
    order = [net.names[v] for v in rng.permutation(net.variables)]
    likelihoods = {}
    for variable in order[: ASKED // 2]:
        size = net.cardinalities[net.domain.variable(variable)]
        likelihoods[variable] = np.round(0.98 * rng.dirichlet(np.ones(size)) + 0.01, 3).tolist()
    return {variable: row[variable] for variable in order[ASKED:]}, likelihoods


def _value(
    net: cmpe.LogLinearModel, states: dict[str, str], likelihoods: dict[str, list[float]]
) -> float:
    """log P of an assignment plus its log-likelihoods."""
    domain = net.domain
    values = [domain.state(v, states[name]) for v, name in enumerate(net.names)]
    own = [np.log(likelihoods[name][values[domain.variable(name)]]) for name in likelihoods]
    return float(net.value(values)[0] + sum(own))


def _of_pyagrum(name: str) -> tuple[Any, cmpe.LogLinearModel]:
    """What answers a case, and the network as pyAgrum has it."""
    import tempfile
    from pathlib import Path

    import pyagrum

    net = cmpe.read_model(folder() / f"{name}.bif.gz").to_model()
    states = [[f"s{a}" for a in range(k)] for k in net.cardinalities]  # pyAgrum reads not all names
    with tempfile.TemporaryDirectory() as scratch:
        plain = Path(scratch, "network.bif")
        cmpe.write_model(net.named(net.names, states), plain)
        network = pyagrum.loadBN(str(plain))

    def answer(known: dict[str, str], likelihoods: dict[str, list[float]]) -> dict[str, str]:
        engine = pyagrum.LazyPropagation(network)
        for variable, finding in (*known.items(), *likelihoods.items()):
            engine.addEvidence(variable, finding)
        asked = set(network.names()) - set(known)
        engine.addJointTarget(asked)
        best = engine.jointPosterior(asked).argmax()[0][0]
        return {name: network.variable(name).label(value) for name, value in best.items()}

    return answer, cmpe.LogLinearModel.from_pyagrum(network)


def _of_pgmpy(name: str) -> tuple[Any, cmpe.LogLinearModel]:
    """The same of pgmpy."""
    logging.disable(logging.INFO)
    from pgmpy.factors.discrete import TabularCPD
    from pgmpy.inference import VariableElimination
    from pgmpy.utils import get_example_model

    network = get_example_model(name)
    states = {v: network.get_cpds(v).state_names[v] for v in network.nodes}

    def answer(known: dict[str, str], likelihoods: dict[str, list[float]]) -> dict[str, str]:
        virtual = [
            TabularCPD(v, len(own), [[weight] for weight in own], state_names={v: states[v]})
            for v, own in likelihoods.items()
        ]
        asked = [v for v in network.nodes if v not in known]
        engine = VariableElimination(network.copy())
        return dict(engine.map_query(asked, known, virtual_evidence=virtual, show_progress=False))

    return answer, cmpe.LogLinearModel.from_pgmpy(network)


if __name__ == "__main__":
    sys.exit(main())
