"""Learned networks: MODEL.npz holds the arrays, MODEL.json describes them and says how they did.

The arrays are complete by themselves (`kind`, `cardinalities`, and those of the class) and come
back bit for bit; the description names their file and its sha256.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cmpe.errors import FormatError, InputError, ModelError
from cmpe.formats.text import (
    MOST_BYTES,
    atomic_writer,
    parse_object,
    read_bytes,
    stem_of,
    suffix_of,
    write_text,
    writing,
)
from cmpe.models.tractable.chow_liu import ChowLiuTree
from cmpe.models.tractable.cutset import CutsetNetwork

FORMAT_VERSION = 1
DESCRIPTION, ARRAYS = ".json", ".npz"
SUFFIXES = (DESCRIPTION, ARRAYS)
Network = ChowLiuTree | CutsetNetwork

# The word for each class in files and on the command line, and the arrays that it is made of.
_WORDS: dict[type[Network], str] = {ChowLiuTree: "chow-liu", CutsetNetwork: "cutset"}
_CLASSES: dict[str, type[Network]] = {word: kind for kind, word in _WORDS.items()}
_FIELDS: dict[str, tuple[str, ...]] = {
    "chow-liu": ("parents", "log_tables"),
    "cutset": ("contexts", "log_weights", "parents", "log_tables"),
}


def write_network(
    network: Network, path: Path | str, report: Mapping[str, Any] | None = None
) -> None:
    """Write MODEL.json and MODEL.npz; `path` is either, `report` is added to the description."""
    description, arrays = _pair(path)
    facts = {
        "format_version": FORMAT_VERSION,
        "kind": kind_of(network),
        "variables": network.variables,
        "leaves": network.leaves,
        "depth": network.depth,
        "arrays": arrays.name,
    }
    with writing(description):
        description.unlink(missing_ok=True)  # without it, arrays alone are no answer of `learn`
    digest = write_arrays(network, arrays)
    text = json.dumps({**facts, "sha256": digest, **(report or {})}, indent=1)
    write_text(description, text + "\n")


def read_network(path: Path | str) -> Network:
    """Read MODEL.json with the MODEL.npz that it names, or MODEL.npz alone."""
    if suffix_of(path) == ARRAYS:
        return _parsed(path, read_bytes(path))
    facts = parse_object(path, read_bytes(path))
    name, version = facts.get("arrays"), facts.get("format_version")
    if version != FORMAT_VERSION:
        raise FormatError.at(path, "field 'format_version'", f"{FORMAT_VERSION}", repr(version))
    if not isinstance(name, str) or Path(name).name != name:
        raise FormatError.at(path, "field 'arrays'", "a file name", repr(name)[:60])
    file = Path(path).with_name(name)
    data = read_bytes(file)
    if hashlib.sha256(data).hexdigest() != facts.get("sha256"):
        raise FormatError.at(file, "sha256", f"what {Path(path).name} says", "other")
    return _parsed(file, data)


def kind_of(network: Network) -> str:
    """The word for it in files and on the command line."""
    for kind in type(network).__mro__:
        if kind in _WORDS:
            return _WORDS[kind]
    raise ModelError(
        "a learned model is a Chow-Liu tree or a cutset network; "
        f"found a function of kind {type(network).__name__}"
    )


def write_arrays(network: Network, path: Path | str) -> str:
    """Write the arrays alone, all of them or nothing; their sha256."""
    kind = kind_of(network)
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        kind=np.array(kind),
        cardinalities=np.array(network.cardinalities, dtype=np.int64),
        **{name: getattr(network, name) for name in _FIELDS[kind]},
    )
    with atomic_writer(path) as stream:
        stream.write(buffer.getvalue())
    return hashlib.sha256(buffer.getvalue()).hexdigest()


def _parsed(path: Path | str, data: bytes) -> Network:
    arrays = _load(path, data)
    kind = str(arrays.get("kind", "nothing"))
    if kind not in _FIELDS:
        raise FormatError.at(path, "array 'kind'", " or ".join(_FIELDS), repr(kind[:40]))
    missing = {"cardinalities", *_FIELDS[kind]} - set(arrays)
    if missing:
        raise FormatError.at(path, "arrays", ", ".join(_FIELDS[kind]), f"no {sorted(missing)[0]}")
    cards = tuple(arrays["cardinalities"].ravel().tolist())
    try:
        return _CLASSES[kind](cards, *(arrays[name] for name in _FIELDS[kind]))
    except (ModelError, ValueError, TypeError) as error:
        raise FormatError(f"{path}: {error}") from None


def _load(path: Path | str, data: bytes) -> dict[str, Any]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(item.file_size for item in archive.infolist()) > MOST_BYTES:
                raise FormatError(f"{path}: expected at most {MOST_BYTES} bytes, found more")
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (ValueError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise FormatError(f"{path}: expected the arrays of a network, found: {error}") from None


def _pair(path: Path | str) -> tuple[Path, Path]:
    """MODEL.json and MODEL.npz, from either (packed or not) or from MODEL."""
    file = Path(path)
    suffix = suffix_of(file)
    name = stem_of(file) if suffix in SUFFIXES else file.name
    if not name:
        raise InputError(f"{path}: expected the name of a model")
    description = file if suffix == DESCRIPTION else file.with_name(name + DESCRIPTION)
    return description, file if suffix == ARRAYS else file.with_name(name + ARRAYS)
