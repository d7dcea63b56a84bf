"""Check certificates without cmpe: `python checker.py CERTIFICATE`. It needs Python alone.

A certificate states a question, and of each of its rows what is claimed:

    no assignment that agrees with the evidence and satisfies every constraint t_j <= q_j
    has an objective h above `bound` (null: no assignment satisfies them at all)

with an assignment and its `objective`, if there is one. Tables come from the model files that the
question names (UAI; `.LG` files hold logarithms), or from the certificate.

The proof of a row is a list of cubes. A cube allows some values of some variables; together the
cubes cover all assignments that agree with the evidence. Each cube has multipliers mu >= 0. The
tables of h - sum over j of mu_j (t_j - q_j) are added up in clusters, which are sets of variables.
Then functions are moved: what is subtracted in one cluster is added in another, so the sum over
all clusters stays what it was, and the sum of the clusters' maxima over the cube bounds h for every
assignment in the cube that satisfies the constraints. It must be at most `bound`; or, with 0 in
place of h, below 0: then no assignment in the cube satisfies them. Low numbers of t, also -inf, may
be raised as far as the constraint holds whatever the other tables say.
"""

from __future__ import annotations

import json
import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from math import fsum, inf, isfinite
from pathlib import Path
from typing import Any, NamedTuple

TOLERANCE, ROUNDING = 1e-6, 1e-14  # TOLERANCE is a share of max(1, |q|); ROUNDING: `above`


class Refused(Exception):  # noqa: N818
    """The first step that fails, in words."""


def need(holds: object, words: str) -> None:
    """Refuse unless something holds."""
    if not holds:
        raise Refused(words)


def number(x: Any, words: str) -> float:
    """A finite number."""
    need(type(x) in (int, float) and isfinite(x), f"{words} must be a number, found {x!r:.40}")
    return float(x)


def index(x: Any, count: int, words: str) -> int:
    """A whole number below `count`."""
    need(type(x) is int and 0 <= x < count, f"{words} must be from 0 to {count - 1}, found {x!r}")
    return int(x)


def above(numbers: Iterable[float]) -> float:
    """At least the sum of numbers that are exact but for a share of 1e-15 of 1 + their size."""
    terms = list(numbers)
    total = fsum(terms)
    return total if total == -inf else total + ROUNDING * (len(terms) + fsum(map(abs, terms)))


def below(numbers: Iterable[float]) -> float:
    """At most the sum."""
    return -above([-x for x in numbers])


class Table(NamedTuple):
    """A number for each assignment of `scope`, the last variable fastest."""

    scope: list[int]
    values: list[float]


def strides(scope: Sequence[int], sizes: Sequence[int]) -> tuple[dict[int, int], int]:
    """By how much a step of each variable moves the position in a table, and the table's size."""
    steps, size = dict[int, int](), 1
    for v in reversed(scope):
        index(v, len(sizes), "a variable")
        need(v not in steps, f"variables must be distinct, found {scope}")
        steps[v], size = size, size * sizes[v]
    return steps, size


def spread(table: Table, sizes: Any, cluster: Sequence[int], values: Any) -> list[float]:
    """The entry of a table for every assignment of the cluster's variables to `values`."""
    steps, _ = strides(table.scope, sizes)
    at = [sum(step * values[v][0] for v, step in steps.items() if v not in cluster)]
    for v in cluster:
        step = steps.get(v, 0)
        at = [place + step * value for place in at for value in values[v]]
    return [table.values[place] for place in at]


def read_model(path: Path) -> tuple[list[int], list[Table]]:
    """The cardinalities and tables of a UAI file."""
    words = iter(path.read_text().split())
    need(next(words) in ("MARKOV", "BAYES"), f"{path}: must begin with MARKOV or BAYES")
    cards = [int(next(words)) for _ in range(int(next(words)))]
    scopes = [[int(next(words)) for _ in range(int(next(words)))] for _ in range(int(next(words)))]
    tables = []
    for scope in scopes:
        size = strides(scope, cards)[1]
        need(int(next(words)) == size, f"{path}: the table of {scope} must have {size} entries")
        values = [float(next(words)) for _ in range(size)]
        if not path.name.endswith(".LG"):
            values = [math.log(x) if x else -inf for x in values]
        need(all(x < inf for x in values), f"{path}: the table of {scope} holds inf or NaN")
        tables.append(Table(scope, values))
    return cards, tables


