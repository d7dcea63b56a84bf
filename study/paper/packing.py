"""Tasks that train, taken to a machine with a GPU and back: zip files of artifacts.

A packed file holds the training tasks of one data set with all that they read. What gpu.py
leaves holds artifacts by task, and is taken into the store under the same keys.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from cmpe.errors import FormatError, InputError
from cmpe.formats.text import atomic_writer
from study.paper.plan import Plan
from study.paper.store import ASIDE, Artifact, Json, Store, Task, json_file, task_from_json

TRAINING = ("cross_validation", "train")
TASKS = "tasks.json"


def pack(
    plan: Plan,
    store: Store,
    to: Path,
    datasets: Sequence[str] | None = None,
    percentiles: Sequence[int] | None = None,
) -> Iterator[Path]:
    """One file per data set, with the training tasks that are not done."""
    to.mkdir(parents=True, exist_ok=True)
    for name, made in plan.generated.items():
        if datasets is not None and name not in datasets:
            continue
        tasks = [
            t
            for t in plan.tasks.values()
            if t.stage in TRAINING
            and t.inputs["problem"] == made.key
            and (percentiles is None or t.settings["q"] in percentiles)
            and not store.has(t)
        ]
        if tasks:
            path = to / f"{name}.zip"
            path.unlink(missing_ok=True)
            add_artifacts(path, _read_by(tasks, plan, store), tasks)
            yield path


def _read_by(tasks: Sequence[Task], plan: Plan, store: Store) -> dict[str, Artifact]:
    """What the tasks read, except what one of them makes."""
    made = {t.key for t in tasks}
    keys = dict.fromkeys(k for t in tasks for k in t.inputs.values() if k not in made)
    absent = sorted({plan.tasks[k].stage for k in keys if not store.has(plan.tasks[k])})
    if absent:
        stages = " ".join(absent)
        raise InputError(f"pack needs what training reads: first do `run --stages {stages}`")
    return {key: store.read(plan.tasks[key]) for key in keys}


def import_results(store: Store, path: Path) -> int:
    """Take what gpu.py left into the store; returns how many results are new."""
    tasks, artifacts = read_packed(path)
    new = 0
    for task in tasks:
        if task.key in artifacts and not store.has(task):
            store.write(task, artifacts[task.key])
            new += 1
    return new


def add_artifacts(path: Path, artifacts: Mapping[str, Artifact], tasks: Iterable[Task]) -> None:
    """Append artifacts by key, and their tasks, to a zip file, which is whole at any time."""
    known = [t.to_json() for t in tasks]
    buffer = io.BytesIO(path.read_bytes() if path.exists() else b"")
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_LZMA) as archive:
        for key, artifact in artifacts.items():
            for name, content in {**artifact.files, ASIDE: json_file(artifact.aside)}.items():
                archive.writestr(f"{key}/{name}", content)
        number = sum(n.endswith(TASKS) for n in archive.namelist())
        archive.writestr(f"{number}-{TASKS}", json.dumps(known))
    with atomic_writer(path) as stream:
        stream.write(buffer.getvalue())


def read_packed(path: Path) -> tuple[list[Task], dict[str, Artifact]]:
    """The tasks and the artifacts of a zip file."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            listed = [json.loads(archive.read(n)) for n in names if n.endswith(TASKS)]
            files: dict[str, dict[str, bytes]] = {}
            for name in names:
                key, _, file = name.partition("/")
                if file:
                    files.setdefault(key, {})[file] = archive.read(name)
    except (OSError, zipfile.BadZipFile, ValueError) as error:
        raise FormatError(f"{path}: {error}") from None
    tasks = {t.key: t for part in listed for t in map(task_from_json, part)}
    return list(tasks.values()), {key: _artifact(key, found) for key, found in files.items()}


def _artifact(key: str, found: dict[str, bytes]) -> Artifact:
    aside: Json = json.loads(found.pop(ASIDE))
    return Artifact(found, aside, key)
