"""`copy`: numbers from one array to another.

`target[:] = source` would do, but numba compiles a message about shapes into each such line, with
its own strings: 3 s for a first answer.
"""

from __future__ import annotations

from cmpe.compiling.functions import njit


@njit(inner=True, nogil=True)
def copy(source, target):
    """Make the numbers of `target` (N,) those at the beginning of `source`."""
    for i in range(len(target)):
        target[i] = source[i]
