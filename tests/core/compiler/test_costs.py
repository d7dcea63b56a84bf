from __future__ import annotations

from cmpe.core.compiler.costs import COSTS
from cmpe.solvers import METHODS
from cmpe.warming import PARTS


def test_every_part_has_an_estimate_and_every_estimate_is_asked_for():
    assert set(PARTS) <= set(COSTS)
    assert set(COSTS) <= {*PARTS, *METHODS, "front", "best", "sensitivity"}
    assert all(cost.functions > 0 and cost.seconds > 0 for cost in COSTS.values())
