"""`njit`: the one decorator of compiled code. It is numba's, and more:

- what is compiled is kept where it can be kept (`core.compiler.cache`);
- people are told of it (`core.compiler.notices`);
- no clock of this package counts it (`core.compiler.timing`);
- functions that only compiled code calls are compiled once (`core.compiler.inner`).

Importing this module imports numba, which takes 0.4 s: only kernels do it.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numba
from llvmlite.binding import ffi
from numba.core import event

from cmpe.core.compiler import notices, timing
from cmpe.core.compiler.cache import keep
from cmpe.core.compiler.inner import OPTIONS, Inner, generalise, hide, join
from cmpe.core.compiler.shared import Sharing

PACKAGE = __name__.partition(".")[0] + "."
_LOCK = ffi.lib._lock
DISPATCHERS: list[Any] = []  # functions that Python calls, of the modules imported so far


def njit(
    *, cache: bool = True, inner: bool | None = None, counted: bool = True, **options: Any
) -> Callable[[Any], Any]:
    """Compile a function when it is first called, as `numba.njit` does.

    An `inner` function is called by compiled code only (`core.compiler.inner`); those whose names
    begin with an underscore are, unless they say otherwise.

    A function that makes no arrays, and calls none that does, need not have its references
    `counted`. Counting costs more than a look at a small table: numba counts each array of a named
    tuple whenever the tuple is handed on.
    """
    if not counted:
        options["_nrt"] = False
    if options.pop("inline", None):  # numba's passes that do it are not there: LLVM does it
        inner = True

    def decorate(function: Any) -> Any:
        is_inner = function.__name__.startswith("_") if inner is None else inner
        if numba.config.DISABLE_JIT:
            return numba.njit(**options)(function)
        if is_inner:
            return _inner(function, options)
        dispatcher = numba.njit(pipeline_class=Sharing, no_cfunc_wrapper=True, **options)(function)
        if cache:
            keep(dispatcher)
            DISPATCHERS.append(dispatcher)
        return dispatcher

    return decorate


def _inner(function: Any, options: dict[str, Any]) -> Any:
    dispatcher = numba.njit(pipeline_class=Inner, **OPTIONS, **options)(function)
    hide(dispatcher)
    generalise(dispatcher)
    return dispatcher


class _Clocks(event.Listener):  # type: ignore[misc]
    """The compiler's lock is taken to compile, and to load from the cache."""

    def on_start(self, event: Any) -> None:
        timing.stop()

    def on_end(self, event: Any) -> None:
        timing.go_on()


class _Notices(event.Listener):  # type: ignore[misc]
    """Compiling one function compiles those it calls, and numba's own: one event within another.

    While the outermost is compiled the garbage collector rests: compilers make many objects that
    live until the end, and looking through them again and again took a fifth of the time. So do
    numba's events for each call of LLVM, of which there are 40,000. Functions of numba that a
    kernel calls are inner ones, too.
    """

    def __init__(self) -> None:
        self._outer: list[str] = []
        self._collects = False
        self._calls: list[Any] = []

    def on_start(self, event: Any) -> None:
        function = _name(event)
        if function.startswith(PACKAGE):
            if not self._outer:
                self._collects = gc.isenabled()
                gc.disable()
                self._calls[:], _LOCK._cblist[:] = _LOCK._cblist, []
            self._outer.append(function)
            notices.begin(function)
        elif self._outer and function.startswith("numba.") and "<locals>" in function:
            join(event.data["dispatcher"])

    def on_end(self, event: Any) -> None:
        function = _name(event)
        if function.startswith(PACKAGE):
            self._outer.pop()
            if not self._outer:
                _LOCK._cblist[:] = self._calls
                if self._collects:
                    if not gc.get_freeze_count():  # else the program has frozen something itself
                        gc.freeze()  # all there is becomes old: nothing looks through it now
                        gc.unfreeze()
                    gc.enable()
                notices.end(function)


def _name(event: Any) -> str:
    function = event.data["dispatcher"].py_func
    return f"{function.__module__}.{function.__qualname__}"


event.register("numba:compiler_lock", _Clocks())
event.register("numba:compile", _Notices())


def uncompiled(function: Any) -> Any:
    """The Python function that was compiled, also where numba was told to compile nothing."""
    return getattr(function, "py_func", function)
