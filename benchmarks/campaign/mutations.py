"""Files changed in ways that know their structure: words, JSON values, arrays, archives."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import re
import zipfile
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

Rng = np.random.Generator
WORDS = [
    b"-1", b"0", b"1", b"2", b"-0", b"1e400", b"-1e400", b"nan", b"inf", b"-inf", b"1_0", b"0x10",
    b"99999999999999999999", b"2147483648", b"4294967296", b"9223372036854775808", b"1e-400",
    b"1.5", b"+3", b"MARKOV", b"BAYES", b"MPE", b"", b"\x00", b"\xff\xfe", b"\xe2\x80\xa8", b"\r",
    b"1,2", b",,", b"{", b"]", b"null", b"true", b"9" * 5000, b"0" * 300, b"1" * 20,
]  # fmt: skip
VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, 10**400, 1e308, 0.5, -0.0, float("inf"),
    float("-inf"), float("nan"), "", "x", "\u2028", "../../etc/passwd", "a" * 3000, [], {}, [[]],
    [None], [0, 1], {"a": 1}, [1e400], "0", [[[[[[]]]]]], {"": {}},
]  # fmt: skip
KINDS = ["<i1", "<i4", "<i8", "<u8", "<f2", "<f4", "<f8", "<c16", "<U3", "S5", "?", ">f8", "<M8[s]"]
PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": lambda data: gzip.compress(data, 1),
    ".bz2": lambda data: bz2.compress(data, 1),
    ".xz": lambda data: lzma.compress(data, preset=0),
}


def mutated(rng: Rng, name: str, data: bytes) -> bytes:
    """A file called `name` with one to three changes."""
    for _ in range(int(rng.integers(1, 4))):
        try:
            data = _once(rng, name, data)
        except Exception:  # what is broken already cannot always be changed by its structure
            data = _bytes(rng, data)
    return data


def _once(rng: Rng, name: str, data: bytes) -> bytes:
    suffix = "." + name.rsplit(".", 1)[-1]
    if suffix in PACK and rng.random() < 0.6:
        try:
            inner = {".gz": gzip, ".bz2": bz2, ".xz": lzma}[suffix].decompress(data)
        except Exception:
            return _bytes(rng, data)
        return PACK[suffix](_once(rng, name.rsplit(".", 1)[0], inner))
    if suffix in (".json", ".jsonl") and rng.random() < 0.7:
        return _json(rng, data)
    if suffix == ".npz" and rng.random() < 0.7:
        return _archive(rng, data)
    if suffix == ".npy" and rng.random() < 0.6:
        return _array_file(rng, data)
    if suffix in (".npy", ".npz", ".parquet", ".safetensors", ".pt", ".gz", ".bz2", ".xz", ""):
        return _bytes(rng, data)
    return _text(rng, data) if rng.random() < 0.7 else _bytes(rng, data)


def _bytes(rng: Rng, data: bytes) -> bytes:
    if not data:
        return bytes(rng.integers(0, 256, 8, dtype=np.uint8))
    at, end = sorted(int(i) for i in rng.integers(0, len(data) + 1, 2))
    choice = int(rng.integers(7))
    if choice == 0:
        return data[:at]
    if choice == 1:
        return data[:at] + data[end:]
    if choice == 2:
        return data[:end] + data[at:]
    if choice == 3:
        return data[:at] + WORDS[int(rng.integers(len(WORDS)))] + data[at:]
    changed = bytearray(data)
    for place in rng.integers(0, len(data), 1 if choice == 4 else 4):
        byte = int(rng.choice([0, 1, 0x7F, 0x80, 0xFF])) if choice == 5 else int(rng.integers(256))
        changed[int(place)] = byte
    return bytes(changed)


def _text(rng: Rng, data: bytes) -> bytes:
    words = list(re.finditer(rb"[^\s,]+", data[:1_000_000]))
    if not words:
        return _bytes(rng, data)
    chosen = words[int(rng.integers(len(words)))]
    choice = int(rng.integers(5))
    if choice == 0:  # another word of the same file
        new = words[int(rng.integers(len(words)))].group()
    elif choice == 1 and chosen.group().isdigit() and len(chosen.group()) < 18:
        new = str(int(chosen.group()) + int(rng.choice([-1, 1, 1000, 10**9]))).encode()
    elif choice == 2:
        new = b""
    else:
        new = WORDS[int(rng.integers(len(WORDS)))]
    return data[: chosen.start()] + new + data[chosen.end() :]


def _json(rng: Rng, data: bytes) -> bytes:
    lines = data.split(b"\n") if data.count(b"\n{") else [data]
    at = int(rng.integers(len(lines)))
    try:
        value = json.loads(lines[at])
    except (ValueError, RecursionError):
        return _text(rng, data)
    lines[at] = json.dumps(_value(rng, value)).encode()
    return b"\n".join(lines)


def _value(rng: Rng, value: Any) -> Any:
    """One place inside a JSON value changed."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = list(value)[int(rng.integers(len(value)))]
        choice = rng.random()
        if choice < 0.1:
            return {k: v for k, v in value.items() if k != key}
        if choice < 0.15:
            return {**value, key + "x": value[key]}
        return {**value, key: _value(rng, value[key])}
    if isinstance(value, list) and value and rng.random() < 0.6:
        at = int(rng.integers(len(value)))
        if rng.random() < 0.2:
            return value[:at] + value[at + 1 :]
        return [*value[:at], _value(rng, value[at]), *value[at + 1 :]]
    return VALUES[int(rng.integers(len(VALUES)))]


