"""Soft evidence means what it means to pyAgrum and pgmpy, where they are installed."""

from __future__ import annotations

from argparse import Namespace

import pytest

pytest.importorskip("pyagrum")
pytest.importorskip("pgmpy")


@pytest.mark.parametrize("package", ["pyagrum", "pgmpy"])
@pytest.mark.parametrize("network", ["alarm", "insurance", "child"])
def test_answers_are_those_of_other_packages(network, package):
    from benchmarks.soft_evidence import compared

    found = compared(network, package, Namespace(cases=3, seed=1))
    assert found["cases"] == found["equal"] == 3
