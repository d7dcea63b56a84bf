"""Locks on open files: the system's own, which end with the process that holds them."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

BEYOND = 1 << 30  # Windows locks bytes, and what is locked cannot be read: one after the end
HELD = ".lock"  # the file that stands for a folder on Windows, where folders cannot be opened


def lock(descriptor: int) -> None:
    """Lock an open file, or raise BlockingIOError where another process has locked it.

    Another OSError says that the file system has no locks.
    """
    try:
        import fcntl
    except ImportError:
        _lock_byte(descriptor)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _lock_byte(descriptor: int) -> None:
    """The same on Windows."""
    system: Any = import_module("msvcrt")
    place = os.lseek(descriptor, 0, os.SEEK_CUR)
    os.lseek(descriptor, BEYOND, os.SEEK_SET)
    try:
        system.locking(descriptor, system.LK_NBLCK, 1)
    except PermissionError as error:
        raise BlockingIOError(*error.args) from None
    finally:
        os.lseek(descriptor, place, os.SEEK_SET)


def open_folder(folder: Path) -> int:
    """A descriptor to lock a folder with; on Windows that of a file which lasts until it closes."""
    until_closed: int | None = getattr(os, "O_TEMPORARY", None)
    if until_closed is None:
        return os.open(folder, os.O_RDONLY)
    return os.open(folder / HELD, os.O_RDWR | os.O_CREAT | until_closed)
