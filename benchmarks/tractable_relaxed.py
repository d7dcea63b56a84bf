"""Part `relaxed` of `benchmarks.tractable`: cutset networks at relaxed points, native or expanded.

A network and its noisy copy at random relaxed points, 60 % evidence, forward and backward pass over
a batch of 128, float32, one thread, CPU time. `monomials` counts those of the expanded polynomial
once the evidence is known to be somewhere, i.e. of the whole network.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, cast

import numpy as np
import torch

import cmpe
from benchmarks.frame import Record, race
from cmpe.learning.losses.leaves import LeafRelaxation
from cmpe.learning.losses.relaxation import RelaxedProblem
from cmpe.models.tractable.expansion import expanded_entries

DEPTHS = (0, 2, 4, 6, 8)
BATCH = 128
MOST_ENTRIES = 1 << 20  # above this the expansion is not built
COLUMNS = (
    "data", "depth", "leaves", "entries", "expanded_entries", "monomials", "times_monomials",
    "native_ms", "expanded_ms",
)  # fmt: skip


def relaxed_records(name: str, data: Mapping[str, np.ndarray], seed: int) -> Iterable[Record]:
    """One record per depth; nothing is pruned."""
    torch.set_num_threads(1)
    first = None
    for depth in DEPTHS:
        settings = cmpe.CutsetSettings(depth=depth, smoothing=1.0, inheritance=100.0)
        network = cmpe.learn_cutset(data["train"], settings)
        record = {"data": name, **_record(network, data["test"], seed)}
        first = first or record["monomials"]
        if record["monomials"] is not None:
            record["times_monomials"] = record["monomials"] / first
        yield record


def _record(network: cmpe.CutsetNetwork, rows: np.ndarray, seed: int) -> Record:
    recipe = cmpe.Recipe(samples=2, seed=seed)
    made = cmpe.generate(network, recipe).problem
    evidence = rows[:BATCH][:, list(made.evidence_variables)].astype(np.int32)
    entries = expanded_entries(network)
    record: Record = {
        "depth": network.depth,
        "leaves": network.leaves,
        "entries": int(network.used.sum()),
        "expanded_entries": entries,
        "native_ms": _milliseconds(LeafRelaxation(made), evidence),
        "monomials": None,
        "expanded_ms": None,
    }
    if entries <= MOST_ENTRIES:
        functions = [f.to_model() for f in _of(made)]
        limited = tuple(map(cmpe.Constraint, functions[1:], made.limits))
        tables = cmpe.Problem(functions[0], limited, made.evidence_variables)
        record["monomials"] = len(cmpe.MultilinearPolynomial.from_model(functions[0]).weights)
        record["expanded_ms"] = _milliseconds(RelaxedProblem(tables), evidence)
    return record


def _of(problem: cmpe.Problem) -> tuple[cmpe.LogLinearModel | cmpe.CutsetNetwork, ...]:
    return cast(tuple[cmpe.LogLinearModel | cmpe.CutsetNetwork, ...], problem.functions)


def _milliseconds(relaxed: LeafRelaxation | RelaxedProblem, evidence: np.ndarray) -> float:
    rows: Any = relaxed.rows(evidence)  # of the kind that its own `values` takes
    generator = torch.Generator().manual_seed(0)
    points = torch.rand((len(evidence), relaxed.coordinates.count), generator=generator)
    points.requires_grad_(True)

    def step() -> None:
        points.grad = None
        torch.autograd.backward(relaxed.values(rows, points).sum())

    timing = race({"step": step}, repeats=20, warm_up=3, clock=time.process_time)
    return 1e3 * timing["step"].median
