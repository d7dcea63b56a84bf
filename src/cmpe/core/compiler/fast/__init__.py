"""The fast compiler: numba's, of which some parts are replaced.

It is used only behind `core.compiler.fence`. docs/compiling.md has a table of what each part saves.
"""

from __future__ import annotations

import gc
from typing import Any

import numba
from numba.core import event

from cmpe.core.compiler.fast.compilers import Inner, Outer, hide


def compiled(function: Any, options: dict[str, Any], *, is_inner: bool) -> Any:
    """The dispatcher of a function; only compiled code may call an inner one."""
    if not is_inner:
        return numba.njit(pipeline_class=Outer, no_cfunc_wrapper=True, **options)(function)
    dispatcher = numba.njit(
        pipeline_class=Inner, no_cpython_wrapper=True, no_cfunc_wrapper=True, **options
    )(function)
    hide(dispatcher)
    return dispatcher


class Rest(event.Listener):  # type: ignore[misc]
    """While the outermost function is compiled, the garbage collector rests.

    A compiler makes many objects that live until the end, and the collector would look through them
    again and again.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._collects = False

    def on_start(self, event: Any) -> None:
        """A function is about to be compiled."""
        if not _is_of_this_package(event):
            return
        if not self._depth:
            self._collects = gc.isenabled()
            gc.disable()
        self._depth += 1

    def on_end(self, event: Any) -> None:
        """It is compiled."""
        if not _is_of_this_package(event):
            return
        self._depth -= 1
        if not self._depth and self._collects:
            if not gc.get_freeze_count():  # else the program has frozen something itself
                gc.freeze()  # all there is becomes old: nothing looks through it now
                gc.unfreeze()
            gc.enable()


def _is_of_this_package(event: Any) -> bool:
    module: str = event.data["dispatcher"].py_func.__module__
    return module.startswith("cmpe.")
