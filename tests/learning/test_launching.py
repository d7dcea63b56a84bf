"""Training by the processes of a Ray cluster, without one: what each is told, and what comes back.

Two nodes and two gloo processes: python -m benchmarks.distributed --ray 2 --nodes 2.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest

from cmpe.errors import BackendError, MethodError
from cmpe.learning import launching
from cmpe.learning.launching import fit_on_ray
from cmpe.learning.training.fitting import Session, fit
from tests.learning.cases import quick, small_grid
from tests.learning.two_processes import in_one_row

ONE = small_grid()


class RayError(Exception):
    pass


class FakeRay:
    """Runs tasks at once; remembers what they were told."""

    exceptions = SimpleNamespace(RayError=RayError)
    util = SimpleNamespace(get_node_ip_address=lambda: "127.0.0.1")

    def __init__(self):
        self.placed, self.removed = [], []

    def put(self, value):
        return value

    def get(self, value):
        return value

    def remote(self, **options):
        self.placed.append(options)
        return lambda work: SimpleNamespace(remote=lambda *arguments: work(*arguments))


@pytest.fixture
def ray(monkeypatch):
    fake = FakeRay()

    @contextmanager
    def connected(address, cores):
        fake.asked = (address, cores)
        yield fake

    def placement_group(bundles, strategy):
        fake.bundles = bundles
        return SimpleNamespace(ready=lambda: None)

    groups = SimpleNamespace(
        placement_group=placement_group, remove_placement_group=fake.removed.append
    )
    strategies = SimpleNamespace(PlacementGroupSchedulingStrategy=lambda group, rank: rank)
    monkeypatch.setitem(sys.modules, "ray", fake)
    monkeypatch.setitem(sys.modules, "ray.util.placement_group", groups)
    monkeypatch.setitem(sys.modules, "ray.util.scheduling_strategies", strategies)
    monkeypatch.setattr(launching, "connected", connected)
    return fake


def test_one_process_of_a_cluster_ends_where_fit_ends(ray, tmp_path, monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    session = Session(out=tmp_path / "run")
    asked = (ONE.problem, ONE.train)
    found = fit_on_ray(asked, quick(), session, processes=1, address="head:6379")
    np.testing.assert_array_equal(in_one_row(found), in_one_row(fit(*asked, quick())))
    assert {"config.json", "weights.safetensors", "log.jsonl"} <= {
        file.name for file in session.out.iterdir()
    }
    assert ray.asked == ("head:6379", 1)
    assert ray.bundles == [{"CPU": 1, "GPU": 0}]
    assert ray.placed[-1]["max_retries"] == 0
    assert len(ray.removed) == 1
    assert "MASTER_ADDR" not in os.environ


def test_every_process_is_told_its_rank(ray, monkeypatch):
    told = []

    def process(arguments, environment):
        told.append(environment)
        raise RayError("line one\nline two")

    monkeypatch.setattr(launching, "run_process", process)
    with pytest.raises(BackendError, match="a process of the training failed: line two"):
        fit_on_ray((ONE.problem, ONE.train), quick(), Session(device="cuda"), processes=2)
    assert told[0]["RANK"] == "0"
    assert told[0]["WORLD_SIZE"] == "2"
    assert told[0]["MASTER_ADDR"] == "127.0.0.1"
    assert ray.bundles == [{"CPU": 1, "GPU": 1}] * 2
    assert len(ray.removed) == 1


def test_only_the_first_process_sends_files(monkeypatch):
    monkeypatch.setattr(launching, "fit", lambda *asked: None)
    told = {"RANK": "1"}
    assert launching.run_process((ONE.problem, ONE.train, quick(), Session()), told) == {}


def test_what_cannot_be_is_refused():
    asked = (ONE.problem, ONE.train)
    with pytest.raises(MethodError, match="cannot be resumed"):
        fit_on_ray(asked, quick(), Session(resume=True), processes=2)
    with pytest.raises(MethodError, match="at least 1, found 0"):
        fit_on_ray(asked, quick(), processes=0)
