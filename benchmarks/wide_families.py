"""The wide problems that search and bounds are measured on, with reference values.

    python -m benchmarks.wide_families [--families NAME ...] [--limit 120]

A family is a list of cases: a problem with rows to train on and rows to report on. Without
evidence, every row is a noise seed of M2, chosen by an observed variable that only the constraint
knows. Pools, splits, schedules and networks are chosen on the training rows.
Families called gibbs take their samples from Gibbs chains where exact sampling is possible too:
on the grids those stay far from the modes, so limits are much lower and rows much harder.

Run as a program it solves the test rows once (`exact`, which hands what is too wide to HiGHS) and
keeps the best value and the lowest bound of each in results/wide_references.json. Samples are
drawn exactly where the width allows, else by annealed Gibbs chains, and kept in build/wide.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

import cmpe
from benchmarks.frame import HERE, model_files, parser
from cmpe.elimination.plan import MEMORY_LIMIT
from cmpe.generation import Recipe, generate, grid, perturbed

REFERENCES = HERE / "results" / "wide_references.json"
DRAWN = HERE.parent / "build" / "wide"
TEST, TRAIN = 20, 180  # rows of a family with evidence
FEW = 10  # noise seeds to train on
LITTLE_MEMORY = 2**20  # bytes, too few to sample any of the models exactly

Rows = NDArray[np.int32]


@dataclass(frozen=True)
class Case:
    """One problem, rows to choose on and rows to report on (either may be empty)."""

    problem: cmpe.Problem
    train: Rows  # (N, |X|)
    test: Rows

    def rows(self, split: str) -> Rows:
        """The rows of `train` or `test`."""
        return self.train if split == "train" else self.test


@dataclass(frozen=True)
class Family:
    """Cases of one kind; rows are counted through all of them."""

    name: str
    cases: tuple[Case, ...]

    def parts(self, split: str) -> list[tuple[cmpe.Problem, Rows]]:
        """(problem, rows) of every case that has rows in `split`."""
        return [(c.problem, c.rows(split)) for c in self.cases if len(c.rows(split))]


def observed(model: cmpe.LogLinearModel, name: str, recipe: Recipe) -> Family:
    """One case: evidence rows are samples of the model."""
    path = DRAWN / f"{name}.npz"
    if not path.is_file():
        made = generate(model, replace(recipe, samples=TRAIN + TEST), name=name)
        arrays = {"rows": np.concatenate([made.train, made.test]), "q": made.problem.limits}
        _keep(path, observed=np.array(made.problem.evidence_variables), **arrays)
    with np.load(path) as kept:
        rows, q, variables = kept["rows"], float(kept["q"][0]), kept["observed"].tolist()
    constraint = cmpe.Constraint(perturbed(model, recipe), q)
    problem = cmpe.Problem(model, (constraint,), tuple(variables), name)
    return Family(name, (Case(problem, rows[:TRAIN], rows[TRAIN:]),))


def unobserved(model: cmpe.LogLinearModel, name: str, recipe: Recipe) -> Family:
    """No evidence about the model; rows are noise seeds, 0.. to report on, 1000.. to choose on.

    One more variable, observed, selects the M2 of a seed: its tables lie side by side, and a table
    of that variable alone makes up for the difference between the seeds' limits.
    """
    seeds = (*range(TEST), *range(1000, 1000 + FEW))
    recipes = [replace(recipe, seed=seed) for seed in seeds]
    noisy = [cast(cmpe.LogLinearModel, perturbed(model, each)) for each in recipes]
    limits = []
    for seed, second in zip(seeds, noisy, strict=True):
        path = DRAWN / f"{name}_{seed}.npz"
        if not path.is_file():
            _keep(path, q=_limit(second, replace(recipe, seed=seed)))
        with np.load(path) as kept:
            limits.append(float(kept["q"]))
    selector = model.variables
    cards = (*model.cardinalities, len(seeds))
    factors = [
        cmpe.Factor((selector, *same[0].scope), np.stack([f.log_table for f in same]))
        for same in zip(*(second.factors for second in noisy), strict=True)
    ]
    factors.append(cmpe.Factor((selector,), limits[0] - np.array(limits)))
    constraint = cmpe.Constraint(cmpe.LogLinearModel(cards, tuple(factors)), limits[0])
    objective = cmpe.LogLinearModel(cards, model.factors)
    problem = cmpe.Problem(objective, (constraint,), (selector,), name)
    rows = np.arange(len(seeds), dtype=np.int32)[:, np.newaxis]
    return Family(name, (Case(problem, rows[TEST:], rows[:TEST]),))


def _limit(second: cmpe.LogLinearModel, recipe: Recipe) -> float:
    """q as `generate` makes it, without sampling the objective."""
    nothing = cmpe.LogLinearModel(second.cardinalities)
    return float(generate(nothing, replace(recipe, samples=2), noisy=second).problem.limits[0])


def _keep(path: Path, **arrays: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **arrays)


def _file(name: str) -> cmpe.LogLinearModel:
    with model_files([name]) as (path,):
        return cmpe.read_uai(path)


def _ising(side: int) -> Family:
    recipe = Recipe(evidence_fraction=0.2, percentile=30)
    return observed(grid(side, side, seed=side), f"Ising_{side}", recipe)


def _grids(percentile: int, end: str = "", memory: int = MEMORY_LIMIT) -> Family:
    recipe = Recipe(evidence_fraction=0.1, percentile=percentile, memory_limit=memory)
    return observed(_file("Grids_17"), f"Grids_17_10_q{percentile}{end}", recipe)


def _free(name: str, end: str = "", memory: int = MEMORY_LIMIT) -> Family:
    recipe = Recipe(evidence_fraction=0.0, percentile=30, memory_limit=memory)
    return unobserved(_file(name), f"{name}_0{end}", recipe)


_FAMILIES: dict[str, Callable[[], Family]] = {
    "Grids_17_10_q30": lambda: _grids(30),
    "Grids_17_10_q80": lambda: _grids(80),
    "Grids_17_10_q30_gibbs": lambda: _grids(30, "_gibbs", LITTLE_MEMORY),
    "Grids_17_10_q80_gibbs": lambda: _grids(80, "_gibbs", LITTLE_MEMORY),
    "Grids_17_0_gibbs": lambda: _free("Grids_17", "_gibbs", LITTLE_MEMORY),
    "Grids_17_0": lambda: _free("Grids_17"),
    "Segmentation_14_0": lambda: _free("Segmentation_14"),
    "Ising_50": lambda: _ising(50),
    "Ising_100": lambda: _ising(100),
}
FAMILIES: tuple[str, ...] = tuple(_FAMILIES)


@cache
def family(name: str) -> Family:
    """The family called `name`."""
    return _FAMILIES[name]()


@dataclass(frozen=True)
class Reference:
    """The best feasible value known of each test row, and the lowest bound."""

    objective: NDArray[np.float64]
    bound: NDArray[np.float64]


def reference(name: str) -> Reference:
    """What is kept of a family; run this module to make it."""
    kept = json.loads(REFERENCES.read_text(encoding="utf-8"))[name]
    return Reference(np.array(kept["objective"]), np.array(kept["bound"]))


def note(name: str, objective: ArrayLike, bound: ArrayLike, how: str) -> None:
    """Keep better values and lower bounds of the test rows of a family."""
    kept = json.loads(REFERENCES.read_text(encoding="utf-8")) if REFERENCES.is_file() else {}
    old = kept.get(name)
    best, least = np.asarray(objective), np.asarray(bound)
    if old is not None:
        best = np.maximum(best, old["objective"])
        least = np.minimum(least, old["bound"])
        how = old["how"] if how in old["how"].split("; ") else f"{old['how']}; {how}"
    numbers = {"objective": best.round(9).tolist(), "bound": least.round(9).tolist()}
    kept[name] = {"how": how, **numbers}
    REFERENCES.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser(__doc__)
    options.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    options.add_argument("--limit", type=float, default=120.0, help="seconds a row")
    options.add_argument("--method", default="exact", help="whose answers are kept")
    chosen = options.parse_args(arguments)
    for name in chosen.families:
        found = [
            cmpe.solve(problem, rows, method=chosen.method, time_limit=chosen.limit)
            for problem, rows in family(name).parts("test")
        ]
        answers = cmpe.Solutions.concatenate(found)
        bound = np.minimum(answers.bound, 1e9)
        note(name, answers.objective, bound, f"{chosen.method} {chosen.limit:g} s")
        proved = int((answers.status == cmpe.Status.OPTIMAL).sum())
        print(name, len(answers), "rows", proved, "proved", answers.seconds.mean(), "s a row")
    return 0


if __name__ == "__main__":
    sys.exit(main())
