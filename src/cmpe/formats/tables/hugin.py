"""Hugin .net files: discrete chance nodes and their tables.

    net { ... }
    node NAME { states = ("yes" "no"); ... }
    potential ( CHILD | PARENT ... ) { data = ((0.1 0.9)(0.5 0.5)); }

The child's states are fastest in `data`, those of the first parent slowest; its brackets only
group. Comments begin with %. Decisions, utilities and continuous nodes are refused.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from cmpe.formats.tables.bayes import BayesBuilder, conditionals, numbers_in
from cmpe.formats.text import check_marked, read_text, write_text
from cmpe.models.loglinear import LogLinearModel

_QUOTED_OR_COMMENT = re.compile(r'"((?:[^"\\]|\\.)*)"|%[^\n]*', re.DOTALL)
_HEAD = re.compile(r"\s*(?:(discrete|continuous)\s+)?(\w+)\b([^{}]*)\{([^{}]*)\}")
_STATES = re.compile(r"\bstates\s*=\s*\(([^()]*)\)\s*;")
_DATA = re.compile(r"\bdata\s*=\s*([^;]*);")
_WORD = re.compile(r"\x00\d+\x00|[^\s()|,;\x00]+")  # a quoted one ends with its quote
_MARK = "\x00"


def read_net(path: Path | str) -> LogLinearModel:
    """Read a network."""
    return _NetReader(path, read_text(path, encoding="utf-8")).read()


class _NetReader:
    def __init__(self, path: Path | str, text: str) -> None:
        self._network = BayesBuilder(path)
        self._quoted: list[str] = []
        check_marked(path, text, ('"', "%"))
        self._text = _QUOTED_OR_COMMENT.sub(self._mark, text.replace(_MARK, " "))

    def _mark(self, found: re.Match[str]) -> str:
        if found.group(1) is None:
            return " "
        self._quoted.append(found.group(1).replace('\\"', '"'))
        return f"{_MARK}{len(self._quoted) - 1}{_MARK}"

    def _words(self, text: str) -> list[str]:
        words = _WORD.findall(text)
        return [self._quoted[int(w[1:-1])] if w[0] == _MARK else w for w in words]

    def read(self) -> LogLinearModel:
        """All blocks, nodes before potentials."""
        at, line, seen, tables = 0, 1, 0, []
        while found := _HEAD.match(self._text, at):
            line, seen = line + self._text.count("\n", seen, found.start(2)), found.start(2)
            kind, word, head, body = found.groups()
            place, at = f"line {line}", found.end()
            if word == "node" and kind != "continuous":
                self._node(head, body, place)
            elif word == "potential":
                tables.append((head, body, place))
            elif word not in ("net", "class"):
                what = f"{kind or ''} {word}".strip()
                raise self._network.error(place, "net, node or potential", repr(what[:40]))
        rest = self._text[at:].strip()
        if rest:
            line += self._text.count("\n", seen, self._text.find(rest[:1], at))
            raise self._network.error(f"line {line}", "net, node or potential", repr(rest[:30]))
        for head, body, place in tables:
            self._potential(head, body, place)
        return self._network.model()

    def _node(self, head: str, body: str, place: str) -> None:
        names, states = self._words(head), _STATES.search(body)
        if len(names) != 1 or states is None:
            expected = "node NAME { states = (...); }"
            raise self._network.error(place, expected, repr(head.strip()[:40]))
        self._network.add_variable(names[0], self._words(states.group(1)), place)

    def _potential(self, head: str, body: str, place: str) -> None:
        network, words, data = self._network, self._words(head), _DATA.search(body)
        children = self._words(head.partition("|")[0])
        if len(children) != 1 or data is None:
            expected = "potential ( CHILD | PARENTS ) { data = (...); }"
            raise network.error(place, expected, repr(head.strip()[:40]))
        child, *parents = (network.number(word, place) for word in words)
        shape = network.shape(child, parents, place)
        try:
            values = numbers_in(data.group(1).replace("(", " ").replace(")", " "))
        except ValueError:
            raise network.error(place, "numbers in data", repr(data.group(1)[:40])) from None
        size = int(np.prod(shape, dtype=np.int64))
        if len(values) != size:
            raise network.error(place, f"data of {size} numbers", str(len(values)))
        network.add_table(child, parents, values, place)


def write_net(model: LogLinearModel, path: Path | str) -> None:
    """Write a Bayesian network; other models are refused. Nodes are called C0, C1, ... where a
    name is no identifier; the name is then the label."""
    domain = model.domain
    names = [_identifier(domain.name(v), v) for v in range(model.variables)]
    if len(set(names)) != len(names):
        names = [f"C{v}" for v in range(model.variables)]
    lines = ["net {", "}"]
    for v, name in enumerate(names):
        states = " ".join(map(_quoted, domain.states_of(v)))
        label = _quoted(domain.name(v))
        lines += [f"node {name} {{", f"  label = {label};", f"  states = ({states});", "}"]
    for part in conditionals(model, path):
        parents = " ".join(names[v] for v in part.parents)
        lines.append(f"potential ( {names[part.child]} | {parents} ) {{")
        lines += [f"  data = {_nested(part.table.tolist())};", "}"]
    write_text(path, "\n".join(lines) + "\n")


def _identifier(name: str, number: int) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) else f"C{number}"


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '\\"') + '"'


def _nested(values: object) -> str:
    if isinstance(values, list):
        joint = " " if values and not isinstance(values[0], list) else ""
        return f"({joint.join(map(_nested, values))})"
    return repr(values)
