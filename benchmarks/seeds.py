"""The tests of what lies beyond one answer, over many more seeds: every problem is enumerated.

    nice python -m benchmarks.seeds [--minutes 10] [--seed 0]

Tests with hypothesis take a seed and make a random problem of it. Here each takes its turn with
seeds of its own until the time is over: probabilities, conflicts, relaxations, the k best of chosen
variables (`over`), everything near the best (`within`). `problems` counts them, `wrong` the seeds
that failed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from importlib import import_module

import numpy as np

from benchmarks.frame import Recorder, parser, print_table

TESTS = {
    "test_probability": (
        "test_probabilities_are_those_of_enumeration",
        "test_rows_with_numbers_of_their_own",
        "test_rules_of_many_variables",
        "test_cutset_networks",
    ),
    "test_chosen": (
        "test_assignments_of_some_variables_each_once",
        "test_everything_within_a_distance",
        "test_the_others_are_summed_out",
    ),
    "test_conflict": ("test_conflicts_are_minimal", "test_relaxations_are_cheapest"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser(__doc__)
    options.add_argument("--minutes", type=float, default=10.0, help="of CPU time")
    told = options.parse_args(arguments)
    checks = [
        getattr(import_module(f"tests.tradeoffs.{module}"), name)
        for module, names in TESTS.items()
        for name in names
    ]
    counts, wrong = [0] * len(checks), [list[int]() for _ in checks]
    rng = np.random.default_rng(told.seed)
    begin = time.process_time()
    while time.process_time() - begin < 60 * told.minutes:
        for number, check in enumerate(checks):
            seed = int(rng.integers(2**32))
            counts[number] += 1
            try:
                check.hypothesis.inner_test(seed=seed)
            except AssertionError:
                wrong[number].append(seed)
    with Recorder("seeds", told) as recorder:
        for check, count, failed in zip(checks, counts, wrong, strict=True):
            recorder.add(test=check.__name__, problems=count, wrong=len(failed), seeds=failed[:9])
    print_table(recorder.records, ("test", "problems", "wrong"))
    return int(any(wrong))


if __name__ == "__main__":
    sys.exit(main())