def _array_file(rng: Rng, data: bytes) -> bytes:
    try:
        array = np.load(io.BytesIO(data), allow_pickle=False)
    except Exception:
        return _bytes(rng, data)
    buffer = io.BytesIO()
    np.save(buffer, _array(rng, array), allow_pickle=True)
    whole = buffer.getvalue()
    if rng.random() < 0.3:  # the header says something else
        header = whole[10:128]
        return whole[:10] + _text(rng, header) + whole[128:]
    return whole


def _array(rng: Rng, array: Any) -> Any:
    choice = int(rng.integers(6))
    with np.errstate(all="ignore"):
        if choice == 0:
            try:
                return array.astype(KINDS[int(rng.integers(len(KINDS)))])
            except (TypeError, ValueError):
                return array.astype(object)
        if choice == 1:
            return array[..., np.newaxis]
        if choice == 2:
            return array.ravel()[: int(rng.integers(array.size + 1))]
        if choice == 3:
            return np.asfortranarray(array.T)
        if array.size and array.dtype.kind in "iuf":
            wild = [0, 1, 2, 127] if array.dtype.kind in "iu" else [np.nan, np.inf, -np.inf, 9e9]
            if array.dtype.kind == "i":
                wild.append(-1)
            changed = array.copy()
            changed.ravel()[int(rng.integers(array.size))] = wild[int(rng.integers(len(wild)))]
            return changed
        return np.zeros(tuple(int(k) for k in rng.integers(0, 4, int(rng.integers(0, 4)))))


def _archive(rng: Rng, data: bytes) -> bytes:
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as kept:
            arrays = dict(kept)
    except Exception:
        return _bytes(rng, data)
    name = list(arrays)[int(rng.integers(len(arrays)))] if arrays else "x"
    choice = rng.random()
    if choice < 0.1:
        arrays.pop(name, None)
    elif choice < 0.15:
        arrays[name + "x"] = np.zeros(3)
    elif arrays:
        arrays[name] = _array(rng, arrays[name])
    buffer = io.BytesIO()
    if rng.random() < 0.2:
        packing = int(rng.choice([zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, zipfile.ZIP_STORED]))
        with zipfile.ZipFile(buffer, "w", packing) as archive:
            for key, array in arrays.items():
                member = io.BytesIO()
                np.save(member, array, allow_pickle=True)
                archive.writestr(key + ".npy", member.getvalue())
        return buffer.getvalue()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue() if rng.random() < 0.8 else _flags(rng, buffer.getvalue())


def _flags(rng: Rng, data: bytes) -> bytes:
    """A field of a directory entry, such as its flags or its size, changed."""
    entries = [m.start() for m in re.finditer(rb"PK\x01\x02|PK\x03\x04", data)]
    if not entries:
        return data
    changed = bytearray(data)
    at = entries[int(rng.integers(len(entries)))] + int(rng.integers(4, 30))
    if at < len(changed):
        changed[at] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def bomb(rng: Rng, suffix: str) -> bytes:
    """A packed file of at most a megabyte or so that unpacks to hundreds."""
    piece = REPEATED[int(rng.integers(len(REPEATED)))]
    head = WORDS[int(rng.integers(len(WORDS)))] + b"\n" if rng.random() < 0.5 else b"MARKOV\n1\n2\n"
    return PACK[suffix](head) + _packed(suffix, piece) * int(rng.integers(1, 20))


@cache
def _packed(suffix: str, piece: bytes) -> bytes:
    """16 MiB of one piece; members of packed files can follow each other."""
    return PACK[suffix](piece * ((1 << 24) // len(piece)))


REPEATED = (b"11 ", b"0\n", b"1,1\n", b"[", b'{"a":', b"\x00", b"1 1 1 1 0 1\n", b"MPE 1\n", b"9")
