"""BIF, the Bayesian interchange format, as bnlearn, pgmpy, pyAgrum, SMILE and JavaBayes write it.

    network NAME { property ...; }
    variable NAME { type discrete [ 2 ] { yes, no }; property ...; }
    probability ( CHILD | PARENT, ... ) { (state, ...) 0.1, 0.9; ...  default 0.5, 0.5; }
    probability ( CHILD ) { table 0.1, 0.9; }

Names and states may be quoted. Commas may be left out between quoted states, numbers and parents,
and so may the bar of `(CHILD | PARENTS)`. A `table` with parents lists the child's first state for
every combination of parents, then its second state, and so on, as BIF 0.15 has it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np

from cmpe.arrays import Floats
from cmpe.errors import FormatError
from cmpe.formats.tables.bayes import BayesBuilder, conditionals, numbers_in
from cmpe.formats.text import check_marked, read_text, write_text
from cmpe.models.loglinear import LogLinearModel

_QUOTED_OR_COMMENT = re.compile(r'"([^"]*)"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_BLOCK = re.compile(r"\s*(network|variable|probability)\b([^{}]*)\{((?:[^{}]++|\{[^{}]*\})*+)\}")
_TYPE = re.compile(r"\btype\s+discrete\s*\[\s*(\d{1,7})\s*\]\s*\{([^{}]*)\}")
_WORD = re.compile(r"\x00\d+\x00|[^\s,;|(){}\[\]\x00]+")  # a quoted one ends with its quote
_MARK = "\x00"
_MARKED = re.compile(r"\x00(\d+)\x00")
_RUN_ON = re.compile(r"[^\s,\x00]\s+[^\s,\x00]")  # words that nothing separates: one state or two?


def read_bif(path: Path | str) -> LogLinearModel:
    """Read a network."""
    reader = _BifReader(path, read_text(path, encoding="utf-8"))
    return reader.read()


class _BifReader:
    """One file: its text without comments, quoted words replaced by marks."""

    def __init__(self, path: Path | str, text: str) -> None:
        self.network = BayesBuilder(path)
        self._quoted: list[str] = []
        check_marked(path, text, ('"', "//", "/*"))
        text = text.replace(_MARK, " ")
        if '"' in text or "//" in text or "/*" in text:
            text = _QUOTED_OR_COMMENT.sub(self._mark, text)
        self._text = text

    def _mark(self, found: re.Match[str]) -> str:
        if found.group(1) is None:  # a comment: only its line ends stay
            return "\n" * found.group().count("\n") or " "
        self._quoted.append(found.group(1))
        return f"{_MARK}{len(self._quoted) - 1}{_MARK}"

    def _words(self, text: str) -> list[str]:
        words = _WORD.findall(text)
        if self._quoted and _MARK in text:
            return [self._quoted[int(w[1:-1])] if w[0] == _MARK else w for w in words]
        return words

    def _shown(self, text: str) -> str:
        """The beginning of a text for an error, its quotes as the file has them."""
        begin = text.strip()[:400]
        return repr(_MARKED.sub(lambda m: f'"{self._quoted[int(m.group(1))]}"', begin)[:40])

    def read(self) -> LogLinearModel:
        """All blocks, variables before tables."""
        blocks, at, line, seen = [], 0, 1, 0
        while found := _BLOCK.match(self._text, at):
            line, seen = line + self._text.count("\n", seen, found.start(1)), found.start(1)
            blocks.append((found, f"line {line}"))
            at = found.end()
        rest = self._text[at:].strip()
        if rest or not blocks:
            expected = "a block: network, variable or probability"
            line += self._text.count("\n", seen, self._text.find(rest[:1], at))
            raise self.network.error(f"line {line}", expected, self._shown(rest))
        for found, place in blocks:
            if found.group(1) == "variable":
                self._variable(found.group(2), found.group(3), place)
        for found, place in blocks:
            if found.group(1) == "probability":
                self._probability(found.group(2), found.group(3), place)
        return self.network.model()

    def _variable(self, head: str, body: str, place: str) -> None:
        names, kind = self._words(head), _TYPE.search(body)
        if len(names) != 1:
            raise self.network.error(place, "one name of a variable", self._shown(head))
        if kind is None:
            expected = f"type discrete [ N ] {{ states }} of {names[0][:40]!r}"
            raise self.network.error(place, expected, self._shown(body))
        states = self._words(kind.group(2))
        if _RUN_ON.search(kind.group(2)):
            expected = f"commas between the states of {names[0][:40]!r}, or quotes around each"
            raise self.network.error(place, expected, self._shown(kind.group(2)))
        if len(states) != int(kind.group(1)):
            expected = f"{kind.group(1)} states of {names[0][:40]!r}"
            raise self.network.error(place, expected, str(len(states)))
        self.network.add_variable(names[0], states, place)

    def _probability(self, head: str, body: str, place: str) -> None:
        network = self.network
        words = self._words(head.strip().removeprefix("(").removesuffix(")"))
        if not words:
            raise network.error(place, "( CHILD | PARENTS )", self._shown(head))
        child, *parents = (network.number(word, place) for word in words)
        shape = network.shape(child, parents, place)
        values = self._values(body, parents, shape, place)
        network.add_table(child, parents, values, place)

    def _values(
        self, body: str, parents: Sequence[int], shape: tuple[int, ...], place: str
    ) -> Floats:
        """The entries of one table, the child's states fastest."""
        size, count = shape[-1], int(np.prod(shape[:-1], dtype=np.int64))
        rows: list[int] = []
        words: list[str] = []
        rest: dict[str, Floats] = {}
        strides = [int(np.prod(shape[k + 1 : -1], dtype=np.int64)) for k in range(len(parents))]
        numbers = [self._steps(v, stride) for v, stride in zip(parents, strides, strict=True)]
        for statement in body.split(";"):
            part = statement.strip()
            if part.startswith("("):
                labels, _, entries = part[1:].partition(")")
                rows.append(self._row(labels, numbers, place))
                words += self._entries(entries, size, place)
            elif part:
                self._other(part, rest, place)
        if "table" in rest and not rows:
            return self._from_table(rest["table"], size, count, place)
        if len(rows) < count and "default" not in rest:
            expected = f"{count} rows of probabilities, or a default"
            raise self.network.error(place, expected, str(len(rows)))
        return self._from_rows(rows, words, rest.get("default"), (count, size), place)

    def _steps(self, variable: int, stride: int) -> dict[str, int]:
        """By how much each state moves the row."""
        return {state: k * stride for k, state in enumerate(self.network.states[variable])}

    def _row(self, labels: str, steps: Sequence[dict[str, int]], place: str) -> int:
        states = [label.strip() for label in labels.split(",")]
        if len(states) != len(steps) or _MARK in labels:
            states = self._words(labels)
        try:
            return sum([step[state] for step, state in zip(steps, states, strict=True)])
        except (KeyError, ValueError):
            expected = f"a state of each of {len(steps)} parents"
            raise self.network.error(place, expected, f"({labels[:40]})") from None

    def _entries(self, text: str, size: int, place: str) -> list[str]:
        words = text.replace(",", " ").split()
        if len(words) != size:
            raise self.network.error(place, f"rows of {size} numbers", str(len(words)))
        return words

    def _other(self, part: str, rest: dict[str, Floats], place: str) -> None:
        word, _, text = part.partition(" ") if " " in part else part.partition("\n")
        if word == "property":
            return
        if word not in ("table", "default") or word in rest:
            expected = "one table, one default, or rows (states) numbers"
            raise self.network.error(place, expected, self._shown(part))
        rest[word] = self._parsed(text, place)

    def _parsed(self, text: str, place: str) -> Floats:
        try:
            return numbers_in(text)
        except ValueError:
            raise self.network.error(place, "numbers", self._shown(text)) from None

    def _from_table(self, values: Floats, size: int, count: int, place: str) -> Floats:
        if len(values) != size * count:
            raise self.network.error(place, f"a table of {size * count} numbers", str(len(values)))
        return np.ascontiguousarray(values.reshape(size, count).T).ravel()

    def _from_rows(
        self,
        rows: list[int],
        words: list[str],
        default: Floats | None,
        shape: tuple[int, int],
        place: str,
    ) -> Floats:
        if default is not None and len(default) == shape[0] * shape[1] and not rows:
            return default  # pyAgrum writes tables of roots so
        if default is not None and len(default) != shape[1]:
            raise self.network.error(place, f"a default of {shape[1]} numbers", str(len(default)))
        if len(set(rows)) != len(rows):
            raise self.network.error(place, "each combination of states once", "one twice")
        values = np.empty(shape) if default is None else np.tile(default, (shape[0], 1))
        if rows:
            values[rows] = self._parsed(" ".join(words), place).reshape(-1, shape[1])
        return values.ravel()


