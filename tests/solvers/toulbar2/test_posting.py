"""One run of toulbar2 in this process, on problems that it does not crash on."""

import signal
from dataclasses import replace

import pytest

from cmpe.formats.cfn import CostNetwork
from cmpe.solvers.toulbar2.posting import Found, Posting, run
from tests.problems import worked_example

pytest.importorskip("pytoulbar2")


@pytest.fixture(autouse=True)
def ctrl_c():
    """toulbar2 captures SIGINT for good."""
    yield
    signal.signal(signal.SIGINT, signal.default_int_handler)


def posting(*, linear=False):
    network = CostNetwork(worked_example().given([[1, 1]]), 0, linear=linear)
    return Posting.of(network, "default", 0, 10**9)


@pytest.mark.parametrize("linear", [False, True])
def test_a_run_ends_with_the_optimum(linear):
    found = run(posting(linear=linear))
    assert (found.values, found.cost, found.complete) == ([0, 1], -11e9, True)


@pytest.mark.parametrize("linear", [False, True])
def test_what_is_cut_off_or_too_dear_is_not_found(linear):
    (first, cost) = ([0, 1], -11e9)
    other = run(replace(posting(linear=linear), cuts=[first]))
    assert other.values != first
    assert other.cost > cost
    assert run(replace(posting(linear=linear), below=int(cost))).values is None
    none = run(replace(posting(linear=linear), below=int(cost) - 10**12))
    assert none == Found(None, bound=none.bound, complete=True)


def test_a_search_that_was_cut_short_is_not_complete(monkeypatch):
    import pytoulbar2

    class Out(pytoulbar2.CFN):
        def Solve(self, timeLimit):  # noqa: N802
            raise self.SolverOut

    monkeypatch.setattr(pytoulbar2, "CFN", Out)
    assert run(posting()) == Found(None)
