"""Pools of fresh interpreters (spawn). Ctrl-C reaches the parent alone, which stops its workers.

A parent that is killed cannot stop them: each worker waits for its end in a thread. Parcels of a
killed parent are removed by whoever makes parcels next.

What is large travels in files. A pipe holds 64 KiB: a parent that writes more to a worker which
died while it was starting would wait for ever, and with Ctrl-C held back.

Libraries that bring threads of their own (BLAS, OpenMP, numba) would start as many as there are
cores in each of the workers. A worker has as many as it was promised.
"""

from __future__ import annotations

import contextlib
import mmap
import multiprocessing
import os
import pickle
import shutil
import signal
import struct
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from cmpe.errors import MethodError
from cmpe.locks import lock

HEAD = struct.Struct("<Q")  # the length of what stands before the arrays of a parcel
ALIGNED = 64  # bytes: where arrays of a parcel begin
# What tells libraries how many threads to have; they read it when they are loaded.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
PREFIX, OWNER = "cmpe-", "owner.lock"  # of folders of parcels, and what their owner locks
STOPPING = {signal.SIGINT, signal.SIGTERM}  # what ends a command with what is known
DIED = (
    "a worker process died: it may have run out of memory, or the script that started it "
    'lacks an `if __name__ == "__main__":` guard'
)


class Parcels:
    """Values on their way to other processes, each in a file of one folder."""

    def __init__(self) -> None:
        remove_abandoned()
        self._folder, self._lock = _own_folder()
        self._sent = 0

    def put(self, value: Any) -> Path:
        """Keep a value; refuse what another process could not read."""
        buffers: list[pickle.PickleBuffer] = []
        try:
            packed = pickle.dumps(value, pickle.HIGHEST_PROTOCOL, buffer_callback=buffers.append)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise MethodError(
                f"with several workers everything must be picklable: {error}"
            ) from None
        self._sent += 1
        path = Path(self._folder.name, str(self._sent))
        _write(path, packed, [buffer.raw() for buffer in buffers])
        return path

    def close(self) -> None:
        """Remove all of them."""
        os.close(self._lock)
        self._folder.cleanup()


def _own_folder() -> tuple[tempfile.TemporaryDirectory[str], int]:
    """A new folder, and the lock that says that its owner is there."""
    while True:
        folder = tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True)
        owner = Path(folder.name, OWNER)
        descriptor = os.open(owner, os.O_RDWR | os.O_CREAT)
        try:
            lock(descriptor)
        except OSError as error:  # a file system without locks, where nothing is removed either
            is_ours = not isinstance(error, BlockingIOError)
        else:
            is_ours = owner.exists()
        if is_ours:
            return folder, descriptor
        os.close(descriptor)  # another process has taken it for an abandoned one
        folder.cleanup()


def remove_abandoned() -> None:
    """Remove the folders of parcels whose owners are gone: their locks are free."""
    for owner in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{OWNER}"):
        with contextlib.suppress(OSError):  # of another user, or gone in the meantime
            descriptor = os.open(owner, os.O_RDWR)
            try:
                lock(descriptor)
                shutil.rmtree(owner.parent, ignore_errors=True)
            finally:
                os.close(descriptor)
            shutil.rmtree(owner.parent, ignore_errors=True)  # Windows keeps a file that is open


def _write(path: Path, packed: bytes, arrays: Sequence[memoryview]) -> None:
    """The value without its arrays, how long each of them is, and the arrays, aligned."""
    head = pickle.dumps((packed, [array.nbytes for array in arrays]), pickle.HIGHEST_PROTOCOL)
    with path.open("wb") as stream:
        stream.write(HEAD.pack(len(head)))
        stream.write(head)
        for array in arrays:
            stream.write(bytes(-stream.tell() % ALIGNED))
            stream.write(array)


def unpacked(path: Path) -> Any:
    """The value that was put into a file.

    Its arrays are the file itself, mapped into memory: all processes that read it share the pages,
    until one writes to a page and gets its own.
    """
    with path.open("rb") as stream:
        mapped = memoryview(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY))
    end = HEAD.size + HEAD.unpack_from(mapped)[0]
    packed, lengths = pickle.loads(mapped[HEAD.size : end])
    arrays = []
    for length in lengths:
        begin = end + -end % ALIGNED
        end = begin + length
        arrays.append(mapped[begin:end])
    return pickle.loads(packed, buffers=arrays)


def pool(workers: int) -> ProcessPoolExecutor:
    """A pool whose workers ignore Ctrl-C, end with this process and do not hold its stdout."""
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(workers, mp_context=context, initializer=_begin_worker)


def _begin_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
    with contextlib.suppress(OSError):  # there is no stderr
        os.dup2(2, 1)  # whoever reads the stdout of the parent would wait for the workers too
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Wait for the parent's end of a pipe to close, on Windows for the process."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def stop(workers: ProcessPoolExecutor, *, unfinished: bool) -> None:
    """End the workers; what they have not finished would otherwise hold up the exit."""
    for process in list((workers._processes or {}).values()) if unfinished else []:
        process.kill()
    workers.shutdown(wait=True, cancel_futures=True)


@contextlib.contextmanager
def few_threads(count: int) -> Iterator[None]:
    """Processes that start in the meantime have so many threads, unless they were told already."""
    added = [name for name in THREADS if name not in os.environ]
    os.environ.update(dict.fromkeys(added, str(count)))
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]


@contextlib.contextmanager
def without_interrupt() -> Iterator[None]:
    """Hold Ctrl-C and SIGTERM back; a process that starts in the meantime inherits the mask."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
