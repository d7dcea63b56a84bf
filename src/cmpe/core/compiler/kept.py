"""The amount of compiled code in the caches."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from cmpe.core.compiler.fence import COMPILER

PACKAGE = Path(__file__).resolve().parents[2]


class Kept(NamedTuple):
    """What caches hold of this package."""

    functions: int
    megabytes: float
    folder: Path  # the nearest one that holds all of it


def kept(dispatchers: Iterable[Any]) -> Kept:
    """What the caches of these functions hold, in the folders that are written to."""
    folders = {Path(d._cache.cache_path) for d in dispatchers}
    patterns = f"*.{COMPILER}.nbi", f"*.{COMPILER}.*.nbc"
    files = [f for folder in folders for p in patterns for f in folder.glob(p)]
    size = sum(f.stat().st_size for f in files)
    count = sum(f.suffix == ".nbi" for f in files)
    return Kept(count, size / 1e6, Path(os.path.commonpath(folders)) if folders else PACKAGE)
