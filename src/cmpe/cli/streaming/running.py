"""How a command becomes a stream: when its output is a folder, and who it is asked of."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from cmpe.cli.options import Format, need_writer, progress_bar
from cmpe.errors import InputError

if TYPE_CHECKING:
    from cmpe.formats.directory import ProblemDirectory
    from cmpe.problem import Problem
    from cmpe.solvers.base import Running
    from cmpe.streams.folder import AnswerFolder
    from cmpe.streams.pieces import Source
    from cmpe.streams.stream import Job

NARROW_ROWS = 8192  # rows of a part where a row takes microseconds,
WIDE_ROWS = 16  # where it takes seconds,
PART_SECONDS = 60.0  # and where it has a time limit: about so long for all of them.
QUICK = "a network's pass"
SUFFIXES = {Format.json: "jsonl", Format.parquet: "parquet"}


@dataclass(frozen=True)
class StreamAsked:
    """A command whose answers go to a folder."""

    output: Path
    evidence: Path | None
    suffix: str
    resume: bool
    block: int | None
    running: Running


def stream_asked(
    arguments: Sequence[str],
    files: tuple[Path | None, Path | None, Format | None],
    running: Running,
    *,
    resume: bool,
    block: int | None,
) -> StreamAsked | None:
    """What is asked for where OUTPUT is a folder; None where it is not.

    `files` are output, evidence and format. A folder ends in a slash, is there already, or was
    begun before (--resume).
    """
    output, evidence, asked = files
    if output is None or not (resume or output.is_dir() or _has_slash(output, arguments)):
        if resume or block is not None:
            raise InputError("--resume and --block go with a folder: --output FOLDER/")
        return None
    if asked is not None and asked not in SUFFIXES:
        raise InputError(f"parts are json or parquet, found --format {asked.value}")
    suffix = SUFFIXES[asked or Format.json]
    need_writer(f".{suffix}")
    return StreamAsked(output, evidence, suffix, resume, block, running)


def need_folder(output: Path | None, running: Running) -> None:
    """Refuse a file, and processes without a folder, where a command writes a folder or stdout."""
    if output is not None:
        raise InputError(f"{output}: expected a folder for parts, ending in a slash")
    if running.workers > 1 and not running.is_spread:
        raise InputError("--workers goes with a folder: --output FOLDER/")


def _has_slash(output: Path, arguments: Sequence[str]) -> bool:
    """Whether the command line has a slash at the end: paths do not keep it."""
    words = (word.removeprefix("--output=") for word in arguments)
    return any(word.endswith((os.sep, "/")) and Path(word) == output for word in words)


def refuse_beside_parts(**given: Any) -> None:
    """Refuse options that need all rows at once."""
    odd = [name for name, value in given.items() if value is not None]
    if odd:
        raise InputError(f"--{odd[0]} goes with a file or stdout, not with a folder of parts")


def rows_of_a_part(asked: StreamAsked, *, narrow: bool, seconds: float | None) -> int:
    """What was asked for, or what the folder was begun with, or what suits the method."""
    from cmpe.streams.folder import read_manifest

    if asked.block is not None:
        return asked.block
    found = read_manifest(asked.output) if asked.resume else None
    if found is not None and isinstance(found.get("block"), int):
        return int(found["block"])
    if seconds is not None:
        return max(1, min(NARROW_ROWS, int(PART_SECONDS / max(seconds, 1e-3))))
    return NARROW_ROWS if narrow else WIDE_ROWS


def source_for(asked: StreamAsked, problem: Problem, directory: ProblemDirectory | None) -> Source:
    """The rows of the evidence file or folder, else the directory's test rows, else one."""
    import numpy as np

    from cmpe.formats.labels import rows_digest
    from cmpe.streams.pieces import MemorySource, source_of

    if asked.evidence is not None:
        return source_of(asked.evidence, problem)
    rows = np.zeros((1, 0), dtype=np.int64) if directory is None else directory.test
    return MemorySource(rows, [["test rows", len(rows), rows_digest(rows)[:16]]])


def is_narrow(problem: Problem, source: Source, method: str) -> bool:
    """Whether a row takes microseconds; the plan for the first row is kept for all like it."""
    from cmpe.problem import Form
    from cmpe.problem.groups import by_observed
    from cmpe.solvers import METHODS
    from cmpe.solvers.base import Limits
    from cmpe.solvers.exact import too_wide

    if method == QUICK:
        return True
    if not (method in METHODS and METHODS[method].eliminates and problem.has_tables):
        return False
    first = next(iter(source.blocks(1, lambda number: number == 0)), None)
    if first is None or problem.form is Form.LEAVES:
        return True
    part = by_observed(problem, first.piece.read(problem))[0][0]
    return not too_wide(part.problem, Limits())


def question_of(problem: Problem, source: Source, options: Mapping[str, Any]) -> dict[str, Any]:
    """What the manifest says was asked."""
    from cmpe.formats.labels import problem_digest

    names = repr((problem.domain.names, problem.domain.states)).encode()
    return {
        "cmpe": version("cmpe"),
        "models": problem_digest(problem)[:16],
        "names": hashlib.sha256(names).hexdigest()[:16],
        "evidence": source.identity(),
        "rows": source.rows,
        **options,
    }


def digest_of_run(folder: Path) -> str:
    """A hash of the files of a trained run."""
    digest = hashlib.sha256()
    for file in sorted(p for p in folder.iterdir() if p.suffix in (".json", ".safetensors")):
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def answer_parts(
    asked: StreamAsked,
    directory: ProblemDirectory | None,
    job: Job,
    options: Mapping[str, Any],
    method: str = "exact",
) -> int:
    """Answer what is missing, with progress; say what is there. `method` is how dear a row is."""
    from cmpe.streams.folder import StreamQuestion
    from cmpe.streams.stream import answer_stream

    problem = job.problem
    source = source_for(asked, problem, directory)
    narrow = is_narrow(problem, source, method)
    block = rows_of_a_part(asked, narrow=narrow, seconds=options["time_limit"])
    question = question_of(problem, source, options)
    with progress_bar("answering") as report:
        out = answer_stream(
            source,
            job,
            (asked.output, StreamQuestion(question, block, asked.suffix)),
            asked.running.place.executor,
            resume=asked.resume,
            report=report,
        )
    typer.echo(summary(out))
    return int(0 < out.rows == out.tally["infeasible"])


def summary(out: AnswerFolder) -> str:
    """One line of what the folder holds."""
    counts = ", ".join(f"{count} {name}" for name, count in out.tally.most_common())
    return f"{out.path}: {out.rows} rows in {len(out.done)} parts: {counts or 'none'}"
