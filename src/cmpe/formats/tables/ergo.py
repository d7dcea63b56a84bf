"""Ergo .erg files (UAI 2006 and 2008 evaluations, GeNIe).

    <number of variables>  <states of each>
    <number of parents> <parents> of each variable
    /* Probabilities */    <number of entries> <entries> of each table, its variable fastest
    /* Names */            names
    /* Labels */           states of each variable

Names and labels may be missing. Parents count from 0, in files of GeNIe from 1: where one way gives
a variable that is its own ancestor, or none, it is the other.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import numpy as np

from cmpe.errors import FormatError, InputError
from cmpe.formats.tables.bayes import MOST_PARENTS, BayesBuilder, conditionals
from cmpe.formats.text import Tokens, check_marked, read_text, write_text
from cmpe.models.loglinear import LogLinearModel

MOST_VARIABLES = 1 << 20
MOST_STATES = 1 << 20
_SECTION = re.compile(r"/\*\s*(Probabilities|Names|Labels|Centers)\s*\*/", re.IGNORECASE)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


def read_erg(path: Path | str) -> LogLinearModel:
    """Read a network."""
    text = read_text(path, encoding="utf-8")
    check_marked(path, text, ("/*",))
    head, *parts = _SECTION.split(text)
    sections = {name.lower(): text for name, text in zip(parts[::2], parts[1::2], strict=True)}
    if "probabilities" not in sections:
        raise FormatError.at(path, "the file", "a section /* Probabilities */", "none")
    tokens = Tokens(path, _COMMENT.sub(" ", head))
    count = tokens.whole("the number of variables", least=1, most=MOST_VARIABLES)
    cards = tokens.wholes(count, "a number of states", least=1, most=MOST_STATES)
    parents = [_parents(tokens, count) for _ in range(count)]
    tokens.finish()
    network = BayesBuilder(path)
    names = sections.get("names", "").split()
    labels = sections.get("labels", "").split()
    if names and len(names) != count:
        raise FormatError.at(path, "section Names", f"{count} names", str(len(names)))
    if labels and len(labels) != sum(cards):
        raise FormatError.at(path, "section Labels", f"{sum(cards)} labels", str(len(labels)))
    at = 0
    for v, size in enumerate(cards):
        states = labels[at : at + size] or [str(k) for k in range(size)]
        network.add_variable(names[v] if names else f"X{v}", states, f"variable {v}")
        at += size
    _read_tables(network, Tokens(path, sections["probabilities"]), _from_zero(path, parents))
    return network.model()


def _parents(tokens: Tokens, count: int) -> list[int]:
    arity = tokens.whole("the number of parents", most=min(count, MOST_PARENTS))
    return tokens.wholes(arity, "a parent", most=count)


def _from_zero(path: Path | str, parents: Sequence[Sequence[int]]) -> list[list[int]]:
    for first in (0, 1):
        shifted = [[p - first for p in above] for above in parents]
        known = all(0 <= p < len(parents) for above in shifted for p in above)
        if known and _is_acyclic(shifted):
            return shifted
    raise FormatError.at(path, "the parents", "variables without a cycle", "other")


def _is_acyclic(parents: Sequence[Sequence[int]]) -> bool:
    try:
        tuple(TopologicalSorter(dict(enumerate(parents))).static_order())
    except CycleError:
        return False
    return True


def _read_tables(network: BayesBuilder, tokens: Tokens, parents: Sequence[list[int]]) -> None:
    for v, above in enumerate(parents):
        place = f"section Probabilities, variable {v}"
        size = math.prod(network.shape(v, above, place))
        declared = tokens.whole(f"the table size {size} of variable {v}")
        if declared != size:
            raise tokens.error(f"the table size {size} of variable {v}", str(declared), back=1)
        words = [w for block in tokens.blocks(size, "a probability") for w in block]
        values = np.array(tokens.floats(words, "a probability"), dtype=np.float64)
        network.add_table(v, above, values, place)
    tokens.finish()


def write_erg(model: LogLinearModel, path: Path | str) -> None:
    """Write a Bayesian network, parents counted from 0; other models are refused."""
    domain = model.domain
    parts = conditionals(model, path)
    states = [domain.states_of(v) for v in range(model.variables)]
    for word in (*domain.names, *(s for own in states for s in own)):
        if word.split() != [word] or "/*" in word:
            raise InputError(f"{path}: Ergo files have names without spaces, found {word!r:.60}")
    lines = [str(model.variables), " ".join(map(str, domain.cardinalities))]
    lines += [" ".join(map(str, (len(p.parents), *p.parents))) for p in parts]
    lines.append("/* Probabilities */")
    for part in parts:
        lines += [str(part.table.size), " ".join(map(repr, part.table.ravel().tolist()))]
    if domain.names:
        lines += ["/* Names */", *domain.names, "/* Labels */", *(" ".join(own) for own in states)]
    write_text(path, "\n".join(lines) + "\n")
