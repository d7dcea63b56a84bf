"""Finished stages on disk, each under the hash of everything that decides it.

    OUT/store/STAGE/KEY/   the files of an artifact
                           aside.json      what may differ from run to run: seconds, devices
                           manifest.json   the task, and the sha256 of every file (aside left out)

KEY is the sha256 of the task as canonical JSON: its stage, the stage's version, its settings and
the keys of its inputs. A directory is written under another name and renamed when it is whole, so
that a run can be stopped anywhere.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from cmpe.errors import FormatError

MANIFEST, ASIDE = "manifest.json", "aside.json"
UNFINISHED = ".writing."

Json = dict[str, Any]


def canonical(value: Any) -> bytes:
    """JSON with one way to write everything: sorted, no spaces, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def digest(content: bytes) -> str:
    """sha256 in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


@dataclass(frozen=True)
class Task:
    """One piece of work: a stage with its settings, and the keys of what it reads."""

    stage: str
    version: int
    settings: Json
    inputs: Mapping[str, str] = field(default_factory=dict)  # name to key

    @cached_property
    def key(self) -> str:
        """What decides the result, as one hash."""
        return digest(canonical(self.to_json()))

    def to_json(self) -> Json:
        """What decides the result."""
        return {
            "stage": self.stage,
            "version": self.version,
            "settings": self.settings,
            "inputs": dict(self.inputs),
        }


@dataclass(frozen=True)
class Artifact:
    """What a task leaves: named files, and beside them what is not part of the result."""

    files: Mapping[str, bytes]
    aside: Json = field(default_factory=dict)
    key: str = ""  # once it is stored

    def json(self, name: str) -> Any:
        """A file as JSON."""
        return json.loads(self.files[name])

    def arrays(self, name: str) -> dict[str, Any]:
        """A file as arrays."""
        with np.load(io.BytesIO(self.files[name]), allow_pickle=False) as found:
            return dict(found)


def json_file(value: Any) -> bytes:
    """A file of canonical JSON."""
    return canonical(value) + b"\n"


def arrays_file(**arrays: Any) -> bytes:
    """A file of arrays: the same bytes for the same arrays."""
    buffer = io.BytesIO()
    plain: dict[str, Any] = {name: np.asarray(value) for name, value in arrays.items()}
    np.savez_compressed(buffer, **plain)
    return buffer.getvalue()


class Store:
    """The artifacts below one folder."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    def place(self, task: Task) -> Path:
        """Where its artifact lies, or would."""
        return self.folder / task.stage / task.key

    def has(self, task: Task) -> bool:
        """Whether it is done."""
        return (self.place(task) / MANIFEST).is_file()

    def read(self, task: Task) -> Artifact:
        """The artifact of a task that is done; a file that does not fit its hash is refused."""
        place = self.place(task)
        files = {}
        for name, wanted in self.hashes(task).items():
            files[name] = (place / name).read_bytes()
            if digest(files[name]) != wanted:
                expected = (
                    f"{wanted[:12]}... as in {MANIFEST}; remove {place} to have it made again"
                )
                raise FormatError.at(place / name, "sha256", expected, "other")
        return Artifact(files, self.aside(task), task.key)

    def hashes(self, task: Task) -> dict[str, str]:
        """The sha256 of every file of its result."""
        manifest = json.loads((self.place(task) / MANIFEST).read_bytes())
        return dict(manifest["files"])

    def aside(self, task: Task) -> Json:
        """What is not part of the result: seconds, the device."""
        return dict(json.loads((self.place(task) / ASIDE).read_bytes()))

    def write(self, task: Task, artifact: Artifact) -> None:
        """Keep an artifact, all of it or nothing; the first one of a task stays."""
        place = self.place(task)
        place.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=self.folder))
        try:
            manifest = {
                "task": task.to_json(),
                "files": {name: digest(content) for name, content in artifact.files.items()},
            }
            last = {ASIDE: json_file(artifact.aside), MANIFEST: json_file(manifest)}
            for name, content in {**artifact.files, **last}.items():
                (scratch / name).write_bytes(content)
            os.rename(scratch, place)
        except OSError:
            shutil.rmtree(scratch, ignore_errors=True)
            if not self.has(task):
                raise

    def clean(self) -> None:
        """Remove what an interrupted run left half-written."""
        for scratch in self.folder.glob(f"{UNFINISHED}*"):
            shutil.rmtree(scratch, ignore_errors=True)

    def tasks(self) -> Iterator[Task]:
        """Every task that is done."""
        for path in sorted(self.folder.glob(f"*/*/{MANIFEST}")):
            yield task_from_json(json.loads(path.read_bytes())["task"])


def task_from_json(found: Json) -> Task:
    """The inverse of `Task.to_json`."""
    return Task(found["stage"], found["version"], found["settings"], found["inputs"])
