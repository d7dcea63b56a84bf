"""How the tests look at errors: each is one line, and nothing is left behind."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable

import pytest

from cmpe.errors import InputError


def refused(
    action: Callable[[], object], match: str | None = None, kind: type[Exception] = InputError
) -> str:
    """The one line of an action that must fail."""
    with pytest.raises(kind, match=match) as error:
        action()
    assert "\n" not in str(error.value)
    return str(error.value)


def only_line(err: str) -> str:
    """What a command that must fail says on stderr, after `error: `."""
    assert re.fullmatch(r"error: [^\n]+\n", err), err
    return err.removeprefix("error: ").rstrip("\n")


def fill_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on nothing written reaches the disk."""

    def full(_handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
