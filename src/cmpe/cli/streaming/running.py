"""Streams of commands whose output is a folder or whose executor is a cluster."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from cmpe.cli.options import (
    Format,
    PartOptions,
    RowOptions,
    need_writer,
    progress_bar,
    words_of,
)
from cmpe.errors import InputError

if TYPE_CHECKING:
    from cmpe.formats.directory import ProblemDirectory
    from cmpe.formats.numbers import OwnNumbers
    from cmpe.problem import Problem
    from cmpe.solvers.base import Running
    from cmpe.streams.folder import AnswerFolder
    from cmpe.streams.pieces import MemorySource, Source
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
    files: RowOptions
    suffix: str
    parts: PartOptions
    running: Running


def stream_asked(
    context: typer.Context,
    where: tuple[Path | None, RowOptions, Format | None],
    running: Running,
    parts: PartOptions,
) -> StreamAsked | None:
    """What is asked for where OUTPUT is a folder; None where it is not.

    `where` is output, rows and format. A folder ends in a slash, is there already, or was begun
    before (--resume).
    """
    output, files, asked = where
    is_folder = output is not None and (
        parts.resume or output.is_dir() or _has_slash(output, words_of(context))
    )
    if output is None or not is_folder:
        if parts.resume or parts.block is not None:
            raise InputError("--resume and --block go with a folder: --output FOLDER/")
        return None
    if asked is not None and asked not in SUFFIXES:
        raise InputError(f"parts are json or parquet, found --format {asked.value}")
    suffix = SUFFIXES[asked or Format.json]
    need_writer(f".{suffix}")
    return StreamAsked(output, files, suffix, parts, running)


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

    if asked.parts.block is not None:
        return asked.parts.block
    found = read_manifest(asked.output) if asked.parts.resume else None
    if found is not None and isinstance(found.get("block"), int):
        return int(found["block"])
    if seconds is not None:
        return max(1, min(NARROW_ROWS, int(PART_SECONDS / max(seconds, 1e-3))))
    return NARROW_ROWS if narrow else WIDE_ROWS


def source_for(
    files: RowOptions,
    problem: Problem,
    directory: ProblemDirectory | None,
    numbers: OwnNumbers,
) -> Source:
    """The rows of the evidence file or folder, else the directory's test rows, else one."""
    import numpy as np

    from cmpe.streams.pieces import MemorySource, NumberedSource, source_of

    if files.evidence is not None:
        source = source_of(files.evidence, problem, files.extra)
    else:
        source = _source_in_memory(files, problem, directory)
    if isinstance(source, MemorySource) and source.rows == 1:  # serves all rows of numbers
        shape = (numbers.rows or 1, source.values.shape[1])
        source = replace(source, values=np.broadcast_to(source.values, shape))
    return NumberedSource(source, numbers) if numbers.files else source


def _source_in_memory(
    files: RowOptions, problem: Problem, directory: ProblemDirectory | None
) -> MemorySource:
    """The test rows, or one row."""
    import numpy as np

    from cmpe.formats.evidence import plain_rows
    from cmpe.formats.labels import rows_digest
    from cmpe.streams.pieces import MemorySource

    given = files.given(problem)
    if given is None and directory is not None:
        rows = directory.test
    else:
        rows = np.zeros((1, 0), dtype=np.int64) if given is None else given
    plain_rows("the evidence", problem, rows, files.extra)
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
    rows = first.piece.read(problem).rows
    return not too_wide(by_observed(*rows.asked)[0][0].problem, Limits())


def question_of(
    problem: Problem, source: Source, files: RowOptions, options: Mapping[str, Any]
) -> dict[str, Any]:
    """What the manifest says was asked."""
    from cmpe.formats.labels import problem_digest
    from cmpe.streams.pieces import NumberedSource

    names = repr((problem.domain.names, problem.domain.states)).encode()
    return {
        "cmpe": version("cmpe"),
        "models": problem_digest(problem)[:16],
        "names": hashlib.sha256(names).hexdigest()[:16],
        "evidence": source.identity(),
        "numbers": source.numbers.identity() if isinstance(source, NumberedSource) else None,
        "rows": source.rows,
        "keep": files.keep or None,
        "ignore_extra": files.ignore_extra or None,
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
    source = source_for(asked.files, problem, directory, asked.files.own(problem))
    narrow = is_narrow(problem, source, method)
    block = rows_of_a_part(asked, narrow=narrow, seconds=options["time_limit"])
    question = question_of(problem, source, asked.files, options)
    with progress_bar("answering") as report:
        out = answer_stream(
            source,
            job,
            (asked.output, StreamQuestion(question, block, asked.suffix)),
            asked.running.place.executor,
            resume=asked.parts.resume,
            report=report,
        )
    typer.echo(summary(out))
    return int(0 < out.rows == out.tally["infeasible"])


def summary(out: AnswerFolder) -> str:
    """One line of what the folder holds."""
    counts = ", ".join(f"{count} {name}" for name, count in out.tally.most_common())
    return f"{out.path}: {out.rows} rows in {len(out.done)} parts: {counts or 'none'}"
