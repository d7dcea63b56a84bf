"""Types of operators and of numba's functions, found once in a process.

Numba finds the types of `a[i]` and `len(a)` by trying one rule after another, wherever it meets
them. Here the answer to the first question is kept.
"""

from __future__ import annotations

import copy
from typing import Any

from numba.core.targetconfig import ConfigStack
from numba.core.types import Function
from numba.core.typing.context import Context


class Remembering(Context):  # type: ignore[misc]
    """A typing context that keeps the signature of a function for types of arguments."""

    signatures: dict[Any, Any]

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        """The signature of a call."""
        key = getattr(func, "typing_key", func)
        is_operator = getattr(key, "__module__", None) == "_operator"
        if kws or not (isinstance(func, Function) or is_operator):
            return super().resolve_function_type(func, args, kws)
        question = key, tuple(args), ConfigStack.top_or_none()
        signature = self.signatures.get(question)
        if signature is None:
            signature = super().resolve_function_type(func, args, kws)
            self.signatures[question] = signature
        return signature


_REMEMBERING: dict[int, Remembering] = {}  # by numba's context, which lives as long as the process


def remembering(context: Any) -> Any:
    """A context with the registries of numba's own, which stays as it is."""
    if id(context) not in _REMEMBERING:
        one = copy.copy(context)
        one.__class__, one.signatures = Remembering, {}
        _REMEMBERING[id(context)] = one
    return _REMEMBERING[id(context)]