class Stated:
    """The tables of the objective, and of each constraint."""

    def __init__(self, problem: Any, folder: Path) -> None:
        self.cards: list[int] = problem["cardinalities"]
        need(all(type(k) is int and k > 0 for k in self.cards), "cardinalities must be above 0")
        self.models = {file: read_model(folder / file) for file in problem["files"]}
        for file, (cards, _) in self.models.items():
            need(cards == self.cards[: len(cards)], f"{file}: other cardinalities than stated")
        each = [problem["objective"], *(c["tables"] for c in problem["constraints"])]
        self.functions = list(map(self.tables, each))

    def tables(self, parts: Any) -> list[Table]:
        """The tables of model files, and those that the certificate holds; null is -inf."""
        tables = []
        for part in parts:
            if "file" in part:
                tables += self.models[part["file"]][1]
                continue
            scope, size = part["scope"], strides(part["scope"], self.cards)[1]
            words = f"the table of {scope}"
            values = [-inf if x is None else number(x, words) for x in part["table"]]
            need(len(values) == size, f"{words} must have {size} entries")
            tables.append(Table(scope, values))
        return tables


class Row:
    """One row: its evidence, tables and limits, and the clusters of its proof."""

    def __init__(self, question: Stated, row: Any, structure: Any) -> None:
        self.cards, self.claim = question.cards, row
        self.values = [list(range(k)) for k in self.cards]  # evidence leaves one value
        for v, value in row["evidence"]:
            card = self.cards[index(v, len(self.cards), "an observed variable")]
            need(len(self.values[v]) == card, f"variable {v} is observed twice")
            self.values[v] = [index(value, card, f"the value of variable {v}")]
        own = question.tables(row["potentials"])
        self.functions = [question.functions[0] + own, *question.functions[1:]]
        limits = [number(q, "a limit") for q in row["limits"]]
        need(len(limits) == len(self.functions) - 1, "every constraint needs a limit")
        self.limits = [q + TOLERANCE * max(1.0, abs(q)) for q in limits]
        self.clusters: list[list[int]] = list(structure["clusters"])
        for cluster in self.clusters:
            strides(cluster, self.cards)  # refuses what is no set of variables
        self.moves = structure["moves"]
        for origin, target, scope in self.moves:
            for k in (origin, target):
                inside = self.clusters[index(k, len(self.clusters), "a cluster")]
                need(set(scope) <= set(inside), f"a move of {scope} needs them in {inside}")
        self.members = defaultdict[tuple[int, int], list[Table]](list)
        for f, tables in enumerate(self.functions):
            for table in tables:
                self.members[self.place(table), f].append(table)

    def place(self, table: Table) -> int:
        """The first cluster that contains the table's free variables."""
        free = {v for v in table.scope if len(self.values[v]) > 1}
        for k, cluster in enumerate(self.clusters):
            if free.issubset(cluster):
                return k
        self.clusters.append(sorted(free))
        return len(self.clusters) - 1

    def check(self) -> str:
        """What is verified, in words; raises Refused at the first step that fails."""
        claim, count = self.claim, len(self.claim["cubes"])
        bound = None if claim["bound"] is None else number(claim["bound"], "the bound")
        if claim["assignment"] is not None:
            self.check_assignment(number(claim["objective"], "the objective"))
        self.check_cover(claim["cubes"], 0, dict(enumerate(map(set, self.values))))
        for n, cube in enumerate(claim["cubes"]):
            self.check_cube(cube, bound, f"cube {n}")
        most = "no assignment" if bound is None else f"nothing above {bound:.9g}"
        has = "" if claim["assignment"] is None else f"objective {claim['objective']:.9g}, "
        return f"verified: {has}{most} satisfies the constraints (cubes: {count})"

    def check_assignment(self, objective: float) -> None:
        """It agrees with the evidence, satisfies the constraints, and has that objective."""
        assignment = self.claim["assignment"]
        for v, (value, values) in enumerate(zip(assignment, self.values, strict=True)):
            need(value in values, f"the assignment must not have {value} for variable {v}")
        at = [[value] for value in assignment]
        for j, tables in enumerate(self.functions):
            terms = [spread(table, self.cards, [], at)[0] for table in tables]
            room = 1e-9 * max(1.0, *map(abs, [0.0, *terms]))
            if j:
                need(fsum(terms) <= self.limits[j - 1] + room, f"constraint {j - 1} is broken")
                continue
            near = isfinite(room) and abs(fsum(terms) - objective) <= room
            need(near, f"the assignment's objective is {fsum(terms)}, not {objective}")

    def check_cover(self, cubes: Any, depth: int, allowed: dict[int, set[int]]) -> None:
        """Split by split, each of one variable, the cubes cover all values that are allowed."""
        if len(cubes) == 1 and len(cubes[0]["where"]) == depth:
            return
        need(cubes and all(len(c["where"]) > depth for c in cubes), "the cubes do not cover all")
        parts = dict[Any, list[Any]]()
        for cube in cubes:
            v, values = cube["where"][depth]
            parts.setdefault(tuple(values), []).append(cube)
            need(v == cubes[0]["where"][depth][0], "a split must be of one variable")
        need(set().union(*parts) == allowed[v], f"the cubes do not cover variable {v}")
        for values, part in parts.items():
            self.check_cover(part, depth + 1, {**allowed, v: set(values)})

    def check_cube(self, cube: Any, bound: float | None, words: str) -> None:
        """The sum of the clusters' maxima is at most the bound; without h, below 0."""
        values = list(self.values)
        for v, chosen in cube["where"]:
            values[v] = sorted(set(chosen))
        mu = [number(x, f"{words}: a multiplier") for x in cube["multipliers"]]
        need(len(mu) == len(self.limits), f"{words}: every constraint needs a multiplier")
        need(min(mu, default=0) >= 0, f"{words}: multipliers must be at least 0")
        columns = self.moved(cube["moved"], values, words)  # each cluster has its moves
        for j, price in enumerate(mu):
            for k, priced in enumerate(self.priced(j, price, values) if price else []):
                columns[k] += [priced] if priced else []
        maxima = [price * q for price, q in zip(mu, self.limits, strict=True)]
        for k, own in enumerate(columns):
            h = self.summed(0, k, values, above)
            if cube["infeasible"]:
                h = [0.0 if x > -inf else -inf for x in h]
            sums = map(above, zip(*own, *([h] if h else []), strict=True))
            maxima.append(max(sums, default=0.0))
        total, most = above(maxima), -inf if bound is None else bound
        holds = total < 0 if cube["infeasible"] else total <= most
        need(holds, f"{words}: the sum of the maxima is {total}, too high")

    def summed(self, f: int, k: int, values: Any, rounded: Any) -> list[float]:
        """The tables of function f in cluster k, added up over the cube."""
        own = (spread(t, self.cards, self.clusters[k], values) for t in self.members[k, f])
        return list(map(rounded, zip(*own, strict=True)))

    def priced(self, j: int, price: float, values: Any) -> list[list[float]]:
        """-mu t_j in each cluster: an entry that is low makes the constraint hold anyway."""
        each = [self.summed(j + 1, k, values, below) for k in range(len(self.clusters))]
        most = [max((x for x in t if x > -inf), default=0.0) for t in each]
        total = above(most)
        lows = [min(own, below([self.limits[j], own, -total])) for own in most]
        return [[-price * max(low, x) for x in t] for low, t in zip(lows, each, strict=True)]

    def moved(self, numbers: Any, values: Any, words: str) -> list[list[list[float]]]:
        """What the moves add in each cluster, and with the other sign subtract."""
        columns: list[list[list[float]]] = [[] for _ in self.clusters]
        sizes, begin = [len(each) for each in values], 0
        places = [range(size) for size in sizes]
        for origin, target, scope in self.moves:
            end = begin + strides(scope, sizes)[1]
            own = Table(scope, [number(x, f"{words}: a moved number") for x in numbers[begin:end]])
            columns[target].append(spread(own, sizes, self.clusters[target], places))
            lost = spread(own, sizes, self.clusters[origin], places)
            columns[origin].append([-x for x in lost])
            begin = end
        need(begin == len(numbers), f"{words}: must move {begin} numbers, found {len(numbers)}")
        return columns


def check(path: Path | str) -> Iterator[tuple[int | None, bool, str]]:
    """Of each row of a certificate its number, whether the claim is verified, and a sentence."""
    n = None
    try:
        certificate = json.loads(Path(path).read_text())
        question = Stated(certificate["problem"], Path(path).parent)
        for n, row in enumerate(certificate["rows"]):
            if "uncertified" in row:
                yield n, False, f"no proof: {row['uncertified']}"
                continue
            yield n, True, Row(question, row, certificate["structures"][row["structure"]]).check()
    except Refused as step:
        yield n, False, f"refused: {step}"
    except Exception as error:  # whatever it is, nothing is verified
        yield n, False, f"refused: cannot be read as a certificate: {error!r}"


def main(paths: Sequence[str]) -> int:
    """Write what is verified; 0 if everything is."""
    good = True
    for path in paths:
        for n, holds, words in check(path):
            good = good and holds
            sys.stdout.write(f"{path}{'' if n is None else f', row {n}'}: {words}\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
