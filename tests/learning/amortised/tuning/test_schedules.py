"""A schedule changes what it says it changes, and nothing else."""

from __future__ import annotations

import torch

from cmpe.learning.amortised.config import AmortisedConfig
from cmpe.learning.amortised.networks import network_of
from cmpe.learning.amortised.tables import ModelTables
from cmpe.learning.amortised.tuning.schedules import NUMBERS, scheduled
from tests.learning.amortised.cases import posed


def test_no_change_of_the_schedule_is_the_network_as_it_was():
    tables = ModelTables(posed())
    start = dict(network_of(AmortisedConfig(steps=4), tables).state_dict())
    same = scheduled(start, torch.zeros(NUMBERS))
    left = [name for name in start if not name.startswith("first_")]
    for name in left:
        torch.testing.assert_close(same[name], start[name])
    assert not same["first_out"].any()
    names = ("damping", "damping_by", "price_step", "price_step_by", "log_temperature",
             "log_temperature_by", "lean", "first_price", "first_out")  # fmt: skip
    changed: set[str] = set()
    for number in range(NUMBERS):
        one = torch.zeros(NUMBERS)
        one[number] = 0.1
        other = scheduled(start, one)
        here = {name for name in names if (other[name] != same[name]).any()}
        assert len(here) == 1, f"number {number} changes {here}"
        changed |= here
    assert changed == set(names)
