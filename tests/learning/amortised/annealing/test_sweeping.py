"""The annealing kernel of a GPU: interpreted on a core against enumeration, and compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from cmpe import Problem
from cmpe.learning.amortised.annealing import Annealer, coloured
from cmpe.learning.amortised.annealing.sweeping import VARIABLES, Sweeps, fits
from cmpe.learning.amortised.tables import ModelTables
from tests.learning.amortised.cases import posed
from tests.learning.cases import mixed_problem

pytest.importorskip("triton", reason="there are no wheels of triton for this system")

INTERPRETED = """
import numpy as np, torch
from cmpe import Problem
from cmpe.learning.amortised.annealing import Annealer, coloured
from cmpe.learning.amortised.annealing.sweeping import Sweeps
from tests.learning.amortised.cases import posed, questions
from tests.learning.amortised.annealing.test_annealing import _best, _constraints
from tests.learning.cases import mixed_problem

mixed = mixed_problem()
one = Problem(mixed.objective, mixed.constraints[:1])
for problem, sweeps in ((posed(), 16), (one, 8), (Problem(mixed.objective), 3)):
    maker, asked = questions(problem, 32, 3)
    limits = asked.limits.clone()
    limits[:5] = -1e6
    start = maker.ends(maker.tables.allowed(asked.given))[1]
    annealer = Annealer(maker.tables, sweeps)
    assert annealer._kernel is None
    annealer._kernel = Sweeps(maker.tables, coloured(maker.tables))
    answers = [
        annealer.answers(asked.given, limits, start, torch.Generator().manual_seed(1)).numpy()
        for _ in range(1 if len(problem.constraints) else 2)
    ]
    found, given = answers[0].astype(np.int32), asked.given.numpy()
    assert (answers[-1] == found).all()
    t = _constraints(problem, found.clip(0))
    best = _best(problem, given, limits.numpy())
    assert (found[~np.isfinite(best)] == -1).all()
    done = (found >= 0).all(1)
    assert done[np.isfinite(best)].mean() > 0.8, done
    assert ((given < 0) | (found == given))[done].all()
    assert (t <= limits.numpy() + 1e-4)[done].all()
    lost = best[done] - problem.objective.value(found[done])
    begun = best - problem.objective.value(maker.ends(maker.tables.allowed(asked.given))[0].numpy())
    assert lost.min() > -1e-4 and lost.mean() < 0.2 * begun[np.isfinite(begun)].mean(), lost
print("equal")
"""

COMPILED = """
import sys
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from cmpe.learning.amortised.kernels.sweeps import annealed

kinds = ["*i8"] * 2 + ["*fp64"] + ["*fp32"] * 2 + ["*i32"] * 4 + ["*i64"] * 2 + ["*fp32"]
kinds += ["i32"] * 4 + ["fp32"] * 2
fixed = {"GROWTH": 1.1, "SHRINKING": 0.7, "ROWS": 32, "VARIABLES": 16}
fixed |= {"D": 3, "UNROLLED": 2, "OTHERS": 2, "K": 3, "LIMITED": True}
names = annealed.arg_names
signature = dict(zip(names, kinds + ["constexpr"] * len(fixed), strict=True))
source = ASTSource(annealed, signature, {(names.index(name),): v for name, v in fixed.items()})
code = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 16})
print("ptx" in code.asm)
"""


def _run(script: str, **changes: str) -> str:
    """What a process of its own prints: Triton reads its settings when it is imported."""
    root = Path(__file__).parents[3]
    environment = os.environ | {"PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"} | changes
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_kernel_finds_what_enumeration_does():
    assert _run(INTERPRETED, TRITON_INTERPRET="1") == "equal"


def test_the_kernel_compiles_for_a_gpu_that_is_not_here(tmp_path):
    assert _run(COMPILED, TRITON_CACHE_DIR=str(tmp_path)) == "True"


def test_every_variable_has_one_slot_and_every_table_as_many_copies_as_variables():
    mixed = mixed_problem()
    for problem in (posed(), Problem(mixed.objective, mixed.constraints[:1])):
        tables = ModelTables(problem)
        slots, most, starts, near, copies, unary = Sweeps(tables, coloured(tables))._arrays
        n = tables.variables
        assert sorted(slots[slots < n].tolist()) == list(range(n))
        assert len(slots) == VARIABLES * len(most) == VARIABLES * int(starts[-1])
        pairs = {(v, u) for scope in tables.scopes for v in scope for u in scope if u != v}
        of = slots.repeat_interleave(near[0].numel())
        found = {p for p in zip(of.tolist(), near.flatten().tolist(), strict=True) if p[1] < n}
        assert found == pairs
        assert copies.dtype == unary.dtype == torch.int64


def test_problems_that_the_kernel_does_not_take_are_annealed_without_it():
    assert not fits(ModelTables(mixed_problem()))  # two constraints
    assert fits(ModelTables(posed()))
    assert Annealer(ModelTables(posed()), 3)._kernel is None  # no GPU
