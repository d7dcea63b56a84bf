"""UAI models: MARKOV and BAYES, and `.LG` files whose tables are natural logarithms.

    MARKOV | BAYES
    <number of variables>  <cardinalities>
    <number of factors>    <arity> <variables> of each
    <number of entries> <entries> of each table, the last variable of the scope fastest

A potential is read as log(p) and written as a p whose log is the same float64 again. Every
table that came from a `.uai` file is therefore written back bit for bit. Where no float64
potential has that logarithm (a table made by arithmetic), the nearest one is written and the
log changes by an ulp of p; `.LG` stores any table exactly.

What follows a # is a comment. pyAgrum (3.3) writes some, and tables that are not in the order of
their scopes. In its BAYES files they are in the reverse order of the parents. Its MARKOV files do
not tell; pyAgrum reads the variables in descending order there, and so does this reader.

UAI files know no names. They may lie beside them, in `MODEL.uai.names`: a JSON object with the
states of each variable by name, or how many there are, in the order of the variables.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from pathlib import Path

import numpy as np

from cmpe.arguments import file_path
from cmpe.arrays import Floats
from cmpe.errors import FormatError, InputError
from cmpe.formats.tables.names import names_file, read_names, write_names
from cmpe.formats.tables.uai_numbers import Order, read_at_once
from cmpe.formats.text import Tokens, check_marked, decoded, read_bytes, suffix_of, write_text
from cmpe.models.loglinear import Factor, LogLinearModel

LOG_SUFFIX = ".LG"
MOST_AXES = 64  # A NumPy array has no more.
# A variable in no factor could claim any number of values for free.
MOST_VALUES = 1 << 20
# Each costs hundreds of bytes in memory, and one of no variables six in a file.
MOST_FACTORS = 1 << 21
MOST_VARIABLES = 1 << 24
_COMMENT = re.compile(rb"#[^\r\n]*")
_PYAGRUM_MARKOV = re.compile(rb"MARKOV\s+\d+ # nbr Nodes\s")
_PYAGRUM_BAYES = re.compile(rb"BAYES\s+\d+\s+[\d ]+\s+\d+\s+\d[\d ]*   # ")


def read_uai(path: Path | str, names: Sequence[str] | None = None) -> LogLinearModel:
    """Read a model; a `.LG` suffix means log-potentials, .gz, .xz and .bz2 are unpacked.

    Its variables have the names `names`, or those in `MODEL.uai.names` if that file exists.
    """
    data = read_bytes(file_path(path, "read_uai"))
    check_marked(path, data, (b"#",))
    text = decoded(path, _COMMENT.sub(b"", data) if b"#" in data else data)
    is_log, order = suffix_of(path) == LOG_SUFFIX, _order_of(data)
    model = read_at_once(text, is_log, order) or _read_words(path, text, is_log, order)
    return _with_names(model, path, names)


def _order_of(data: bytes) -> Order:
    """The order of a table's variables, of those listed in its scope."""
    if b"#" not in data:
        return tuple
    if _PYAGRUM_MARKOV.match(data):
        return lambda scope: tuple(sorted(scope, reverse=True))
    if _PYAGRUM_BAYES.match(data):
        return lambda scope: (*reversed(scope[:-1]), *scope[-1:])
    return tuple


def _with_names(
    model: LogLinearModel, path: Path | str, names: Sequence[str] | None
) -> LogLinearModel:
    if names is not None:
        return model.named(names)
    file = names_file(path)
    if not file.is_file():
        return model
    domain = read_names(file)
    if domain.cardinalities != model.cardinalities:
        place = "the variables"
        raise FormatError.at(file, place, f"those of {Path(path).name}", "other numbers of states")
    return model.named(domain.names, domain.states)


def _read_words(path: Path | str, text: str, is_log: bool, order: Order = tuple) -> LogLinearModel:
    """Word by word: slow, but every error says where."""
    if "_" in text:  # Python would read 1_0 as 10
        line = text.count("\n", 0, text.index("_")) + 1
        raise FormatError.at(path, f"line {line}", "numbers", "'_'")
    tokens = Tokens(path, text)
    kind = tokens.word("MARKOV or BAYES")
    if kind not in ("MARKOV", "BAYES"):
        raise tokens.error("MARKOV or BAYES", repr(kind[:40]), back=1)
    count = tokens.whole("the number of variables", least=1)
    _check_count(tokens, count, "a cardinality", MOST_VARIABLES)
    cards = tokens.wholes(count, "a cardinality", least=1, most=MOST_VALUES)
    scopes = [*map(order, _read_scopes(tokens, count))]
    factors = [
        Factor(scope, _read_table(tokens, number, [cards[v] for v in scope], is_log))
        for number, scope in enumerate(scopes)
    ]
    tokens.finish()
    return LogLinearModel(tuple(cards), tuple(factors))


