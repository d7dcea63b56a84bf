"""Stand-ins for what a machine with a GPU may lack: it needs torch, numpy and scipy only."""

from __future__ import annotations

import sys
import types


def without_numba() -> bool:
    """Stand in for numba where it is missing: torch needs only the plan, which is plain numpy.

    Whether it is missing.
    """
    try:
        import numba  # noqa: F401
    except ImportError:
        stub = types.ModuleType("cmpe.core.compiler.functions")  # the one module that imports numba
        vars(stub).update(njit=lambda **_: lambda function: function, DISPATCHERS=[])
        sys.modules |= {stub.__name__: stub, "numba": types.ModuleType("numba")}
        return True
    return False


def without_safetensors() -> None:
    """Stand in for safetensors where it is missing: runs are kept by torch there."""
    try:
        import safetensors  # noqa: F401
    except ImportError:
        for name in ("safetensors", "safetensors.torch"):
            stub = types.ModuleType(name)
            vars(stub).update(SafetensorError=OSError, load=None, save=None)
            sys.modules[name] = stub
