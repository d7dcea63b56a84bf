"""Names beside a file that cannot hold them, as JSON: {"Rain": ["no", "yes"], "Level": 4}."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cmpe.domain import Domain
from cmpe.errors import FormatError, ModelError
from cmpe.formats.text import (
    is_device,
    parse_object,
    read_bytes,
    stem_of,
    suffix_of,
    write_text,
    writing,
)

SUFFIX = ".names"


def names_file(path: Path | str) -> Path:
    """Where the names of a model file are: MODEL.uai.names, also for a packed model."""
    return Path(path).with_name(stem_of(path) + suffix_of(path) + SUFFIX)


def read_names(path: Path | str) -> Domain:
    """The domain that a file of names describes."""
    return parse_domain(path, parse_object(path, read_bytes(path)))


def parse_domain(path: Path | str, variables: Any) -> Domain:
    """The domain in a JSON object that maps names to states, or to how many there are."""
    if not isinstance(variables, dict):
        found = type(variables).__name__
        raise FormatError.at(path, "the variables", "an object of names and states", found)
    for name, states in variables.items():
        is_list = isinstance(states, list) and all(isinstance(s, str) for s in states)
        if not (is_list or (type(states) is int and 0 < states <= 1 << 20)):
            expected = "a list of states, or their number"
            raise FormatError.at(path, f"variable {name!r}", expected, repr(states)[:60])
    try:
        return Domain.of(variables)
    except ModelError as error:
        raise FormatError(f"{path}: {error}") from None


def write_names(domain: Domain, path: Path | str) -> None:
    """Write the names of the model in file `path`, or remove another's where there are none."""
    side = names_file(path)
    if is_device(Path(path)):
        return
    if domain.names:
        write_text(side, json.dumps(domain.to_mapping(), indent=1) + "\n")
    else:
        with writing(side):
            side.unlink(missing_ok=True)
