from __future__ import annotations

import pytest

from cmpe.core.compiler import fence

NEEDS_COMPILER = {"test_cache.py", "test_functions.py"}


def pytest_collection_modifyitems(items):
    """Tests of a compiler run where it is used."""
    for item in items:
        if item.path.parent.name == "fast" and not fence.IS_FAST:
            item.add_marker(pytest.mark.skip(reason="the fast compiler is not used"))
        elif item.path.name in NEEDS_COMPILER and not fence.IS_COMPILED:
            item.add_marker(pytest.mark.skip(reason="nothing is compiled"))
