"""Upper bounds where elimination is too wide: nats above the best known answer, by time a row.

    python -m benchmarks.wide_bounds [--families NAME ...] [--limits 0.01 0.1]

Every method gets the same seconds of one core for each of a family's 20 test rows:

- splitting: cut into layers or leaves; the split is chosen by the bounds of 8 training rows
- trees: the same descent on spanning trees (every vertex that closes a cycle has leaf copies)
- minibucket: i-bound 8, plain steps and then cost shifting; minibucket_plain: without shifting
- messages: MPLP; knapsack: MPLP and a multiple-choice knapsack

`above` is the mean of bound - best known objective (results/wide_references.json; `proved` says
for how many rows that is the optimum), `worst` and `least` are the largest and the smallest. A
negative `least` would disprove a bound; the run stops there.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence

import numpy as np

import cmpe
from benchmarks.frame import Recorder, parser, print_table
from benchmarks.wide_families import FAMILIES, family, reference
from cmpe.bounds import Bounder, Work
from cmpe.bounds.knapsack import Knapsack
from cmpe.bounds.messages import Messages
from cmpe.bounds.minibucket import MiniBucket
from cmpe.bounds.splitting import Cut, Splitting

FITTING_ROWS = 8
# Nats above the optimum that have to be reached at 10 and at 100 ms a row.
TARGETS = {
    "Grids_17_10_q30": (2.0, 1.5),
    "Grids_17_10_q80": (2.0, 1.5),
    "Grids_17_10_q30_gibbs": (2.0, 1.5),
    "Grids_17_10_q80_gibbs": (2.0, 1.5),
    "Grids_17_0": (8.0, 6.0),
    "Grids_17_0_gibbs": (8.0, 6.0),
    "Segmentation_14_0": (0.5, 0.4),
    "Ising_50": (10.0, 3.5),
    "Ising_100": (None, 25.0),
}
COLUMNS = (
    "family",
    "method",
    "limit_ms",
    "above",
    "target",
    "worst",
    "least",
    "steps",
    "ms",
    "proved",
)

Maker = Callable[[Sequence[cmpe.Instances], Work], Bounder]


def _splitting(training: Sequence[cmpe.Instances], work: Work) -> Bounder:
    return Splitting().fitted(training, work)


def _trees(training: Sequence[cmpe.Instances], work: Work) -> Bounder:
    return Splitting(Cut("leaves", 1, work.seed, 1).relaxation(training[0].conditioning))


METHODS: dict[str, Maker] = {
    "splitting": _splitting,
    "trees": _trees,
    "minibucket": lambda *_: MiniBucket(),
    "minibucket_plain": lambda *_: MiniBucket(shift=False),
    "messages": lambda *_: Messages(),
    "knapsack": lambda *_: Knapsack(),
}


def measure(name: str, method: str, work: Work) -> dict[str, object]:
    """One method on the test rows of a family."""
    chosen = family(name)
    training = [problem.given(rows[:FITTING_ROWS]) for problem, rows in chosen.parts("train")]
    begin = time.perf_counter()
    bounder = METHODS[method](training, work)
    fitting = time.perf_counter() - begin
    parts = [problem.given(rows) for problem, rows in chosen.parts("test")]
    bounder.upper_bound(cmpe.Instances(parts[0].problem, parts[0].evidence[:1]), work)  # compiles
    found = [bounder.upper_bound(part, work) for part in parts]
    known = reference(name)
    above = np.concatenate([bounds.upper for bounds in found]) - known.objective
    if above.min() < -1e-6:
        raise SystemExit(f"{name}, {method}: a bound lies {-above.min()} below a feasible answer")
    split = getattr(bounder, "relaxation", None)
    return {
        "above": above.mean(),
        "worst": above.max(),
        "least": above.min(),
        "steps": np.concatenate([b.steps for b in found]).mean(),
        "ms": 1e3 * np.concatenate([b.seconds for b in found]).mean(),
        "rows": len(above),
        "proved": int((known.bound - known.objective <= 1e-5 * np.abs(known.objective)).sum()),
        "fitting_s": fitting,
        "copies": getattr(split, "copies", None),
        "width": getattr(split, "width", None),
        "bounds": above + known.objective,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser(__doc__)
    options.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    options.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    options.add_argument("--limits", nargs="+", type=float, default=[0.01, 0.1], help="s a row")
    chosen = options.parse_args(arguments)
    with Recorder("wide_bounds", chosen) as recorder:
        for name in chosen.families:
            for limit in chosen.limits:
                target = dict(zip((0.01, 0.1), TARGETS.get(name, ()), strict=False)).get(limit)
                for method in chosen.methods:
                    work = Work(time_limit=limit, seed=chosen.seed)
                    record = measure(name, method, work)
                    here = {"family": name, "method": method, "limit_ms": 1e3 * limit}
                    recorder.add(**here, target=target, **record)
                    print_table(recorder.records[-1:], COLUMNS)
    print_table(recorder.records, COLUMNS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
