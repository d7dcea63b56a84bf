"""The memory limit of a call: a given number, or three quarters of the free memory."""

from __future__ import annotations

import ctypes
import os
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

from cmpe.arguments import real_number
from cmpe.errors import MethodError

GIGABYTE = 10**9
LEAST = 0.1  # GB: Python and compiled code alone take more
SHARE = 0.75  # of what is free
MEMINFO = Path("/proc/meminfo")
FRESH = 0.1  # seconds for which a reading is used
FIRST_LINES = 512  # bytes of it, which hold what is read


def gigabytes_of(memory: object) -> float:
    """An allowance in GB, checked."""
    found = real_number("memory", memory, example="8 (GB)")
    if not LEAST <= found < float("inf"):
        raise MethodError(f"memory must be at least {LEAST} GB, found {found:g}")
    return found


def allowed_bytes(memory: float | None) -> int:
    """The allowance in bytes; without one, a share of what is free now."""
    return int(SHARE * free_bytes()) if memory is None else int(memory * GIGABYTE)


def free_bytes() -> int:
    """Memory that programs could still take."""
    return _read(MEMINFO, int(time.monotonic() / FRESH))


@lru_cache(maxsize=1)
def _read(path: Path, moment: int) -> int:
    """The same as `path` said at some moment: reading it takes as long as a small row."""
    try:
        with open(path, "rb", buffering=0) as file:
            words = file.read(FIRST_LINES).split()
        return int(words[words.index(b"MemAvailable:") + 1]) * 1024
    except (OSError, ValueError):  # not Linux
        return _all_pages() if hasattr(os, "sysconf") else _on_windows()


def _all_pages() -> int:
    """All the memory of the machine: a Mac has no short answer to what is free of it."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _on_windows() -> int:
    """The physical memory that is free: a MEMORYSTATUSEX holds it as its third eight bytes."""
    system: Any = ctypes
    status = (ctypes.c_uint64 * 8)(64)  # its first four bytes are its length
    system.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status))
    return int(status[2])
