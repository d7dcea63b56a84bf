"""The tables of docs/layers.md are the kept measurements; baselines are as their papers say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.labels import auprc, hierarchy, highest_below, ranking, read_kept, tables

from study.paper.readme import put

ROOT = Path(__file__).resolve().parents[2]
EDGES = np.array([[2, 0], [3, 0], [4, 2], [5, 1]])


def test_the_tables_are_made_from_what_was_measured():
    text, found = (ROOT / "docs" / "layers.md").read_text(encoding="utf-8"), tables(read_kept())
    assert all(table in text for table in found.values())
    assert put(text, found) == text
    assert all(table.splitlines()[0].count("|") - 1 <= 7 for table in found.values())


def test_every_answer_was_proved_and_three_seeds_were_run():
    kept = read_kept()
    assert all(r["proved"] == 1.0 for r in kept if "argmax_us" in r)
    seeds = {}
    for r in kept:
        if "prediction" in r:
            seeds.setdefault((r["data"], r["training"], r["prediction"]), []).append(r["seed"])
    assert all(found == [0, 1, 2] for found in seeds.values())


def test_max_closure_is_the_highest_of_a_label_and_what_is_below_it():
    values = torch.tensor([[0.1, 0.2, 0.3, 0.9, 0.8, 0.05]], requires_grad=True)
    closed = highest_below(values, EDGES)
    assert closed[0].tolist() == pytest.approx([0.9, 0.2, 0.8, 0.9, 0.8, 0.05])
    closed[0, 0].backward()
    assert values.grad[0].tolist() == [0, 0, 0, 1, 0, 0]


def test_rules_say_what_they_should():
    problems = hierarchy(EDGES, 6)
    z = np.indices((2,) * 6).reshape(6, -1).T
    closed = (z[:, EDGES[:, 0]] <= z[:, EDGES[:, 1]]).all(axis=1)
    np.testing.assert_array_equal(problems["hierarchy"].is_feasible(z), closed)
    single = closed & (z[:, 0] + z[:, 1] == 1) & (z[:, 2] + z[:, 3] <= 1)
    np.testing.assert_array_equal(problems["one path"].is_feasible(z), single)
    known = np.array([[1, 0, 1, 0, 1, 0], [1, 0, 0, 1, 0, 0], [0, 1, 0, 0, 0, 0]]) > 0
    deep = single & (z[:, 0] <= z[:, 2] + z[:, 3]) & (z[:, 2] <= z[:, 4])
    found = hierarchy(EDGES, 6, known)["one path"].is_feasible(z)
    np.testing.assert_array_equal(found, deep)  # label 1 has no child in a row
    z = np.indices((2,) * 9).reshape(9, -1).T
    square = z.reshape(-1, 3, 3)
    expected = (square.sum(axis=1) == 1).all(axis=1) & (square.sum(axis=2) == 1).all(axis=1)
    np.testing.assert_array_equal(ranking(3)["ranking"].is_feasible(z), expected)


def test_average_precision():
    y = np.array([[True, False], [False, True]])
    assert auprc(np.array([[0.9, 0.8], [0.1, 0.7]]), y) == pytest.approx((1 + 2 / 3) / 2)
