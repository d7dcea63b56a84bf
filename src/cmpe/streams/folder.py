"""Answers in a folder of parts, which a later run completes after a kill.

    OUT/manifest.json        what was asked: models, evidence, method, options, rows of a part
    OUT/part-00000017.jsonl  the answers of rows 17 b to 18 b - 1, or `.parquet`
    OUT/journal.jsonl        when each part was finished, and what became of its rows

A part is written under another name and renamed, so it is whole or absent: what is there is done,
what is absent is answered again. Its line of the journal is written before. Manifest and parts say
nothing of time or place: two runs of the same question are the same, byte for byte, where the
method is deterministic.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

from cmpe.errors import InputError
from cmpe.formats.text import atomic_writer, parse_object, read_bytes, write_text, writing
from cmpe.locks import lock

MANIFEST, JOURNAL = "manifest.json", "journal.jsonl"
KIND = "answers of cmpe in parts, version 1"


@dataclass(frozen=True)
class AnswerPart:
    """The answers of one block, as they are written, and what became of its rows."""

    data: bytes
    rows: int
    tally: Mapping[str, int]  # rows by status
    seconds: float = 0.0


@dataclass(frozen=True)
class StreamQuestion:
    """What tells one run from another; nothing of where or how fast it runs."""

    question: Mapping[str, Any]
    block: int  # rows of a part
    suffix: str  # of parts

    def manifest(self, **result: Any) -> dict[str, Any]:
        """As it is written."""
        facts = {"kind": KIND, "block": self.block, "suffix": self.suffix}
        return {**facts, "question": dict(self.question), **result}


class AnswerFolder:
    """A folder that one process at a time writes parts into."""

    def __init__(self, path: Path, asked: StreamQuestion) -> None:
        self.path = path
        self.asked = asked
        self.tally: Counter[str] = Counter()
        self.rows = 0  # that are done
        self.done: set[int] = set()  # numbers of parts
        self.complete = False  # whether an earlier run has finished it
        self._journal: IO[bytes] | None = None

    def begin(self, *, resume: bool) -> Self:
        """Make the folder, or go on with it; refuse one that holds anything else."""
        found = read_manifest(self.path)
        _check(self.path, found, self.asked, resume=resume)
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            self._journal = (self.path / JOURNAL).open("ab+")
        _lock(self._journal, self.path)
        if found is None:
            self._write_manifest(complete=False)
        self.complete = bool(found and found.get("complete"))
        self._clean()
        self._count()
        return self

    def close(self) -> None:
        """Let others write."""
        if self._journal is not None:
            self._journal.close()

    def name_of(self, number: int) -> Path:
        """The file of a part."""
        return self.path / f"part-{number:08d}.{self.asked.suffix}"

    def write(self, number: int, part: AnswerPart) -> None:
        """Keep a part: its line of the journal, then the part itself."""
        assert self._journal is not None
        note = {"part": number, "rows": part.rows, "tally": dict(part.tally)}
        line = json.dumps({**note, "seconds": round(part.seconds, 6)})
        with writing(self.path / JOURNAL):
            self._journal.write(f"{line}\n".encode())
            self._journal.flush()
        with atomic_writer(self.name_of(number)) as stream:
            stream.write(part.data)
        self._add(number, note)

    def finish(self) -> None:
        """Say in the manifest that all parts are there."""
        tally = dict(sorted(self.tally.items()))
        self._write_manifest(complete=True, rows=self.rows, parts=len(self.done), tally=tally)

    def _write_manifest(self, **result: Any) -> None:
        text = json.dumps(self.asked.manifest(**result), indent=1)
        write_text(self.path / MANIFEST, f"{text}\n")

    def _clean(self) -> None:
        """Remove what a killed process had not finished writing."""
        for left in self.path.glob(".part-*"):
            with contextlib.suppress(FileNotFoundError):
                left.unlink()

    def _count(self) -> None:
        assert self._journal is not None
        self._journal.seek(0)
        notes: dict[int, dict[str, Any]] = {}
        data = self._journal.read()
        for line in data.splitlines():
            with contextlib.suppress(ValueError, KeyError, TypeError):  # killed within a line
                note = json.loads(line)
                notes[int(note["part"])] = note
        if data and not data.endswith(b"\n"):
            self._journal.write(b"\n")
        names = {entry.name for entry in os.scandir(self.path)}
        for number, note in notes.items():
            if self.name_of(number).name in names:
                self._add(number, note)

    def _add(self, number: int, note: Mapping[str, Any]) -> None:
        self.done.add(number)
        self.rows += int(note["rows"])
        self.tally.update(note["tally"])


def read_manifest(path: Path) -> dict[str, Any] | None:
    """What a folder says of itself; None where there is no folder, or nothing in it."""
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return None
    file = path / MANIFEST
    if not path.is_dir():
        raise InputError(f"{path}: expected a folder of answers, found a file")
    if not file.exists():
        raise InputError(f"{path}: cannot be written: it is a directory of something else")
    found = parse_object(file, read_bytes(file))
    if found.get("kind") != KIND:
        raise InputError(f"{file}: expected the manifest of {KIND!r}, found another")
    return found


def _check(
    path: Path, found: dict[str, Any] | None, asked: StreamQuestion, *, resume: bool
) -> None:
    """Refuse to mix two questions, or to begin where something is."""
    if found is None:
        return
    state = "a finished run" if found.get("complete") else "an unfinished run"
    if not resume:
        raise InputError(f"{path}: holds {state}; add --resume to go on, or choose another folder")
    before, now = _flat(found), _flat(json.loads(json.dumps(asked.manifest())))
    for name in now:
        if before.get(name) != now[name]:
            raise InputError(
                f"{path}: was begun with {name} {_short(before.get(name))}, found "
                f"{_short(now[name])}; give the same arguments, or choose another folder"
            )


def _flat(manifest: Mapping[str, Any]) -> dict[str, Any]:
    return {**{k: manifest.get(k) for k in ("block", "suffix")}, **manifest.get("question", {})}


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _lock(journal: IO[bytes], path: Path) -> None:
    """One process writes. Where a file system has no locks, nothing is locked."""
    with contextlib.suppress(OSError):
        try:
            lock(journal.fileno())
        except BlockingIOError:
            journal.close()
            raise InputError(f"{path}: another process is writing here") from None
