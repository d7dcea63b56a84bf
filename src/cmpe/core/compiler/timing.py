"""Clocks that stand still while code is compiled or loaded.

A time limit is for answering, so every deadline and every `seconds` of this package is measured by
`now` (or `thread_seconds`). While numba holds its compiler's lock, to compile a function or to load
one from the cache, both stand still: a first answer within 1 s is the same as a second one.
`core.compiler.functions` tells this module when; nothing here imports numba.

Where one thread compiles, `now` stands still for all of them.
"""

from __future__ import annotations

import threading
import time
from typing import NamedTuple


class _Held(NamedTuple):
    """One value that is replaced as a whole, so that readers need no lock."""

    seconds: float = 0.0  # that were held before
    since: float | None = None  # when the clock stopped, where it stands still now
    depth: int = 0  # of calls of `stop`, in all threads together


class _OfThread(threading.local):
    seconds = 0.0
    since = 0.0
    depth = 0


_lock = threading.Lock()
_held = _Held()
_of_thread = _OfThread()


def now() -> float:
    """A moment in seconds, as `time.perf_counter`, less what compiling has taken."""
    moment = time.perf_counter()  # before what is held: else a stop between would turn it back
    held = _held
    return (moment if held.since is None else min(moment, held.since)) - held.seconds


def thread_seconds() -> float:
    """Seconds that this thread has computed, less what it has compiled."""
    moment = _of_thread.since if _of_thread.depth else time.thread_time()
    return moment - _of_thread.seconds


def wall() -> float:
    """A moment in seconds, compiling included: for what waits for people or other processes."""
    return time.perf_counter()


def compiled_seconds() -> float:
    """How long this process has compiled or loaded code."""
    held = _held
    return held.seconds + (0.0 if held.since is None else time.perf_counter() - held.since)


def stop() -> None:
    """Let the clocks stand still; calls may be nested, and come from several threads."""
    global _held
    with _lock:
        since = time.perf_counter() if _held.since is None else _held.since
        _held = _Held(_held.seconds, since, _held.depth + 1)
    if _of_thread.depth == 0:
        _of_thread.since = time.thread_time()
    _of_thread.depth += 1


def go_on() -> None:
    """Undo one `stop` of this thread."""
    global _held
    with _lock:
        if _held.depth == 1 and _held.since is not None:
            _held = _Held(_held.seconds + time.perf_counter() - _held.since)
        else:
            _held = _held._replace(depth=_held.depth - 1)
    _of_thread.depth -= 1
    if _of_thread.depth == 0:
        _of_thread.seconds += time.thread_time() - _of_thread.since
