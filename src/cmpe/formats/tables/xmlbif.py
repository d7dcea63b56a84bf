"""XMLBIF 0.3: the Bayesian interchange format in XML.

A TABLE lists the states of FOR fastest and those of the first GIVEN slowest. Entities are not
expanded: a file that declares any is refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat
from xml.sax.saxutils import escape

from cmpe.errors import FormatError
from cmpe.formats.tables.bayes import BayesBuilder, conditionals, numbers_in
from cmpe.formats.text import read_bytes, write_text
from cmpe.models.loglinear import LogLinearModel

_KEPT = frozenset({"NAME", "OUTCOME", "VALUE", "FOR", "GIVEN", "TABLE"})


@dataclass
class _Block:
    """A VARIABLE or a DEFINITION: the texts of its elements."""

    kind: str
    place: str
    texts: dict[str, list[str]] = field(default_factory=dict)


class _XmlReader:
    def __init__(self, path: Path | str) -> None:
        self._path = path
        self.blocks: list[_Block] = []
        self._open: list[str] = []
        self._text: list[str] = []
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text.append
        self._parser.EntityDeclHandler = self._entity

    def read(self) -> list[_Block]:
        try:
            self._parser.Parse(read_bytes(self._path), True)
        except expat.ExpatError as error:
            reason = expat.ErrorString(error.code)
            raise FormatError.at(self._path, f"line {error.lineno}", "XML", reason) from None
        except (LookupError, ValueError) as error:  # an encoding that Python does not have
            raise FormatError.at(self._path, "line 1", "XML", str(error)[:100]) from None
        return self.blocks

    @property
    def _place(self) -> str:
        return f"line {self._parser.CurrentLineNumber}"

    def _entity(self, *_: object) -> None:
        raise FormatError.at(self._path, self._place, "no entities", "a declaration of one")

    def _start(self, name: str, _attributes: object) -> None:
        tag = name.upper()
        self._open.append(tag)
        self._text.clear()
        if tag in ("VARIABLE", "DEFINITION", "PROBABILITY"):
            self.blocks.append(_Block(tag, self._place))

    def _end(self, name: str) -> None:
        tag = self._open.pop()
        if self.blocks and tag in _KEPT and len(self._open) and self._open[-1] != "NETWORK":
            self.blocks[-1].texts.setdefault(tag, []).append("".join(self._text).strip())
        self._text.clear()


def read_xmlbif(path: Path | str) -> LogLinearModel:
    """Read a network."""
    blocks = _XmlReader(path).read()
    network = BayesBuilder(path)
    for block in blocks:
        if block.kind == "VARIABLE":
            names = block.texts.get("NAME", [])
            if len(names) != 1:
                raise network.error(block.place, "one NAME of a VARIABLE", str(len(names)))
            states = block.texts.get("OUTCOME", []) + block.texts.get("VALUE", [])
            network.add_variable(names[0], states, block.place)
    for block in blocks:
        if block.kind != "VARIABLE":
            _define(network, block)
    return network.model()


def _define(network: BayesBuilder, block: _Block) -> None:
    children, tables = block.texts.get("FOR", []), block.texts.get("TABLE", [])
    if len(children) != 1 or len(tables) != 1:
        found = f"{len(children)} and {len(tables)}"
        raise network.error(block.place, "one FOR and one TABLE", found)
    child = network.number(children[0], block.place)
    parents = [network.number(name, block.place) for name in block.texts.get("GIVEN", [])]
    shape = network.shape(child, parents, block.place)
    try:
        values = numbers_in(tables[0])
    except ValueError:
        raise network.error(block.place, "numbers in a TABLE", repr(tables[0][:40])) from None
    size = math.prod(shape)
    if len(values) != size:
        raise network.error(block.place, f"a TABLE of {size} numbers", str(len(values)))
    network.add_table(child, parents, values, block.place)


def write_xmlbif(model: LogLinearModel, path: Path | str) -> None:
    """Write a Bayesian network; other models are refused."""
    domain = model.domain
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', '<BIF VERSION="0.3">', "<NETWORK>"]
    lines.append("<NAME>unknown</NAME>")
    for v in range(model.variables):
        states = "".join(f"<OUTCOME>{escape(s)}</OUTCOME>" for s in domain.states_of(v))
        lines.append(
            f'<VARIABLE TYPE="nature"><NAME>{escape(domain.name(v))}</NAME>{states}</VARIABLE>'
        )
    for part in conditionals(model, path):
        given = "".join(f"<GIVEN>{escape(domain.name(v))}</GIVEN>" for v in part.parents)
        table = " ".join(map(repr, part.table.ravel().tolist()))
        name = escape(domain.name(part.child))
        lines.append(f"<DEFINITION><FOR>{name}</FOR>{given}<TABLE>{table}</TABLE></DEFINITION>")
    write_text(path, "\n".join([*lines, "</NETWORK>", "</BIF>"]) + "\n")
