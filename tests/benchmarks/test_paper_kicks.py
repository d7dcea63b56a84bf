"""The benchmark that settles how many kicks a repair gets, on a study of one small grid."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import cmpe
from benchmarks import paper_kicks as kicks
from study.paper.artifacts import rows_of
from study.paper.plan import plan_of
from study.paper.store import Store
from tests.study.paper.studies import tiny

NOWHERE = Path("no", "such", "folder")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    plan = plan_of(tiny(percentiles=[kicks.Q]), NOWHERE)
    store = Store(tmp_path_factory.mktemp("kicks") / "store")
    (network,) = kicks.trained_tasks(plan, ["grid"], 1).values()
    kicks.train(plan, store, network)
    return plan, store, network


def test_rows_are_held_out_and_optima_exact(trained):
    plan, store, network = trained
    held = kicks.held_out(plan, store, network)
    rows = rows_of(store.read(plan.tasks[network.inputs["problem"]]), kicks.Q)
    known = {row.tobytes() for row in rows.train}
    evidence = held.instances.evidence
    assert len(evidence) == 5  # a tenth of 54, all feasible
    assert all(row.tobytes() in known for row in evidence.astype(rows.train.dtype))
    truth = cmpe.solve(rows.problem, evidence, method="exhaustive")
    np.testing.assert_allclose(held.best, truth.objective)


def test_kicks_only_lower_the_regret(trained):
    alone, *repaired = kicks.measure(kicks.held_out(*trained), (0, 8), 2.0)
    assert alone["method"] == kicks.METHOD
    assert [r["kicks"] for r in repaired] == [0, 8]
    assert all(r["violation"] == 0.0 for r in repaired)
    assert repaired[1]["regret"] <= repaired[0]["regret"] + 1e-9
    assert all(r["share"] == r["regret"] / 2.0 for r in repaired)


def test_only_what_is_missing_is_trained(trained, monkeypatch):
    plan, store, network = trained
    written = []
    monkeypatch.setattr(store, "write", lambda *task: written.append(task))
    kicks.train(plan, store, network)
    assert not written


def test_the_choice_is_the_smallest_number_that_all_data_sets_allow():
    shares = {("a", 0): 0.03, ("a", 5): 0.01, ("a", 10): 0.0, ("b", 0): 0.0, ("b", 5): 0.02,
              ("b", 10): 0.01}  # fmt: skip
    records = [{"method": "tuned", "share": 0.5}, {"method": "repair", "kicks": 0, "share": None}]
    records += [
        {"method": "repair", "dataset": d, "kicks": k, "share": s} for (d, k), s in shares.items()
    ]
    assert kicks.choice(records, 0.015) == 10
    assert kicks.choice(records, 0.02) == 5
    assert kicks.choice(records, -1.0) is None
