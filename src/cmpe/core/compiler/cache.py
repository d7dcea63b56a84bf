"""The cache of compiled code: its folders, its users and its size.

Numba keeps the code of a function in the first of these folders that can be written:

1. `NUMBA_CACHE_DIR`, where it is set, and then no other is read;
2. `__pycache__` beside the function's source;
3. a folder of the user: `$XDG_CACHE_HOME/numba` or `~/.cache/numba` (on a Mac
   `~/Library/Caches/numba`, on Windows `%LOCALAPPDATA%\\numba\\Cache`).

So several users of one read-only installation have a folder each. This module adds four things.

- Code is compiled anew when any module of this package that it reaches by imports has changed.
  Numba alone looks at the function's own file, and would go on with what another version had
  compiled of the functions it calls.
- The fast compiler and numba alone have a file each (`core.compiler.fence`).
- What the installation itself holds (an administrator has run `cmpe compile`) is loaded by users
  who cannot write there.
- Where no folder can be written at all, what the installation does not hold is compiled anew in
  each process; numba alone would fail at the import.
"""

from __future__ import annotations

import re
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from numba.core import caching, config
from numba.core.caching import FunctionCache

from cmpe.core.compiler.fence import COMPILER

PACKAGE = Path(__file__).resolve().parents[2]
IMPORTS = re.compile(rf"^\s*from {PACKAGE.name}\.([\w.]+) import (\([^)]*\)|.*)", re.MULTILINE)


@cache
def _imported(path: Path) -> list[Path]:
    """The modules of this package that a file imports from."""
    places = []
    for module, names in IMPORTS.findall(path.read_text(encoding="utf-8")):
        place = PACKAGE.joinpath(*module.split("."))
        places += [place, *(place / name for name in re.findall(r"\w+", names))]
    files = [file for place in places for file in (place.with_suffix(".py"), place / "__init__.py")]
    return [file for file in files if file.is_file()]


@cache
def digest(path: Path) -> str:
    """Of a file and all modules of this package that it reaches by imports."""
    reached, waiting = set[Path](), [path] if path.is_file() else []
    while waiting:
        if (file := waiting.pop()) not in reached:
            reached.add(file)
            waiting += _imported(file)
    contents = blake2b(digest_size=16)
    for file in sorted(reached):
        contents.update(file.read_bytes())
    return contents.hexdigest()


class _Files(FunctionCache._impl_class):  # type: ignore[misc]
    """The files of one compiler."""

    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        """How the files of a function begin."""
        return f"{super().get_filename_base(fullname, abiflags)}.{COMPILER}"


class SourceCache(FunctionCache):  # type: ignore[misc]
    """Numba's cache, for as long as no module changes that the function reaches."""

    _impl_class = _Files

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        # Numba compares versions before it reads the rest of an index, which fails where a class of
        # an argument has another name now.
        reached = digest(Path(function.__code__.co_filename))
        self._cache_file._version = f"{self._cache_file._version} {reached}"


_NAME = "InTreeCacheLocator"  # _InTreeCacheLocator before numba 0.63
_InTree: Any = getattr(caching, _NAME, None) or getattr(caching, f"_{_NAME}")


class _Beside(_InTree):  # type: ignore[misc]
    """`__pycache__` beside the source, to be read."""

    def ensure_cache_path(self) -> None:
        """Ask for nothing: a folder that is missing holds no code."""


class _BesideFiles(_Files):
    _locator_classes = (_Beside,)


class InstalledCache(SourceCache):
    """What the installation holds; nothing is added to it."""

    _impl_class = _BesideFiles

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep nothing."""


class LayeredCache(SourceCache):
    """A user's own cache in front of what the installation holds."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The code of one signature, or None."""
        found = super().load_overload(sig, target_context)
        if found is None:
            found = InstalledCache(self._py_func).load_overload(sig, target_context)
        return found


def keep(dispatcher: Any) -> None:
    """Let numba keep what it compiles of a function; see above."""
    function = dispatcher.py_func
    try:
        own = SourceCache(function)
    except RuntimeError:  # no folder can be written
        dispatcher._cache = InstalledCache(function)
        return
    beside = Path(function.__code__.co_filename).parent / "__pycache__"
    is_alone = config.CACHE_DIR or Path(own.cache_path) == beside
    dispatcher._cache = own if is_alone else LayeredCache(function)
