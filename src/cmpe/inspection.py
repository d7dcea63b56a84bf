"""Facts about a model or a problem, for people and programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import numpy as np

from cmpe.elimination.plan import Plan, interaction_graph, make_plan
from cmpe.errors import ModelError
from cmpe.formats.directory import ProblemDirectory
from cmpe.models.distance import Distance
from cmpe.models.function import Function
from cmpe.models.loglinear import LogLinearModel
from cmpe.models.neural import ClassMargin, NeuralFunction
from cmpe.models.tractable.chow_liu import ChowLiuTree
from cmpe.models.tractable.cutset import CutsetNetwork
from cmpe.models.tractable.expansion import expanded_entries
from cmpe.problem import Problem

Facts = dict[str, Any]


@singledispatch
def describe(function: Function) -> Facts:
    """The facts of any function that a file can hold."""
    raise ModelError(f"there is no description for a function of kind {type(function).__name__}")


@describe.register
def describe_model(model: LogLinearModel) -> Facts:
    """Counts, sizes, zeros and the induced width that the heuristics find."""
    scopes = [f.scope for f in model.factors]
    graph = interaction_graph(model.variables, scopes)
    plan = make_plan(model.cardinalities, scopes)
    arities = Counter(len(scope) for scope in scopes)
    zeros = int(np.isneginf(model.flat.values).sum())
    return {
        "variables": model.variables,
        "cardinalities": _spread(model.cardinalities),
        "factors": len(model.factors),
        "factors by arity": {str(k): arities[k] for k in sorted(arities)},
        "table entries": len(model.flat.values),
        "zero potentials": zeros,
        "edges": sum(len(n) for n in graph) // 2,
        "variables in no factor": sum(1 for v in range(model.variables) if not _in(v, scopes)),
        "components": _components(graph),
        **_width(plan),
    }


@describe.register
def describe_network(network: CutsetNetwork) -> Facts:
    """Leaves, depth, sizes, and what its expansion would take."""
    return {
        "kind": "Chow-Liu tree" if network.leaves == 1 else "cutset network",
        "variables": network.variables,
        "cardinalities": _spread(network.cardinalities),
        "leaves": network.leaves,
        "depth": network.depth,
        "variables that are split": len(network.split_variables),
        "table entries": int(network.used.sum()),
        "table entries if expanded": expanded_entries(network),
        "zero potentials": int(np.isneginf(network.log_tables[network.used]).sum()),
    }


@describe.register
def describe_tree(tree: ChowLiuTree) -> Facts:
    """The facts of a tree: a network of one leaf."""
    return describe_network(tree.network)


@describe.register
def describe_distance(distance: Distance) -> Facts:
    """How many pairs of variables are compared."""
    return {
        "kind": "distance",
        "variables": distance.variables,
        "cardinalities": _spread(distance.cardinalities),
        "pairs": len(distance.pairs),
    }


@describe.register
def describe_margin(margin: ClassMargin) -> Facts:
    """The sizes of the network's layers."""
    network = margin.network
    return {
        "kind": "class margin",
        "variables": margin.variables,
        "cardinalities": _spread(margin.cardinalities),
        "network": "-".join(str(n) for n in (network.inputs, *map(len, network.biases))),
    }


@describe.register
def describe_neural(function: NeuralFunction) -> Facts:
    """The module, and how large its values can be."""
    return {
        "kind": "neural function",
        "variables": function.variables,
        "cardinalities": _spread(function.cardinalities),
        "parameters": sum(value.numel() for value in function.module.parameters()),
        "at most": function.ceiling(),
    }


def describe_branches(problem: Problem) -> Facts:
    """How many log-linear problems the joint leaves make, where there are tables."""
    return {
        "evidence variables": len(problem.evidence_variables),
        "free variables": len(problem.free),
        **({"continuous variables": len(problem.continuous)} if problem.continuous else {}),
        **({"joint leaves": len(problem.branches)} if problem.has_tables else {}),
    }


def describe_directory(content: ProblemDirectory) -> Facts:
    """The problem's facts, its rows, and what evidence leaves of its width."""
    problem = content.problem
    return {
        "name": problem.name,
        "constraints": [f"{c.name} {c.relation} {c.limit!r}".lstrip() for c in problem.constraints],
        **({"rules": list(problem.rules)} if problem.rules else {}),
        **describe(problem.objective),
        **(describe_evidence(problem) if problem.is_log_linear else describe_branches(problem)),
        "train rows": f"{len(content.train)} ({_distinct(content.train)} distinct)",
        "test rows": f"{len(content.test)} ({_distinct(content.test)} distinct)",
        **content.provenance,
    }


def describe_evidence(problem: Problem) -> Facts:
    """How many variables stay free, and how hard they are to eliminate."""
    structure = problem.conditioning
    plan = make_plan(problem.objective.cardinalities, structure.scopes)
    graph = interaction_graph(problem.variables, structure.scopes)
    free = len(structure.free)
    return {
        "evidence variables": len(problem.evidence_variables),
        "free variables": free,
        "components given evidence": _components(graph) - (problem.variables - free),
        "induced width given evidence": plan.width,
    }


def _width(plan: Plan) -> Facts:
    return {
        "induced width (found)": plan.width,
        "elimination memory, MiB": round(plan.bytes / 2**20, 1),
    }


def _spread(sizes: Sequence[int]) -> str:
    low, high = min(sizes, default=0), max(sizes, default=0)
    return str(low) if low == high else f"{low} to {high}"


def _in(variable: int, scopes: Sequence[tuple[int, ...]]) -> bool:
    return any(variable in scope for scope in scopes)


def _distinct(rows: np.ndarray) -> int:
    return len(np.unique(rows, axis=0))


def _components(graph: Sequence[set[int]]) -> int:
    seen: set[int] = set()
    count = 0
    for root in range(len(graph)):
        if root in seen:
            continue
        count += 1
        stack = [root]
        while stack:
            v = stack.pop()
            if v not in seen:
                seen.add(v)
                stack.extend(graph[v] - seen)
    return count
