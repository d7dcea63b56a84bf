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
from numpy.typing import NDArray

from cmpe.domain import Domain
from cmpe.errors import FormatError, InputError, ModelError
from cmpe.formats.evidence import parse_array
from cmpe.formats.tables.names import parse_domain
from cmpe.formats.text import (
    MOST_UNPACKED,
    atomic_writer,
    parse_object,
    read_bytes,
    stem_of,
    suffix_of,
    write_together,
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
LEARNED = tuple(_FIELDS)
_WHOLE = frozenset({"cardinalities", "contexts", "parents"})  # the others are floating-point
MOST_LEAVES = 1 << 14  # Contexts are compared pair by pair.
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # as NumPy writes; others unpack at once


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
    data = packed_arrays(_fields(network))
    digest = hashlib.sha256(data).hexdigest()
    text = json.dumps({**facts, "sha256": digest, **(report or {})}, indent=1)
    write_together([(arrays, data), (description, f"{text}\n".encode())])


def read_network(path: Path | str) -> Network:
    """Read MODEL.json with the MODEL.npz that it names, or MODEL.npz alone."""
    if suffix_of(path) == ARRAYS:
        return parse_network(path, load_arrays(path))
    facts = parse_object(path, read_bytes(path))
    name, version = facts.get("arrays"), facts.get("format_version")
    if version != FORMAT_VERSION:
        raise FormatError.at(path, "field 'format_version'", f"{FORMAT_VERSION}", repr(version))
    if not isinstance(name, str) or not name or Path(name).name != name:
        raise FormatError.at(path, "field 'arrays'", "a file name", repr(name)[:60])
    file = Path(path).with_name(name)
    data = read_bytes(file)
    if hashlib.sha256(data).hexdigest() != facts.get("sha256"):
        raise FormatError.at(file, "sha256", f"what {Path(path).name} says", "other")
    return parse_network(file, load_arrays(file, data))


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
    return save_arrays(path, _fields(network))


def _fields(network: Network) -> dict[str, NDArray[Any]]:
    kind = kind_of(network)
    sizes = np.array(network.cardinalities, dtype=np.int64)
    fields = {name: getattr(network, name) for name in _FIELDS[kind]}
    named = named_arrays(network.domain)
    return {"kind": np.array(kind), "cardinalities": sizes, **fields, **named}


def named_arrays(domain: Domain) -> dict[str, NDArray[Any]]:
    """The names of a domain as one array of text, where it has any."""
    text = json.dumps(domain.to_mapping())
    return {"variables": np.frombuffer(text.encode(), dtype=np.uint8)} if domain.names else {}


def names_in(
    path: Path | str, arrays: Mapping[str, NDArray[Any]], cardinalities: tuple[int, ...]
) -> Domain:
    """The domain that the arrays of a file describe."""
    if "variables" not in arrays:
        return Domain(cardinalities)
    text = np.asarray(arrays["variables"], dtype=np.uint8).tobytes()
    domain = parse_domain(path, parse_object(path, text))
    if domain.cardinalities != cardinalities:
        raise FormatError.at(path, "array 'variables'", "the cardinalities of the model", "others")
    return domain


def save_arrays(path: Path | str, arrays: Mapping[str, Any]) -> str:
    """Write a `.npz` file, all of it or nothing; its sha256."""
    data = packed_arrays(arrays)
    with atomic_writer(path) as stream:
        stream.write(data)
    return hashlib.sha256(data).hexdigest()


def packed_arrays(arrays: Mapping[str, Any]) -> bytes:
    """What a `.npz` file with these arrays holds."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def parse_network(path: Path | str, arrays: Mapping[str, NDArray[Any]]) -> Network:
    """The learned model that the arrays of a file describe."""
    kind = str(arrays.get("kind", "nothing"))
    if kind not in _FIELDS:
        raise FormatError.at(path, "array 'kind'", " or ".join(_FIELDS), repr(kind[:40]))
    missing = {"cardinalities", *_FIELDS[kind]} - set(arrays)
    if missing:
        raise FormatError.at(path, "arrays", ", ".join(_FIELDS[kind]), f"no {sorted(missing)[0]}")
    for name in ("cardinalities", *_FIELDS[kind]):
        _check_numbers(path, name, arrays[name])
    cards = tuple(arrays["cardinalities"].ravel().tolist())
    try:
        domain = names_in(path, arrays, cards)
        fields: Any = {name: arrays[name] for name in _FIELDS[kind]}
        return _CLASSES[kind](cards, names=domain.names, states=domain.states, **fields)
    except (ModelError, ValueError, TypeError, IndexError) as error:
        raise FormatError(f"{path}: {error}") from None


def _check_numbers(path: Path | str, name: str, array: NDArray[Any]) -> None:
    """Refuse numbers of another kind, before they are cast, and more leaves than are compared."""
    expected = "whole numbers within 32 bits" if name in _WHOLE else "floating-point numbers"
    is_right = array.dtype.kind in ("iu" if name in _WHOLE else "f")
    if is_right and name in _WHOLE and array.size:
        is_right = int(array.min()) >= -(2**31) and int(array.max()) < 2**31
    if not is_right:
        raise FormatError.at(path, f"array {name!r}", expected, f"dtype {array.dtype}")
    if name == "log_weights" and array.size > MOST_LEAVES:
        expected = f"at most {MOST_LEAVES} leaves"
        raise FormatError.at(path, f"array {name!r}", expected, str(array.size))


def load_arrays(
    path: Path | str, data: bytes | None = None, most: int = MOST_UNPACKED
) -> dict[str, NDArray[Any]]:
    """The arrays of a `.npz` file, or of its `data`; objects are never unpickled.

    An archive says how large its members are, and they are unpacked no further.
    """
    data = read_bytes(path) if data is None else data
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            items = archive.infolist()
            if sum(item.file_size for item in items) > most:
                raise FormatError(f"{path}: expected arrays of at most {most} bytes, found more")
            if any(item.compress_type not in _PACKINGS for item in items):
                raise FormatError(f"{path}: expected arrays as NumPy packs them, found others")
            return {
                item.filename.removesuffix(".npy"): parse_array(
                    f"{path}: {item.filename[:60]}", archive.read(item)
                )
                for item in items
            }
    except FormatError:
        raise
    except Exception as error:  # zipfile raises nearly anything for a hostile archive
        found = f"{type(error).__name__}: {error}"[:200]
        raise FormatError(f"{path}: expected the arrays of a .npz file, found {found}") from None


def _pair(path: Path | str) -> tuple[Path, Path]:
    """MODEL.json and MODEL.npz, from either (packed or not) or from MODEL."""
    file = Path(path)
    suffix = suffix_of(file)
    name = stem_of(file) if suffix in SUFFIXES else file.name
    if not name:
        raise InputError(f"{path}: expected the name of a model")
    description = file if suffix == DESCRIPTION else file.with_name(name + DESCRIPTION)
    return description, file if suffix == ARRAYS else file.with_name(name + ARRAYS)
