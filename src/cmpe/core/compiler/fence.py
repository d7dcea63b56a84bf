"""Which compiler translates the core.

The fast compiler replaces parts of numba that no documentation promises, so it is used only with
the versions of numba that it was tested with. Every other version compiles the same functions by
itself, with equal results: calls and above all first calls take longer.

`CMPE_PLAIN_NUMBA=1` in the environment chooses numba alone, `NUMBA_DISABLE_JIT=1` compiles nothing.
To add a version to TESTED, run `make test` with it.
"""

from __future__ import annotations

import os

import numba

TESTED = ("0.68.1",)

IS_COMPILED = not numba.config.DISABLE_JIT
IS_PLAIN = os.environ.get("CMPE_PLAIN_NUMBA", "0") not in ("", "0")
IS_FAST = IS_COMPILED and not IS_PLAIN and numba.__version__ in TESTED
COMPILER = "fast" if IS_FAST else "plain"
