"""What a model or a problem is like, as plain facts for a person or a program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from cmpe.elimination.plan import Plan, interaction_graph, make_plan
from cmpe.formats.directory import ProblemDirectory
from cmpe.models.function import Function
from cmpe.models.loglinear import LogLinearModel
from cmpe.models.tractable.chow_liu import ChowLiuTree
from cmpe.models.tractable.cutset import CutsetNetwork
from cmpe.models.tractable.expansion import expanded_entries
from cmpe.problem import Problem

Facts = dict[str, Any]


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


def describe_network(network: ChowLiuTree | CutsetNetwork) -> Facts:
    """Leaves, depth, sizes, and what its expansion would take."""
    inside = network.network if isinstance(network, ChowLiuTree) else network
    return {
        "kind": "Chow-Liu tree" if inside.leaves == 1 else "cutset network",
        "variables": inside.variables,
        "cardinalities": _spread(inside.cardinalities),
        "leaves": inside.leaves,
        "depth": inside.depth,
        "variables that are split": len(inside.split_variables),
        "table entries": int(inside.used.sum()),
        "table entries if expanded": expanded_entries(inside),
        "zero potentials": int(np.isneginf(inside.log_tables[inside.used]).sum()),
    }


def describe(function: Function | ChowLiuTree) -> Facts:
    """The facts of any function that a file can hold."""
    if isinstance(function, ChowLiuTree | CutsetNetwork):
        return describe_network(function)
    assert isinstance(function, LogLinearModel)
    return describe_model(function)


def describe_branches(problem: Problem) -> Facts:
    """How many log-linear problems the joint leaves make."""
    return {
        "evidence variables": len(problem.evidence_variables),
        "free variables": len(problem.free),
        "joint leaves": len(problem.branches),
    }


def describe_directory(content: ProblemDirectory) -> Facts:
    """The problem's facts, its rows, and what evidence leaves of its width."""
    problem = content.problem
    return {
        "name": problem.name,
        "constraints": [f"<= {c.at_most!r}" for c in problem.constraints],
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
