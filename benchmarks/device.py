"""Checks on a machine with a GPU that a device computes what the CPU does, by stated tolerances.

    python benchmarks/device.py [--device cuda] [--compiled]      with PYTHONPATH=src

Each line compares one function of the torch back-end, or of `cmpe.torch.Layer`, on the device with
the same function on the CPU, or with `--compiled` (which needs numba) with the compiled code:
constraints, rows, the largest difference as a share of 1 + size, the tolerance, and the seconds of
the third call. Exit 1 if a tolerance is exceeded.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

if __package__ in (None, ""):  # run as a file: the repository's root is one folder up
    sys.path[0] = str(Path(__file__).parents[1])

from study.bare import without_numba

SIDE, ROWS, STEPS = 10, 64, 65


class Check(NamedTuple):
    """A function of a device's name, what the CPU says, and how near the two must be."""

    name: str
    call: Callable[[str], np.ndarray]
    expected: Callable[[], np.ndarray]
    tolerance: float


def instances_of(constraints: int) -> Any:
    """A grid whose constraints bind, with rows of evidence."""
    from cmpe.generation import grid
    from cmpe.problem import Constraint, Problem

    model, rng = grid(SIDE, SIDE, seed=3), np.random.default_rng(0)
    points = rng.integers(0, 2, (50, SIDE * SIDE))
    limited = []
    for j in range(constraints):
        other = model.perturb(0.3, 10 + j)
        limited.append(Constraint(other, float(np.quantile(other.value(points), 0.3))))
    problem = Problem(model, tuple(limited), tuple(range(0, SIDE * SIDE, 5)))
    return problem.given(rng.integers(0, 2, (ROWS, len(problem.evidence_variables))))


def bound_checks(constraints: int, compiled: bool) -> Iterator[Check]:
    """The bounds that run on a device."""
    from cmpe.bounding import BOUNDS, ON_DEVICE, Setting
    from cmpe.bounds.base import Work

    instances, work = instances_of(constraints), Work(steps=STEPS)
    tolerances = {
        "lagrangian": 1e-9 if constraints < 2 else 1e-6,
        "splitting": 1e-6,
    }
    for name in ON_DEVICE:
        row = BOUNDS[name]
        assert row.on_device is not None

        def on(device: str, row: Any = row) -> np.ndarray:
            found = row.on_device(Setting(work, device=device)).upper_bound(instances, work)
            return np.asarray(found.upper)

        def here(row: Any = row) -> np.ndarray:
            return np.asarray(row.make(Setting(work)).upper_bound(instances, work).upper)

        expected = here if compiled else lambda on=on: on("cpu")
        yield Check(f"bound {name}", on, expected, tolerances[name])


def answer_checks(constraints: int) -> Iterator[Check]:
    """The extreme answers of the dual."""
    from cmpe.tensor.bounds import dual

    instances = instances_of(constraints)

    def extremes(device: str) -> np.ndarray:
        found = dual(instances, device)
        return np.stack([instances.problem.objective.value(found.violating), found.bound])

    yield Check("dual", extremes, lambda: extremes("cpu"), 1e-6)


def layer_checks(constraints: int) -> Iterator[Check]:
    """What `cmpe.torch.Layer` computes from scores on a device, gradients and samples included."""
    import torch

    import cmpe

    names = [f"x{v}" for v in range(SIDE)]
    rng = np.random.default_rng(0)
    counts = [
        cmpe.count(dict.fromkeys(rng.choice(names, 6, replace=False), 1)) <= 3
        for _ in range(constraints)
    ]
    chain = [(pair, rng.normal(size=(3, 3))) for pair in itertools.pairwise(range(SIDE))]
    model = cmpe.LogLinearModel.from_tables([3] * SIDE, chain, names)
    layer = cmpe.torch.Layer(cmpe.Problem(model, [cmpe.implies({"x0": 1}, {"x5": 2}), *counts]))
    for kind, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-12)):
        given = torch.randn(ROWS, SIDE, 3, generator=torch.Generator().manual_seed(0)).to(kind)

        def computed(device: str, given: Any = given) -> np.ndarray:
            scores = given.to(device, copy=True).requires_grad_()
            torch.manual_seed(0)
            p = layer(scores)
            torch.autograd.backward((p.log_prob(p.argmax) - p.log_partition).sum())
            found = [p.argmax, p.sample(3), p.marginals, p.log_partition, p.entropy]
            found += [p.log_prob(p.argmax).detach(), scores.grad]
            assert all(f.device == scores.device for f in found)
            assert all(f.dtype == given.dtype for f in found[2:])
            return np.concatenate([f.detach().cpu().double().numpy().ravel() for f in found])

        name = f"layer {str(kind).removeprefix('torch.')}"
        yield Check(name, computed, partial(computed, "cpu"), tolerance)


def failed(check: Check, device: str, constraints: int) -> bool:
    """Show one comparison; whether it is beyond its tolerance."""
    expected = check.expected()
    for _ in range(3):  # the second call captures CUDA graphs, the third replays them
        begin = time.perf_counter()
        found = check.call(device)
        seconds = time.perf_counter() - begin
    known = np.isfinite(expected)
    same = bool((found[~known] == expected[~known]).all())
    away = np.abs(found - expected)[known] / (1.0 + np.abs(expected[known]))
    worst = float(away.max(initial=0.0)) if same else float("inf")
    print(
        f"{check.name:18} {constraints} constraints {ROWS} rows: difference {worst:.2e}, "
        f"tolerance {check.tolerance:.0e}, {seconds:.3f} s",
        flush=True,
    )
    return worst > check.tolerance


def main() -> int:
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    words.add_argument("--device", default="cuda")
    words.add_argument("--compiled", action="store_true", help="compare with the compiled code")
    given = words.parse_args()
    if without_numba() and given.compiled:
        raise SystemExit("--compiled needs numba")
    wrong = 0
    for constraints in (0, 1, 3):
        checks = [*bound_checks(constraints, given.compiled), *answer_checks(constraints)]
        checks += layer_checks(constraints)
        wrong += sum(failed(check, given.device, constraints) for check in checks)
    print(f"{wrong} beyond their tolerance")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
