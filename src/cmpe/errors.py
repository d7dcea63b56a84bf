"""Every error this package raises on purpose.

    CmpeError
    ├── InputError            what was given is wrong: one line, exit code 2
    │   ├── FormatError       a file does not say what its format requires
    │   ├── ModelError        a factor, model, polynomial or problem is malformed
    │   ├── EvidenceError     evidence does not fit the problem
    │   ├── MethodError       an unknown method, or an option the method cannot take
    │   └── MissingExtra      an optional dependency or its licence is missing
    ├── TooLarge              refused before the memory was taken
    │   └── OutOfTime         a time limit came before something was ready to be used
    └── BackendError          a solver of another project failed
    Interrupted               Ctrl-C (a KeyboardInterrupt); carries what is known

A message says what was required, then what was found, then where.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from cmpe.solution import Solutions

LEARN = ("torch", "safetensors")  # what the extra `learn` brings


def how_to_install(extra: str) -> str:
    """How an extra is installed: from a release, a checkout or a wheel."""
    return (
        f"install it with: pip install 'cmpe[{extra}]' (before there is a release: "
        f"pip install '.[{extra}]' in a checkout, or 'FILE.whl[{extra}]')"
    )


class CmpeError(Exception):
    """The root of all errors of this package. Its message is one line, whatever a file holds."""

    def __init__(self, message: object = "") -> None:
        super().__init__(" ".join(map(str.strip, str(message).splitlines())))


class InputError(CmpeError):
    """What was given is wrong; the message is one line for a person."""


class FormatError(InputError):
    """A file does not say what its format requires."""

    @classmethod
    def at(cls, path: Path | str, place: str, expected: str, found: str) -> FormatError:
        """Build the message `FILE: PLACE: expected ..., found ...`."""
        return cls(f"{path}: {place}: expected {expected}, found {found}")


class ModelError(InputError):
    """A factor, model, polynomial or problem is malformed."""


class EvidenceError(InputError):
    """Evidence does not fit the problem."""


class MethodError(InputError):
    """An unknown method, or an option that the method cannot take."""


class MissingExtra(InputError):  # noqa: N818 - a noun reads better where it is caught
    """An optional dependency, or its licence, is missing."""

    @classmethod
    def named(cls, package: str, extra: str) -> MissingExtra:
        """Build the message that names the extra to install."""
        return cls(f"{package} is not installed; {how_to_install(extra)}")

    @classmethod
    def behind(cls, error: ImportError) -> MissingExtra | ImportError:
        """The same for an import of torch or safetensors that failed; other errors as they are."""
        return cls.named(error.name, "learn") if error.name in LEARN else error


class TooLarge(CmpeError):  # noqa: N818
    """The work was refused before its memory was taken."""


class OutOfTime(TooLarge):
    """A time limit came before something was ready to be used."""


class BackendError(CmpeError):
    """A solver of another project failed in a way that is not an answer."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a solve; `solutions` holds the results of every row so far."""

    def __init__(self, solutions: Solutions, finished: int) -> None:
        super().__init__(f"interrupted after {finished} of {len(solutions)} rows")
        self.solutions = solutions
        self.finished = finished
