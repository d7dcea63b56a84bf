"""The fast compiler: numba's, of which some parts are replaced.

It may be used only behind `core.compiler.fence`. It compiles a first answer in a fifth of the time
that numba takes, and its code needs a tenth to a half less time: docs/compiling.md has a table of
what each part brings.
"""

from __future__ import annotations

import gc
from typing import Any

import numba
from llvmlite.binding import ffi
from numba.core import event

from cmpe.core.compiler.fast.inner import OPTIONS, Inner, generalise, hide, join
from cmpe.core.compiler.fast.shared import Sharing

_LOCK = ffi.lib._lock


def compiled(function: Any, options: dict[str, Any], *, is_inner: bool) -> Any:
    """The dispatcher of a function; only compiled code may call an inner one."""
    if not is_inner:
        return numba.njit(pipeline_class=Sharing, no_cfunc_wrapper=True, **options)(function)
    dispatcher = numba.njit(pipeline_class=Inner, **OPTIONS, **options)(function)
    hide(dispatcher)
    generalise(dispatcher)
    return dispatcher


class Rest(event.Listener):  # type: ignore[misc]
    """While the outermost function is compiled, the garbage collector rests.

    Compilers make many objects that live until the end, and looking through them again and again
    took a fifth of the time. Numba's events for each call of LLVM, of which there are 40,000, rest
    as well. Functions of numba that a kernel calls are inner ones, too.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._collects = False
        self._calls: list[Any] = []

    def on_start(self, event: Any) -> None:
        """A function is about to be compiled."""
        function = event.data["dispatcher"].py_func
        module = function.__module__
        if module.startswith("cmpe."):
            if not self._depth:
                self._collects = gc.isenabled()
                gc.disable()
                self._calls[:], _LOCK._cblist[:] = _LOCK._cblist, []
            self._depth += 1
        elif self._depth and module.startswith("numba.") and "<locals>" in function.__qualname__:
            join(event.data["dispatcher"])

    def on_end(self, event: Any) -> None:
        """It is compiled."""
        if not event.data["dispatcher"].py_func.__module__.startswith("cmpe."):
            return
        self._depth -= 1
        if not self._depth:
            _LOCK._cblist[:] = self._calls
            if self._collects:
                if not gc.get_freeze_count():  # else the program has frozen something itself
                    gc.freeze()  # all there is becomes old: nothing looks through it now
                    gc.unfreeze()
                gc.enable()
