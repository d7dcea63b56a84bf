"""Everything that can be compiled, part by part, for `cmpe compile`.

    cmpe compile            # on the command line: all parts, on all cores

A part is a small use of one engine: what it calls is compiled for the types of arrays that every
use has, and kept (`core.compiler.cache`). To add a part: a function here or anywhere, and one row
of `PARTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, wait
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cmpe.bounding import BOUNDS, bound
from cmpe.bounds.base import Work
from cmpe.core.compiler import notices, timing
from cmpe.execution import processes
from cmpe.generation import Recipe, generate, grid
from cmpe.models.constraint import Constraint
from cmpe.models.loglinear import LogLinearModel
from cmpe.models.rules import all_different, implies
from cmpe.problem import Form, Problem
from cmpe.solving import solve

if TYPE_CHECKING:
    from cmpe.core.compiler.kept import Kept

WIDE = 14  # side of a grid that is not eliminated at once
LOOK = 0.5  # seconds between two looks at how far it is


def _problem(size: int = 4, constraints: int = 1) -> Problem:
    """A grid with constraints that bind."""
    h, t = grid(size, size, seed=1), grid(size, size, seed=2)
    return Problem(h, [Constraint(t, 1.0)] * constraints, evidence_variables=(0,))


def solve_small(method: str, size: int = 4) -> None:
    """Small problems with one constraint, without and with two, by one method."""
    for constraints in (1, 0, 2):
        solve(_problem(size, constraints), [[1]], method=method)


def _wide() -> None:
    from cmpe.solvers.incumbent import Incumbent
    from cmpe.solvers.reduction import Reduction
    from cmpe.solvers.wide import Wide
    from cmpe.solvers.wide.network import NetworkShape, RowNetwork
    from cmpe.solvers.wide.reduced import Reduced
    from cmpe.solvers.wide.turns import BranchTurns

    solve(_problem(WIDE), [[1]], method=Reduction(nodes=1), time_limit=0.5)
    solve(_problem(), [[1]], method=Wide(briefly=True))
    row = Reduced.of(_problem().given([[1]]), 0)  # too small for branching to have its turn
    best = Incumbent(row.instances.problem, 0.0)
    shape = NetworkShape(row.instances.conditioning)
    network = RowNetwork(shape, row.instances, 0, np.zeros(1))
    BranchTurns(row, best, network, 2).play(timing.now() + 1e-3)


def _bounds() -> None:
    for name, row in BOUNDS.items():
        if Form.TABLES in row.takes:
            bound(_problem(), [[1]], method=name, work=Work(steps=2))
    bound(_problem(WIDE), [[1]], method="minibucket", work=Work(steps=2))


def _sampling() -> None:
    from cmpe.elimination.circuits import Circuit
    from cmpe.elimination.sums import with_top
    from cmpe.sampling import GibbsSettings, sample_gibbs
    from cmpe.tradeoffs.probability import probability

    generate(grid(3, 3, seed=0), Recipe(samples=20))
    sample_gibbs(grid(3, 3, seed=0), 2, 0, GibbsSettings(sweeps=2))
    free = _problem(constraints=0)
    posterior = probability(free, [[1]])
    posterior.of({3: 0})
    instances = free.given([[1]])
    top = with_top(free.compiled_plan, instances.conditioning.layout)
    tables = instances.tables(0)
    circuit = Circuit.of(top, tables[0], np.arange(tables.size), tables.size)
    circuit.sums(tables)
    circuit.samples(tables, 1, np.random.default_rng(0))


def _structures() -> None:
    implied = [implies({0: 1}, {1: 1})]
    solve(Problem(LogLinearModel((2, 2)), implied), potentials=np.zeros((2, 2, 2)))
    apart = [all_different([0, 1])]
    solve(Problem(LogLinearModel((2, 2)), apart), potentials=np.zeros((2, 2, 2)))


def _fronts() -> None:
    from cmpe.tradeoffs.best import best
    from cmpe.tradeoffs.front import front
    from cmpe.tradeoffs.sensitivity import sensitivity

    front(_problem(), [[1]])[0].assignments()
    for constraints in (1, 0):
        best(_problem(constraints=constraints), [[1]], 2)
        sensitivity(_problem(constraints=constraints), [[1]])


def _training() -> None:
    from cmpe.bounds.loss import loss_bounds

    loss_bounds(_problem().given([[1]]))
    if find_spec("torch") is not None:
        from cmpe.learning.amortised.messages import NUMBERS, MessagePass, schedule_of

        passes, plain = MessagePass.of(_problem(), 20.0), schedule_of(np.zeros(NUMBERS), 2)
        passes.answers(plain, np.full((1, 16), -1, dtype=np.int32), np.ones(1))


def _local() -> None:
    from cmpe.solvers.local.mixing import mixed

    solve_small("local")
    instances = _problem().given([[1]])
    mixed(instances, [np.full((1, 16), value, dtype=np.int32) for value in (0, 1)])


def _learning() -> None:
    from cmpe.models.tractable.learning import CutsetSettings, learn_cutset

    data = np.random.default_rng(0).integers(0, 2, (60, 6)).astype(np.int32)
    network = learn_cutset(data, CutsetSettings(depth=1))
    solve(Problem(network, (Constraint(network, -2.0),)), method="exact")


def _attacks() -> None:
    from cmpe.models.relu import ReluNetwork
    from cmpe.solvers.flips.attack import AttackSettings, attack

    drawn = np.random.default_rng(0)
    weights = drawn.normal(size=(4, 5)), drawn.normal(size=(3, 4))
    network = ReluNetwork(weights, (drawn.normal(size=4), drawn.normal(size=3)))
    images = drawn.random((3, 5))
    attack(network, images, config=AttackSettings(levels=True))


PARTS: dict[str, Callable[[], None]] = {  # the longest first
    "search": partial(solve_small, "search", 6),
    "wide": _wide,
    "exact": partial(solve_small, "exact"),
    "fronts": _fronts,
    "bounds": _bounds,
    "lagrangian": partial(solve_small, "lagrangian"),
    "local": _local,
    "cutset networks": _learning,
    "training": _training,
    "attacks": _attacks,
    "sampling": _sampling,
    "structures": _structures,
}


def compile_part(name: str) -> None:
    """Compile one part in this process, and keep it."""
    with notices.telling(lambda notice: None):
        PARTS[name]()


def compile_parts(
    names: Iterable[str], workers: int, report: Callable[[int, int], None] | None = None
) -> Kept:
    """Compile parts in so many processes at once; how much the cache holds then.

    `report` is called with the functions that are kept and with all there are.
    """
    total = len(kernels())
    pool = processes.pool(workers)
    waiting = {pool.submit(compile_part, name) for name in names}
    try:
        while waiting:
            done, waiting = wait(waiting, LOOK, FIRST_COMPLETED)
            for part in done:
                part.result()
            if report is not None:
                report(min(in_cache().functions, total), total)
    finally:
        processes.stop(pool, unfinished=bool(waiting))
    return in_cache()


def in_cache() -> Kept:
    """What the cache holds of this package."""
    from cmpe.core.compiler.kept import kept

    return kept(kernels())


def kernels() -> list[Any]:
    """Every function of this package that can be compiled; imports all of them."""
    from cmpe.core.compiler.functions import DISPATCHERS

    root = Path(__file__).parent
    for path in sorted(root.rglob("[!_]*.py")):
        module = ".".join(("cmpe", *path.relative_to(root).with_suffix("").parts))
        if module.startswith("cmpe.core.") and not module.startswith("cmpe.core.compiler."):
            import_module(module)
    return [d for d in DISPATCHERS if d.py_func.__module__.startswith("cmpe.")]
