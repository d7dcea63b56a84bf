"""A copy of the package that its users cannot write to, in processes of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cmpe.core.compiler import cache

ROOT = Path(__file__).resolve().parents[3]
KERNELS = """
from cmpe.core.compiler.functions import njit

@njit(cache=True)
def twice(x):
    return 2 * x
"""
# Root may write everywhere: what a user may not is refused by hand.
USE = """
import builtins, os, sys, tempfile
given, real = sys.argv[2].split(os.pathsep), open

def refusing(call, place):
    def checked(*arguments, **options):
        path = str(arguments[place] if place < len(arguments) else options.get("dir"))
        mode = arguments[1] if call is real else "w"
        if not mode.startswith("r") and not any(path.startswith(folder) for folder in given):
            raise PermissionError(13, "Permission denied", path)
        return call(*arguments, **options)
    return checked

builtins.open = refusing(open, 0)
tempfile.TemporaryFile = refusing(tempfile.TemporaryFile, 9)
from cmpe.tiny.kernels import twice
for x in eval(sys.argv[1]):
    twice(x)
print(sum(twice.stats.cache_hits.values()), sum(twice.stats.cache_misses.values()))
"""


@pytest.fixture
def installed(tmp_path):
    """A copy of the package with one kernel."""
    package = tmp_path / "installed/cmpe"
    shutil.copytree(ROOT / "src/cmpe/core", package / "core")
    (package / "tiny").mkdir()
    for name in ("__init__.py", "tiny/__init__.py"):
        (package / name).touch()
    (package / "tiny/kernels.py").write_text(KERNELS)
    return package.parent


def use(installed, numbers, *writable, **environment):
    """(loaded, compiled) when a user calls the kernel with each number."""
    home = {"PYTHONPATH": str(installed), "HOME": str(writable[-1] if writable else "/nowhere")}
    folders = os.pathsep.join([*map(str, writable), os.devnull])
    done = subprocess.run(
        [sys.executable, "-B", "-c", USE, repr(numbers), folders],
        env={"PATH": os.environ["PATH"]} | home | environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return tuple(map(int, done.stdout.split()))


def test_users_of_a_read_only_installation(installed, tmp_path):
    """Each has a folder of their own, in front of what was compiled by whoever installed it."""
    home = tmp_path / "home"
    assert use(installed, [1], installed) == (0, 1)
    assert list((installed / "cmpe/tiny/__pycache__").glob("*.nbi"))
    assert use(installed, [1, 1.0]) == (1, 1)  # nowhere to write: not kept, and no failure
    assert use(installed, [1.0], home) == (0, 1)
    assert use(installed, [1, 1.0], home) == (2, 0)
    chosen = home / "chosen"
    assert use(installed, [1], home, NUMBA_CACHE_DIR=str(chosen)) == (0, 1)
    assert list(chosen.rglob("*.nbi"))


def test_code_is_compiled_anew_when_something_it_calls_has_changed(installed):
    """Numba alone looks at the function's own file."""
    tiny = installed / "cmpe/tiny"
    (tiny / "other.py").write_text("FACTOR = 3")
    (tiny / "factors.py").write_text("FACTOR = 2")
    calling = KERNELS.replace("2 * x", "FACTOR * x")
    (tiny / "kernels.py").write_text(f"from cmpe.tiny.factors import FACTOR\n{calling}")
    assert use(installed, [1], installed) == (0, 1)
    assert use(installed, [1], installed) == (1, 0)
    (tiny / "other.py").write_text("FACTOR = 4")  # nothing imports it
    assert use(installed, [1], installed) == (1, 0)
    (tiny / "factors.py").write_text("FACTOR = 5")
    assert use(installed, [1], installed) == (0, 1)
    assert use(installed, [1], installed) == (1, 0)


def test_a_record_may_get_another_name(installed, tmp_path):
    """Code that was compiled for a class of the old name is not read."""
    home = tmp_path / "home"
    kernels = installed / "cmpe/tiny/kernels.py"
    record = "from typing import NamedTuple\n\nclass NAME(NamedTuple):\n    x: float\n"
    for name in ("Old", "New"):
        body = KERNELS.replace("2 * x", "2 * x.x")
        kernels.write_text(record.replace("NAME", name) + body + f"\nrecord = {name}(1.0)\n")
        made = "[__import__('cmpe.tiny.kernels').tiny.kernels.record]"
        assert use(installed, Expression(made), home) == (0, 1)
        assert use(installed, Expression(made), home) == (1, 0)


class Expression:
    """What `repr` gives as it is."""

    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return self.text


def test_what_a_kernel_reaches(tmp_path):
    kernels = cache.PACKAGE / "core"
    assert kernels / "trades.py" in cache._imported(kernels / "mixtures.py")
    (tmp_path / "module.py").write_text("from cmpe.core import lanes, loops")
    reached = {path.name for path in cache._imported(tmp_path / "module.py")}
    assert reached == {"__init__.py", "lanes.py", "loops.py"}
    assert cache.digest(kernels / "mixtures.py") != cache.digest(kernels / "trades.py")
    assert cache.digest(Path("<stdin>")) == cache.digest(Path("nowhere.py"))


def test_a_numba_with_another_cache_keeps_code_by_itself():
    """Names of numba's cache are no part of its documentation."""
    script = """
import numba.core.caching
for name in ("InTreeCacheLocator", "_InTreeCacheLocator"):
    vars(numba.core.caching).pop(name, None)
from cmpe.core.compiler import functions
assert functions.keep.__module__ == functions.__name__
print(functions.njit()(lambda x: x + 1)(1))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "2\n", done.stderr