def write_bif(model: LogLinearModel, path: Path | str) -> None:
    """Write a Bayesian network; other models are refused."""
    domain = model.domain
    lines = ["network unknown {", "}"]
    for v in range(model.variables):
        states = ", ".join(_word(state, path) for state in domain.states_of(v))
        name = _word(domain.name(v), path)
        size = domain.cardinalities[v]
        lines += [f"variable {name} {{", f"  type discrete [ {size} ] {{ {states} }};", "}"]
    for part in conditionals(model, path):
        name = _word(domain.name(part.child), path)
        parents = ", ".join(_word(domain.name(v), path) for v in part.parents)
        lines.append(f"probability ( {f'{name} | {parents}' if parents else name} ) {{")
        rows = part.table.reshape(-1, part.table.shape[-1]).tolist()
        for above, row in zip(product(*map(domain.states_of, part.parents)), rows, strict=True):
            head = f"({', '.join(_word(s, path) for s in above)})" if above else "table"
            lines.append(f"  {head} {', '.join(map(repr, row))};")
        lines.append("}")
    write_text(path, "\n".join(lines) + "\n")


def _word(text: str, path: Path | str) -> str:
    if _WORD.fullmatch(text) and "//" not in text and '"' not in text:
        return text
    if '"' in text or "\n" in text:
        raise FormatError(f"{path}: BIF has no name with a quote or a line end, found {text!r:.60}")
    return f'"{text}"'