def _read_scopes(tokens: Tokens, variables: int) -> list[tuple[int, ...]]:
    count = tokens.whole("the number of factors")
    _check_count(tokens, count, "the arity of a factor", MOST_FACTORS)
    scopes = []
    for number in range(count):
        arity = tokens.whole(f"the arity of factor {number}", most=min(variables, MOST_AXES))
        scope = tokens.wholes(arity, f"a variable of factor {number}", most=variables - 1)
        if len(set(scope)) != arity:
            raise tokens.error(f"distinct variables in factor {number}", str(scope), back=arity)
        scopes.append(tuple(scope))
    return scopes


def _check_count(tokens: Tokens, count: int, of: str, most: int) -> None:
    tokens.need(count, of)
    if count > most:
        raise tokens.error(f"at most {most}", str(count), back=1)


def _read_table(tokens: Tokens, number: int, shape: list[int], is_log: bool) -> Floats:
    size = math.prod(shape)
    wanted = f"the table size {size if size < 10**18 else 'above 10^18'} of factor {number}"
    declared = tokens.whole(wanted)
    if declared != size:
        raise tokens.error(wanted, str(declared), back=1)
    tokens.need(size, "a table entry")
    values, done = np.empty(size), 0
    for words in tokens.blocks(size, "a table entry"):
        values[done : done + len(words)] = _entries(tokens, words, is_log)
        done += len(words)
    values.setflags(write=False)
    return values.reshape(shape)


def _entries(tokens: Tokens, words: list[str], is_log: bool) -> Floats:
    """The logarithms that the words taken last stand for."""
    values = np.array(tokens.floats(words, "a table entry"), dtype=np.float64)
    wrong = np.isnan(values) | (values == np.inf if is_log else values < 0)
    expected = "a finite number or -inf" if is_log else "a finite potential of at least 0"
    if wrong.any():
        at = int(np.argmax(wrong))
        raise tokens.error(expected, repr(words[at][:40]), len(words) - at)
    if not is_log:
        with np.errstate(divide="ignore"):
            values = np.log(values)
        for at in np.flatnonzero(np.isinf(values)).tolist():
            values[at] = _log(tokens, words[at], len(words) - at, expected)
    return values


def _log(tokens: Tokens, word: str, back: int, expected: str) -> float:
    """The log of a word that float64 reads as 0 or inf; 1e-400 is neither."""
    try:
        log = float(Decimal(word).ln())
    except InvalidOperation:  # even the exponent is out of range
        log = math.inf
    if log == math.inf:
        raise tokens.error(expected, repr(word[:40]), back)
    return log


def write_uai(model: LogLinearModel, path: Path | str) -> None:
    """Write a model as MARKOV, potentials or (suffix .LG) logarithms."""
    is_log = suffix_of(path) == LOG_SUFFIX
    lines = ["MARKOV", str(model.variables), " ".join(map(str, model.cardinalities))]
    lines.append(str(len(model.factors)))
    lines += [" ".join(map(str, (len(f.scope), *f.scope))) for f in model.factors]
    for number, factor in enumerate(model.factors):
        table = factor.log_table.ravel()
        if not is_log:
            table = _potentials(table, f"{path}: factor {number}")
        lines += ["", str(table.size), " ".join(map(repr, table.tolist()))]
    write_text(path, "\n".join(lines) + "\n")
    write_names(model.domain, path)


def storable(model: LogLinearModel) -> LogLinearModel:
    """The model as a `.uai` file gives it back: each log the nearest that a potential can have."""

    def stored(factor: Factor) -> Factor:
        with np.errstate(divide="ignore"):
            logs = np.log(_potentials(factor.log_table.ravel(), f"scope {factor.scope}"))
        return Factor(factor.scope, logs.reshape(factor.log_table.shape))

    return replace(model, factors=tuple(stored(f) for f in model.factors))


def _potentials(logs: Floats, where: str) -> Floats:
    """A p with log(p) equal to each entry where one exists, else the nearest p."""
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        guess = np.exp(logs)
        lost = np.isinf(guess) | ((guess == 0) & np.isfinite(logs))
        if lost.any():
            raise InputError(
                f"{where}: the logarithm {logs[lost][0]} has no float64 potential; "
                "write a .LG file instead"
            )
        best = guess.copy()
        below, above = guess, guess
        for _ in range(4):
            wrong = np.log(best) != logs
            if not wrong.any():
                break
            below, above = np.nextafter(below, 0.0), np.nextafter(above, np.inf)
            for candidate in (below, above):
                best = np.where(wrong & (np.log(candidate) == logs), candidate, best)
    return best
