"""Networks that come with the package: `shipped:NAME` is the run directory `trained/NAME`.

grids   messages for random grids of two values; docs/learning.md has its data sheet
"""

from __future__ import annotations

from pathlib import Path

from cmpe.errors import MethodError

PREFIX = "shipped:"
HERE = Path(__file__).parent / "trained"


def resolved(method: str) -> str:
    """The run directory of `shipped:NAME`; any other method as it is."""
    if not method.startswith(PREFIX):
        return method
    known = sorted(path.parent.name for path in HERE.glob("*/config.json"))
    name = method.removeprefix(PREFIX)
    if name not in known:
        raise MethodError(f"the package ships {', '.join(known)}, found {method!r}")
    return str(HERE / name)
