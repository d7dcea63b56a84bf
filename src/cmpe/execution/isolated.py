"""A separate, long-lived process for code that may crash; it is replaced after a crash.

The process is a fresh interpreter that imports nothing of the script that started it, so scripts
need no `__main__` guard. Calls and replies travel through pipes. Ctrl-C in the terminal does not
reach it: the caller asks it to stop with SIGINT, which raises KeyboardInterrupt in a call that does
not handle it otherwise, and kills it when that does not help.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from cmpe.errors import BackendError
from cmpe.execution.settings import EXECUTION

CODE = """
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
sys.path[:] = {path!r}
from cmpe.execution.isolated import serve
serve()
"""
READY = "ready"
PR_SET_PDEATHSIG = 1  # of Linux: end with the thread that started it


@dataclass(frozen=True)
class Reply:
    """How a call ended."""

    value: Any = None
    error: str | None = None  # it raised, or its process died
    stopped: bool = False  # it was asked to stop, by its time limit or by Ctrl-C
    interrupted: bool = False  # by Ctrl-C

    @property
    def answered(self) -> bool:
        """Whether it returned something."""
        return self.error is None and self.value is not None


class IsolatedProcess:
    """Runs one call at a time; started when it is first needed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        _LIVING.add(self)

    def call(
        self,
        work: Callable[..., Any],
        *arguments: Any,
        seconds: float | None = None,
        stop: threading.Event | None = None,
    ) -> Reply:
        """Run `work(*arguments)` there: for so many seconds, until `stop` is set, or Ctrl-C."""
        interrupted = False
        try:
            self.start()
            self._send(pickle.dumps((work, arguments), pickle.HIGHEST_PROTOCOL))
            stopped = not self._wait(None if seconds is None else time.monotonic() + seconds, stop)
        except KeyboardInterrupt:
            stopped = interrupted = True
        interrupted |= stopped and _is_set(stop)
        if stopped and not self._asked_to_stop():
            self.close()
            return Reply(None, None, stopped, interrupted)
        return Reply(*self._received(), stopped, interrupted)

    def start(self) -> None:
        """Have a process that waits for calls."""
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        process = subprocess.Popen(
            [sys.executable, "-c", CODE.format(path=sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        self._calls = Connection(os.dup(process.stdin.fileno()), readable=False)
        self._replies = Connection(os.dup(process.stdout.fileno()), writable=False)
        process.stdin.close()
        process.stdout.close()
        self._process, self._owner = process, os.getpid()
        try:
            ready = self._replies.poll(EXECUTION.start) and self._received() == (READY, None)
        except KeyboardInterrupt:
            self.close()
            raise
        if not ready:
            self.close()
            raise BackendError("a separate process could not be started")

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None:
            return
        self._calls.close()
        self._replies.close()
        if self._owner == os.getpid():  # not after a fork: it belongs to the parent
            process.kill()
            process.wait()

    def __del__(self) -> None:
        self.close()

    def _send(self, packed: bytes) -> None:
        with contextlib.suppress(OSError):  # it has died: there will be no reply
            self._calls.send_bytes(packed)

    def _wait(self, until: float | None, stop: threading.Event | None) -> bool:
        """Whether a reply came before the time was up or `stop` was set."""
        while not _is_set(stop):
            left = EXECUTION.poll
            if until is not None:
                left = min(left, until - time.monotonic())
            if self._replies.poll(max(0.0, left)):
                return True
            if left <= 0:
                return False
        return False

    def _asked_to_stop(self) -> bool:
        """Whether a reply comes soon after it is asked to stop; a second Ctrl-C ends the wait."""
        until = time.monotonic() + EXECUTION.process_grace
        with contextlib.suppress(KeyboardInterrupt):
            while self._process is not None and time.monotonic() < until:
                self._process.send_signal(signal.SIGINT)
                if self._replies.poll(EXECUTION.poll):
                    return True
        return False

    def _received(self) -> tuple[Any, str | None]:
        """(value, None), or (None, what went wrong)."""
        try:
            value, error = self._replies.recv()
        except (EOFError, OSError):
            assert self._process is not None
            code = self._process.wait()
            self.close()
            return None, _how_it_ended(code)
        return value, error


_LIVING: weakref.WeakSet[IsolatedProcess] = weakref.WeakSet()
_HERE = threading.local()


def isolated_process(name: str) -> IsolatedProcess:
    """The process of that name of this thread: calls of one name share what they leave behind."""
    own: dict[tuple[int, str], IsolatedProcess] = _HERE.__dict__.setdefault("processes", {})
    return own.setdefault((os.getpid(), name), IsolatedProcess())


@atexit.register
def _close_all() -> None:
    for process in list(_LIVING):
        process.close()


def _is_set(stop: threading.Event | None) -> bool:
    return stop is not None and stop.is_set()


def _how_it_ended(code: int) -> str:
    if code >= 0:
        return f"its process ended with exit code {code}"
    return f"its process crashed ({signal.Signals(-code).name})"


def allow_memory(most: int) -> None:
    """No more memory than this for an isolated process, with what Python takes; not on Windows.

    Without effect in any other process: there a thread that cannot allocate never starts, and
    whoever starts it waits for ever.
    """
    if not _serving:
        return
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        soft = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


_serving: list[bool] = []  # whether this is an isolated process


def serve() -> None:
    """The loop of the process: calls in, replies out, everything else printed to nowhere."""
    _serving.append(True)
    calls = Connection(os.dup(0), writable=False)
    replies = Connection(os.dup(1), readable=False)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    _end_with_parent()
    waiting: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(calls, waiting), daemon=True).start()
    replies.send((READY, None))
    while True:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing runs: a late one is dropped
        replies.send(_outcome(waiting.get()))


def _receive(calls: Connection, waiting: queue.SimpleQueue[bytes]) -> None:
    """Put calls into the queue; when the pipe closes, the parent is gone, whatever runs here."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            waiting.put(calls.recv_bytes())
    os._exit(0)


def _outcome(packed: bytes) -> tuple[Any, str | None]:
    """(value, None), or (None, what went wrong); (None, None) where it was asked to stop."""
    value = None
    try:
        work, arguments = pickle.loads(packed)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        value = work(*arguments)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"
    return value, None


def _end_with_parent() -> None:
    """On Linux the kernel ends a child of a killed parent, also while it runs code in C."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
