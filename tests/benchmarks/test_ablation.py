"""The table of the race without one of its contestants."""

from benchmarks.ablation import tables


def record(without, seed, value, bound, status="feasible", cpu_s=4.0):
    return {
        "instance": "a", "constrained": False, "seed": seed, "without": without, "known": 100.0,
        "status": status, "value": value, "bound": bound, "cpu_s": cpu_s,
    }  # fmt: skip


def test_runs_are_compared_with_those_of_the_same_seed():
    records = [
        record("", 0, 100.0, 100.0, "optimal", 2.0),
        record("", 1, 98.0, 110.0),
        record("search", 0, 100.0, 100.0, "optimal", 4.0),
        record("search", 1, 96.0, 113.0),
        record("milp", 0, None, None, "unknown"),  # the other seed has not run yet
    ]
    about, table = tables(records)
    assert about == "Without constraints: 1 rows, 2 seeds."
    assert table.splitlines()[2:] == [
        "| nothing | 2 |  |  |  | 1 |  |",
        "| *another seed* | 2 | 1, 1 | +0.00 % | +0.00 % | 1 |  |",
        "| `search` | 2 | 1, 0 | +1.00 % | +1.50 % | 1 | 2.00 |",
        "| `milp` | 1 | 1, 0 |  |  | 0 |  |",
    ]
