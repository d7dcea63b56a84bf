"""`njit`: the one decorator of compiled code.

It compiles a function when it is first called, as `numba.njit` does. In addition,

- compiled code is cached (`core.compiler.cache`);
- users are notified of compiling (`core.compiler.notices`);
- no clock of this package counts compiling (`core.compiler.timing`).

The fast compiler (`core.compiler.fast`) translates functions where `core.compiler.fence` allows it;
everywhere else numba does, with options that its documentation describes. Both give equal results.

Importing this module imports numba, which takes 0.4 s: only compiled code does it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numba
from numba.core import event

from cmpe.core.compiler import notices, timing
from cmpe.core.compiler.fence import IS_COMPILED, IS_FAST

PACKAGE = __name__.partition(".")[0] + "."
DISPATCHERS: list[Any] = []  # functions that Python calls, of the modules imported so far
PLAIN_SLOWNESS = 4  # CPU seconds of a first use under plain numba, by those of the fast compiler

if IS_FAST:
    from cmpe.core.compiler import fast
else:
    notices.slowness = PLAIN_SLOWNESS

try:
    from cmpe.core.compiler.cache import keep
except (AttributeError, ImportError):  # a version of numba whose cache is another one

    def keep(dispatcher: Any) -> None:
        """Cache compiled code as numba does, where it has a folder to write to."""
        with suppress(RuntimeError):
            dispatcher.enable_caching()


def njit(
    *,
    cache: bool = True,
    inner: bool | None = None,
    counted: bool = True,
    forceinline: bool = False,
    **options: Any,
) -> Callable[[Any], Any]:
    """Compile a function when it is first called, as `numba.njit` does.

    Only compiled code may call an `inner` function. A function whose name begins with an underscore
    is an inner one by default.

    Two options are for the fast compiler; numba alone ignores them. `forceinline` asks LLVM to
    inline every call. `counted=False` is for a function that neither makes arrays nor calls
    a function that does: no references are counted in it.

    Division by zero gives what numpy gives, not an exception. `options` are numba's.
    """
    options = {"error_model": "numpy", **options}

    def decorate(function: Any) -> Any:
        if not IS_COMPILED:
            return function
        is_inner = function.__name__.startswith("_") if inner is None else inner
        if IS_FAST:
            hints = {"forceinline": forceinline} | ({} if counted else {"_nrt": False})
            dispatcher = fast.compiled(function, options | hints, is_inner=is_inner)
        else:
            dispatcher = numba.njit(**options)(function)
        if cache and not is_inner:
            keep(dispatcher)
            DISPATCHERS.append(dispatcher)
        return dispatcher

    return decorate


class _Clocks(event.Listener):  # type: ignore[misc]
    """Numba takes its compiler's lock to compile a function, and to load one from the cache."""

    def on_start(self, event: Any) -> None:
        timing.stop()

    def on_end(self, event: Any) -> None:
        timing.go_on()


class _Notices(event.Listener):  # type: ignore[misc]
    """Compiling a function compiles the functions that it calls: one event within another."""

    def __init__(self) -> None:
        self._names: list[str] = []

    def on_start(self, event: Any) -> None:
        function = _name(event)
        if function.startswith(PACKAGE):
            self._names.append(function)
            notices.begin(function)

    def on_end(self, event: Any) -> None:
        function = _name(event)
        if function.startswith(PACKAGE):
            self._names.pop()
            if not self._names:
                notices.end(function)


def _name(event: Any) -> str:
    function = event.data["dispatcher"].py_func
    return f"{function.__module__}.{function.__qualname__}"


event.register("numba:compiler_lock", _Clocks())
event.register("numba:compile", _Notices())
if IS_FAST:
    event.register("numba:compile", fast.Rest())


def uncompiled(function: Any) -> Any:
    """The Python function that was compiled; the function itself where nothing is compiled."""
    return getattr(function, "py_func", function)
