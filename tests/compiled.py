"""Compiles what most tests need, in two processes and without coverage, before the tests run.

    python -m tests.compiled

Workers of a test run would each compile the same functions otherwise, under the tracer.
"""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np

import cmpe
from cmpe.generation import grid
from cmpe.solvers.reduction import Reduction
from cmpe.solvers.wide import Wide
from tests.problems import Shape, random_problem

METHODS = ("exact", "lagrangian", "local", "search")
BOUNDS = ("lagrangian", "minibucket", "splitting", "messages", "knapsack")


def compile_for(constraints: int) -> None:
    """Every compiled engine and bound, for problems with so many constraints."""
    shape = Shape(variables=8, values=2, arity=2, factors=12, constraints=constraints)
    problem, evidence = random_problem(1, shape)
    for method in METHODS:
        cmpe.solve(problem, evidence, method=method)
    cmpe.solve(problem, evidence, method=Reduction(nodes=1))
    cmpe.solve(problem, evidence, method=Wide(briefly=True))
    if constraints:
        cmpe.front(problem, evidence)
    cmpe.best(problem, evidence, 2)
    cmpe.sensitivity(problem, evidence)
    for method in BOUNDS:
        cmpe.bound(problem, evidence, method=method, work=cmpe.Work(steps=2))


def compile_models() -> None:
    """Sampling, and models that are learned from data."""
    cmpe.generate(grid(3, 3, seed=0), cmpe.Recipe(samples=20))
    data = np.random.default_rng(0).integers(0, 2, (60, 6)).astype(np.int32)
    network = cmpe.learn_cutset(data, cmpe.CutsetSettings(depth=1))
    cmpe.solve(cmpe.Problem(network, (cmpe.Constraint(network, -2.0),)), method="exact")


def main() -> None:
    """Both processes at once. With constraints and without, code is the same but for few parts."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(compile_for, m) for m in (1, 0)]
        waiting.append(pool.submit(compile_models))
        for work in waiting:
            work.result()


if __name__ == "__main__":
    main()
