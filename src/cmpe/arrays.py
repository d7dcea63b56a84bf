"""Array types of the whole package, the mark of a free variable, and tensors as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Indices = NDArray[np.intp]
Unsigned = NDArray[np.uint64]  # numba keeps unsigned indices free of sign checks
# Values of discrete variables, one row per assignment.
Assignments = NDArray[np.int32]
# Values of any variables: int32, or float64 where a problem has variables in [0, 1].
Values = NDArray[Any]

FREE = -1  # stands in a row of evidence where a variable is not observed


def numbers_of(values: Any) -> NDArray[Any]:
    """An array; of a torch tensor its numbers, wherever it is and with gradients or without."""
    detach = getattr(values, "detach", None)
    return np.asarray(values if detach is None else detach().cpu().numpy())
