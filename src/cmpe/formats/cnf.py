"""Clauses of a DIMACS CNF file as rules: at least one of the literals of a clause holds.

    c a comment
    p cnf 3 2
    1 -3 0
    2 3 -1 0

Literal v says that variable number v - 1 of the model, in its order, is in state 1, and -v that it
is in another. A clause ends with 0 and may go over several lines; `%` ends the file, as SATLIB has
it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cmpe.arguments import file_path
from cmpe.errors import FormatError
from cmpe.formats.text import lines_of, read_text
from cmpe.models.rules import Literal, LiteralCount, Rule


def read_rules(path: Path | str, names: Sequence[Any] = ()) -> list[Rule]:
    """Read the clauses of a DIMACS CNF file, as rules for the constraints of a problem.

    `names` are the model's variables that the file numbers 1, 2, ...; without them variable v is
    number v - 1 of the model, in the model's order. A positive literal is state 1 and a negative
    one any other state.
    """
    file = file_path(path, "read_rules")
    variables, expected = 0, -1
    rules: list[Rule] = []
    clause: list[Literal] = []
    for number, line in lines_of(read_text(file)):
        words = line.split()
        if not words or words[0] == "c":
            continue
        if words[0] == "%":
            break
        if expected < 0:
            variables, expected = _header(file, number, words)
            if names and len(names) < variables:
                expected_names = f"at most {len(names)} variables, which have names"
                raise FormatError.at(file, f"line {number}", expected_names, str(variables))
            continue
        for word in words:
            literal = _literal(file, number, word, variables)
            if literal:
                key = names[abs(literal) - 1] if names else abs(literal) - 1
                clause.append(Literal(key, (1,), literal < 0))
            elif clause:
                rules.append(Rule(LiteralCount("at least one of", tuple(clause), 1, math.inf)))
                clause = []
            else:
                place = f"line {number}"
                raise FormatError.at(file, place, "a literal before 0", "an empty clause")
    if clause:
        raise FormatError.at(file, "the end", "0 after the last clause", "none")
    if len(rules) != expected:
        if expected < 0:
            raise FormatError.at(file, "the end", "a line 'p cnf VARIABLES CLAUSES'", "none")
        raise FormatError.at(file, "the end", f"{expected} clauses", str(len(rules)))
    return rules


def _header(file: Path, line: int, words: Sequence[str]) -> tuple[int, int]:
    is_header = len(words) == 4 and list(words[:2]) == ["p", "cnf"]
    if not (is_header and all(word.isdecimal() and len(word) < 10 for word in words[2:])):
        expected = "'p cnf VARIABLES CLAUSES'"
        raise FormatError.at(file, f"line {line}", expected, repr(" ".join(words)[:40]))
    return int(words[2]), int(words[3])


def _literal(file: Path, line: int, word: str, variables: int) -> int:
    digits = word.removeprefix("-")
    if not (digits.isdecimal() and len(digits) < 10 and int(digits) <= variables):
        expected = f"a literal from -{variables} to {variables}, or 0"
        raise FormatError.at(file, f"line {line}", expected, repr(word[:40]))
    return int(word)
