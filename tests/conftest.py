"""What every test relies on: one hypothesis profile, one thread a worker, a Ctrl-C that arrives."""

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

# Workers share the cores: torch with a thread per core in each of them would crawl.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# No deadlines, since compilation takes seconds; the same examples in every run.
settings.register_profile(
    "cmpe", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("cmpe")

# A suite started in the background of a script inherits an ignored SIGINT, and so would every
# process that its tests start. A Python handler stops that: a new process begins with the default.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _ctrl_c_arrives():
    """Libraries in C (SCIP, toulbar2) install a handler of their own and may leave it behind."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    """Pages of the documentation come first: each is long, and no worker should end on them alone.

    Hundreds of random problems are there for their answers; others cover the lines. The tracer
    would double the time they take. Where nothing is compiled, they cover the core.
    """
    items.sort(key=lambda item: "test_docs" not in item.nodeid)
    is_compiled = os.environ.get("NUMBA_DISABLE_JIT", "0") in ("", "0")
    for item in items:
        if is_compiled and getattr(item.obj, "is_hypothesis_test", False):
            item.add_marker("no_cover")
