"""Locks of files and folders, on this machine and as Windows has them."""

import os
import sys
import types

import pytest

from cmpe.locks import lock, open_folder


def as_on_windows(monkeypatch):
    """No fcntl and no descriptors of folders; msvcrt, made of the locks of this system."""
    import fcntl

    held = []

    def locking(descriptor, mode, count):
        assert (mode, count, os.lseek(descriptor, 0, os.SEEK_CUR)) == (2, 1, 1 << 30)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PermissionError(13, "Permission denied") from None
        held.append(descriptor)

    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", types.SimpleNamespace(LK_NBLCK=2, locking=locking))
    monkeypatch.setattr(os, "O_TEMPORARY", 0, raising=False)
    return held


@pytest.mark.parametrize("windows", [False, True])
def test_one_holds_a_folder_at_a_time(tmp_path, monkeypatch, windows):
    held = as_on_windows(monkeypatch) if windows else None
    first, second = open_folder(tmp_path), open_folder(tmp_path)
    lock(first)
    with pytest.raises(BlockingIOError):
        lock(second)
    os.close(first)
    lock(second)
    os.close(second)
    assert held is None or len(held) == 2
    assert [file.name for file in tmp_path.iterdir()] == ([".lock"] if windows else [])


def test_the_place_in_a_file_stays_where_it_was(tmp_path, monkeypatch):
    as_on_windows(monkeypatch)
    with (tmp_path / "journal").open("wb+", buffering=0) as file:
        file.write(b"line\n")
        lock(file.fileno())
        file.write(b"next\n")
    assert (tmp_path / "journal").read_bytes() == b"line\nnext\n"
