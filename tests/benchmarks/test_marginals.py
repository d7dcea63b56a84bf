"""Posterior marginals equal those of pyAgrum, where it is installed."""

from __future__ import annotations

import pytest

import cmpe

pytest.importorskip("pyagrum")


def test_marginals_are_those_of_pyagrum():
    from benchmarks.marginals import compared

    found = compared(cmpe.example("alarm"), count=10, seed=1)
    assert found["rows"] == 10
    assert found["difference"] <= 1e-9
