"""The nearest flip by encodings that know nothing of the radius: for benchmarks.adversarial_milp.

All minimise sum |x - x'| over the whole box with F_k - F_c >= margin for at least one other class k
(a 0/1 column each), and return what the network itself says of the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from cmpe.bounds.linearization import LinearProgram
from cmpe.bounds.networks.neurons import contrasts
from cmpe.errors import InputError
from cmpe.models.relu import ReluNetwork
from cmpe.solvers.base import Limits
from cmpe.solvers.flips.proof import WANTED
from cmpe.solvers.milp import backend

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Answer:
    """What a method found and proved."""

    image: Floats | None
    distance: float
    bound: float
    nodes: int


def answer_of(
    network: ReluNetwork, image: Floats, found: Floats | None, bound: float, nodes: int
) -> Answer:
    """The distance of `found`, if it really flips; a start that was only a cutoff is no answer."""
    if found is not None:
        found = np.clip(found, 0.0, 1.0)
        if network.decide(found[np.newaxis])[0] != network.decide(image[np.newaxis])[0]:
            return Answer(found, float(np.abs(found - image).sum()), max(0.0, bound), nodes)
    return Answer(None, np.inf, max(0.0, bound), nodes)


def torch_module(network: ReluNetwork) -> Any:
    """The network as the encoders take it."""
    import torch
    from torch import nn

    parts: list[nn.Module] = []
    for weight, bias in zip(network.weights, network.biases, strict=True):
        layer = nn.Linear(weight.shape[1], weight.shape[0]).double()
        with torch.no_grad():
            layer.weight.copy_(torch.tensor(weight))
            layer.bias.copy_(torch.tensor(bias))
        parts += [layer, nn.ReLU()]
    return nn.Sequential(*parts[:-1])


def encoder_scip(network: ReluNetwork, image: Floats, start: Floats | None, limit: float) -> Answer:
    """PySCIPOpt-ML writes the network; SCIP solves."""
    try:
        from pyscipopt import Model, quicksum
        from pyscipopt_ml.add_predictor import add_predictor_constr
    except ImportError:
        raise InputError("needs PySCIPOpt-ML: pip install pyscipopt-ml") from None
    model = Model()
    model.hideOutput()
    model.setParam("limits/time", limit)
    model.setParam("lp/threads", 1)
    inside = np.array([model.addVar(lb=0.0, ub=1.0) for _ in image], dtype=object)
    change = [model.addVar(lb=0.0, ub=1.0) for _ in image]
    out = np.array([model.addVar(lb=None, ub=None) for _ in range(network.outputs)], dtype=object)
    for x, d, value in zip(inside, change, image.tolist(), strict=True):
        model.addCons(d >= x - value)
        model.addCons(d >= value - x)
    add_predictor_constr(model, torch_module(network), inside[np.newaxis], out[np.newaxis])
    rows = contrasts(network, network.decide(image[np.newaxis]))[0]
    targets = [model.addVar(vtype="B") for _ in rows]
    for row, target in zip(rows.tolist(), targets, strict=True):
        contrast = quicksum(w * f for w, f in zip(row, out, strict=True) if w)
        model.addConsIndicator(contrast <= -WANTED, binvar=target)
    model.addCons(quicksum(targets) >= 1)
    model.setObjective(quicksum(change))
    if start is not None:
        model.setObjlimit(float(np.abs(start - image).sum()) + 1e-6)
    model.optimize()
    found = None
    if model.getNSols():
        best = model.getBestSol()
        found = np.array([best[x] for x in inside])
    return answer_of(network, image, found, float(model.getDualbound()), int(model.getNNodes()))


def encoder_gurobi(
    network: ReluNetwork, image: Floats, start: Floats | None, limit: float
) -> Answer:
    """gurobi-machinelearning writes the network; Gurobi solves."""
    try:
        import gurobipy
        from gurobi_ml.torch import add_sequential_constr
    except ImportError:
        raise InputError("needs pip install gurobi-machinelearning") from None
    try:
        with gurobipy.Env(params={"OutputFlag": 0}) as env, gurobipy.Model(env=env) as model:
            model.setParam("TimeLimit", limit)
            model.setParam("Threads", 1)
            inside = model.addMVar((1, len(image)), lb=0.0, ub=1.0)
            change = model.addMVar((1, len(image)), lb=0.0, ub=1.0, obj=1.0)
            out = model.addMVar((1, network.outputs), lb=-gurobipy.GRB.INFINITY)
            model.addConstr(change >= inside - image[np.newaxis])
            model.addConstr(change >= image[np.newaxis] - inside)
            add_sequential_constr(model, torch_module(network), inside, out)
            rows = contrasts(network, network.decide(image[np.newaxis]))[0]
            targets = model.addVars(len(rows), vtype="B")
            for k, row in enumerate(rows):
                contrast = (out[0] * row).sum().item()
                model.addGenConstrIndicator(targets[k], True, contrast <= -WANTED)
            model.addConstr(targets.sum() >= 1)
            if start is not None:
                model.setParam("Cutoff", float(np.abs(start - image).sum()) + 1e-6)
            model.optimize()
            found = np.asarray(inside.X)[0] if model.SolCount else None
            bound, nodes = float(model.ObjBound), int(model.NodeCount)
    except gurobipy.GurobiError as error:
        raise InputError(f"Gurobi needs a licence for this size ({error})") from None
    return answer_of(network, image, found, bound, nodes)


def big_m(
    network: ReluNetwork, image: Floats, start: Floats | None, limit: float, name: str
) -> Answer:
    """One program: every ReLU by a 0/1 column and the bounds of interval arithmetic."""
    program = _big_m_program(network, image, start)
    answer = backend(name)(program, Limits(seconds=limit), None)
    n, found = len(image), None
    if answer.columns is not None:
        found = image + answer.columns[:n] - answer.columns[n : 2 * n]
    bound = np.inf if answer.infeasible else -answer.bound
    return answer_of(network, image, found, float(bound), answer.nodes)


def _big_m_program(network: ReluNetwork, image: Floats, start: Floats | None) -> LinearProgram:
    rows = contrasts(network, network.decide(image[np.newaxis]))[0]
    n, hidden = len(image), [len(b) for b in network.biases[:-1]]
    total = sum(hidden)
    columns = 2 * n + 2 * total + len(rows)  # p, m, activations, phases, targets
    left: list[Floats] = []
    upper: list[Floats] = []
    top = [1.0 - image, image]
    z = np.zeros((len(network.biases[0]), columns))
    z[:, : 2 * n] = np.hstack([network.weights[0], -network.weights[0]])
    constant = network.weights[0] @ image + network.biases[0]
    low, high = _interval(network.weights[0], network.biases[0], np.zeros(n), np.ones(n))
    for depth, size in enumerate(hidden):
        a, s = np.zeros((size, columns)), np.zeros((size, columns))
        first = 2 * n + sum(hidden[:depth])
        a[np.arange(size), first + np.arange(size)] = 1.0
        s[np.arange(size), first + total + np.arange(size)] = 1.0
        below, above = np.minimum(low, 0.0), np.maximum(high, 0.0)
        left += [z - a, a - z - below[:, np.newaxis] * s, a - above[:, np.newaxis] * s]
        upper += [-constant, constant - below, np.zeros(size)]
        top.append(above)
        weight, bias = network.weights[depth + 1], network.biases[depth + 1]
        z, constant = weight @ a, bias
        low, high = _interval(weight, bias, np.maximum(low, 0.0), above)
    most = np.maximum(rows, 0.0) @ high + np.minimum(rows, 0.0) @ low + WANTED
    target = np.zeros((len(rows), columns))
    target[:, columns - len(rows) :] = np.diag(np.maximum(most, 0.0))
    left.append(rows @ z + target)
    upper.append(np.maximum(most, 0.0) - WANTED - rows @ constant)
    one = np.zeros((1, columns))
    one[0, columns - len(rows) :] = -1.0
    cutoff = np.zeros((1, columns))
    cutoff[0, : 2 * n] = 1.0
    reach = n if start is None else float(np.abs(start - image).sum()) + 1e-6
    matrix = csr_array(np.vstack([*left, one, cutoff]))
    limits = np.concatenate([*upper, [-1.0, reach]])
    integer = np.arange(columns) >= 2 * n + total
    return LinearProgram(
        -cutoff[0], 0.0, matrix, np.full(len(limits), -np.inf), limits, np.zeros(columns),
        np.concatenate([*top, np.ones(total + len(rows))]), integer,
    )  # fmt: skip


def _interval(weight: Floats, bias: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    rise, fall = np.maximum(weight, 0.0), np.minimum(weight, 0.0)
    return rise @ low + fall @ high + bias, rise @ high + fall @ low + bias
