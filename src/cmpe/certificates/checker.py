"""Check certificates without cmpe: `python checker.py CERTIFICATE`. It needs only Python.

A certificate states a question, and of each of its rows what is claimed: no assignment that agrees
with the evidence and satisfies every constraint t_j <= q_j has an objective h above `bound` (null:
none satisfies them), with an assignment and its `objective`, if there is one. Tables come from UAI
files that the question names (also packed; `.LG` holds logarithms), or from the certificate.

The proof of a row is a list of cubes. A cube allows some values of some variables; together the
cubes cover all assignments that agree with the evidence. Each cube has multipliers mu >= 0. The
tables of h - sum over j of mu_j (t_j - q_j) are added up in clusters of variables. Moves subtract
functions in one cluster and add them in another, so that the sum over all clusters stays. The sum
of the clusters' maxima over the cube then bounds h for every assignment in the cube that satisfies
the constraints. It must be at most `bound`; or, with 0 in place of h, below 0: then nothing in the
cube satisfies them. Low numbers of t, also -inf, may be raised as far as the constraint holds
whatever the other tables say. A cube keeps the first `same` splits of the cube before it, and all
moves that it does not state. A move is a number for each assignment of its variables to values that
the cube allows, or to all that agree with the evidence.
"""

from __future__ import annotations

import gzip
import json
import lzma
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import fsum, inf, isfinite, log, prod
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


def above(terms: Sequence[float]) -> float:
    """At least the sum of numbers that are exact but for a share of 1e-15 of 1 + their size."""
    total = fsum(terms)
    return total if total == -inf else total + ROUNDING * (len(terms) + fsum(map(abs, terms)))


class Table(NamedTuple):
    """Numbers, and how far each value of a variable moves the position among them."""

    offsets: dict[int, dict[int, int]]
    numbers: list[float]

    @classmethod
    def of(cls, scope: Sequence[int], allowed: Any, numbers: list[float], words: str) -> Table:
        """A number for each assignment of `scope` to allowed values, the last variable fastest."""
        offsets, size = dict[int, dict[int, int]](), 1
        for v in reversed(scope):
            axis = allowed[index(v, len(allowed), f"{words}: a variable")]
            offsets[v] = {value: size * i for i, value in enumerate(axis)}
            size *= len(axis)
        need(len(offsets) == len(scope), f"{words} must be of distinct variables")
        need(len(numbers) == size, f"{words} must have {size} numbers, found {len(numbers)}")
        return cls(offsets, numbers)

    def spread(self, cluster: Sequence[int], values: Any) -> list[float]:
        """The number for every assignment of the cluster's variables to `values`."""
        at = [sum(own[values[v][0]] for v, own in self.offsets.items() if v not in cluster)]
        for v in cluster:
            own = self.offsets.get(v)
            steps = [own[value] for value in values[v]] if own else [0] * len(values[v])
            at = [place + step for place in at for step in steps]
        return [self.numbers[place] for place in at]


def read_model(path: Path) -> tuple[list[int], list[Table]]:
    """The cardinalities and tables of a UAI file."""
    unpacked = {".gz": gzip.decompress, ".xz": lzma.decompress}.get(path.suffix, bytes)
    words = iter(unpacked(path.read_bytes()).decode().split())
    need(next(words) in ("MARKOV", "BAYES"), f"{path}: must begin with MARKOV or BAYES")
    cards = [int(next(words)) for _ in range(int(next(words)))]
    every, tables = [range(k) for k in cards], []
    scopes = [[int(next(words)) for _ in range(int(next(words)))] for _ in range(int(next(words)))]
    is_log = path.name.removesuffix(".gz").removesuffix(".xz").endswith(".LG")
    for scope in scopes:
        values = [float(next(words)) for _ in range(int(next(words)))]
        values = values if is_log else [log(x) if x else -inf for x in values]
        need(all(x < inf for x in values), f"{path}: the table of {scope} holds inf or NaN")
        tables.append(Table.of(scope, every, values, f"{path}: the table of {scope}"))
    return cards, tables


class Stated:
    """The tables of the objective, and of each constraint."""

    def __init__(self, problem: Any, folder: Path) -> None:
        cards = problem["cardinalities"]
        need(all(type(k) is int and k > 0 for k in cards), "cardinalities must be above 0")
        self.every = [range(k) for k in cards]
        self.models = {file: read_model(folder / file) for file in problem["files"]}
        for file, (own, _) in self.models.items():
            need(own == cards[: len(own)], f"{file}: other cardinalities than stated")
        each = [problem["objective"], *(c["tables"] for c in problem["constraints"])]
        self.functions = list(map(self.tables, each))

    def tables(self, parts: Any) -> list[Table]:
        """The tables of model files, and those that the certificate holds; null is -inf."""
        tables = []
        for part in parts:
            if "file" in part:
                tables += self.models[part["file"]][1]
                continue
            words = f"the table of {part['scope']}"
            values = [-inf if x is None else number(x, words) for x in part["table"]]
            tables.append(Table.of(part["scope"], self.every, values, words))
        return tables


class Row:
    """One row: its evidence, tables and limits, and the clusters of its proof."""

    def __init__(self, question: Stated, row: Any, structure: Any) -> None:
        self.claim, every = row, question.every
        self.values = list(map(list, every))  # evidence leaves one value
        for v, value in row["evidence"]:
            card = len(every[index(v, len(every), "an observed variable")])
            need(len(self.values[v]) == card, f"variable {v} is observed twice")
            self.values[v] = [index(value, card, f"the value of variable {v}")]
        h, *others = question.functions
        self.functions = [h + question.tables(row["potentials"]), *others]
        self.limits = [number(q, "a limit") + TOLERANCE * max(1.0, abs(q)) for q in row["limits"]]
        need(len(self.limits) == len(others), "every constraint needs a limit")
        self.clusters: list[list[int]] = structure["clusters"]
        self.having = defaultdict[int, list[int]](list)  # the clusters that contain a variable
        for k, cluster in enumerate(self.clusters):
            need(len(set(cluster)) == len(cluster), f"{cluster} must be distinct variables")
            for v in cluster:
                self.having[index(v, len(every), "a variable of a cluster")].append(k)
        self.moves, self.touching = structure["moves"], defaultdict[int, list[int]](list)
        for m, (origin, target, scope) in enumerate(self.moves):
            for k in (origin, target):
                inside = set(self.clusters[index(k, len(self.clusters), "a cluster")])
                need(inside.issuperset(scope), f"a move of {scope} needs them in {inside}")
                self.touching[k].append(m)
            need(origin != target, "a move must be from one cluster to another")
        self.moved: list[Any] = [None] * len(self.moves)
        self.members = defaultdict[tuple[int, int], list[Table]](list)
        for f, tables in enumerate(self.functions):
            for table in tables:  # is of the first cluster that contains its free variables
                free = {v for v in table.offsets if len(self.values[v]) > 1}
                some = self.having[min(free)] if free else range(len(self.clusters))
                fitting = [k for k in some if free.issubset(self.clusters[k])]
                need(fitting, f"no cluster contains the variables {sorted(free)}")
                self.members[fitting[0], f].append(table)
        self.last = dict[Any, tuple[Any, Any]]()  # The latest results, with their inputs.

    def check(self) -> str:
        """What is verified, in words; raises Refused at the first step that fails."""
        claim, wheres = self.claim, list[Any]([[]])
        bound = None if claim["bound"] is None else number(claim["bound"], "the bound")
        if claim["assignment"] is not None:
            self.check_assignment(number(claim["objective"], "the objective"))
        for n, cube in enumerate(claim["cubes"]):
            same = index(cube["same"], len(wheres[-1]) + 1, f"cube {n}: `same`")
            wheres.append(wheres[-1][:same] + cube["where"])
            self.check_cube(cube, wheres[-1], bound, f"cube {n}")
        self.check_cover(wheres[1:])
        most = "no assignment" if bound is None else f"nothing above {bound:.9g}"
        has = "" if claim["assignment"] is None else f"objective {claim['objective']:.9g}, "
        return f"verified: {has}{most} satisfies the constraints (cubes: {len(wheres) - 1})"

    def check_assignment(self, objective: float) -> None:
        """It agrees with the evidence, satisfies the constraints, and has that objective."""
        at = [[value] for value in self.claim["assignment"]]
        for v, ((value,), values) in enumerate(zip(at, self.values, strict=True)):
            need(value in values, f"the assignment must not have {value} for variable {v}")
        for j, tables in enumerate(self.functions):
            terms = [table.spread([], at)[0] for table in tables]
            room = 1e-9 * max(1.0, *map(abs, [0.0, *terms]))
            if j:
                need(fsum(terms) <= self.limits[j - 1] + room, f"constraint {j - 1} is broken")
                continue
            near = isfinite(room) and abs(fsum(terms) - objective) <= room
            need(near, f"the assignment's objective is {fsum(terms)}, not {objective}")

    def check_cover(self, wheres: list[Any]) -> None:
        """Split by split, each of one variable, the cubes cover all values that are allowed."""
        groups: list[tuple[list[Any], int, dict[int, Any]]] = [(wheres, 0, {})]
        while groups:
            group, depth, allowed = groups.pop()
            if len(group) == 1 and len(group[0]) == depth:
                continue
            need(group and all(len(w) > depth for w in group), "the cubes do not cover all")
            v = index(group[0][depth][0], len(self.values), "the variable of a split")
            parts = defaultdict[Any, list[Any]](list)
            for where in group:
                need(where[depth][0] == v, "a split must be of one variable")
                parts[tuple(where[depth][1])].append(where)
            covered = set().union(*parts) == set(allowed.get(v, self.values[v]))
            need(covered, f"the cubes do not cover variable {v}")
            groups += [(part, depth + 1, {**allowed, v: key}) for key, part in parts.items()]

    def check_cube(self, cube: Any, where: Any, bound: float | None, words: str) -> None:
        """The sum of the clusters' maxima is at most the bound; without h, below 0."""
        values = list(self.values)
        for v, chosen in where:
            values[v] = sorted(set(chosen))
        mu = [number(x, f"{words}: a multiplier") for x in cube["multipliers"]]
        good = len(mu) == len(self.limits) and min(mu, default=0) >= 0
        need(good, f"{words}: every constraint needs a multiplier of at least 0")
        for m, stated in cube["moved"]:
            scope = self.moves[index(m, len(self.moves), f"{words}: a move")][2]
            own = [number(x, f"{words}: a moved number") for x in stated]
            allowed = values if prod(len(values[v]) for v in scope) == len(own) else self.values
            self.moved[m] = Table.of(scope, allowed, own, f"{words}: a move")
        lows = [self.lows(j, values) if price else [] for j, price in enumerate(mu)]
        maxima = [price * q for price, q in zip(mu, self.limits, strict=True)]
        for k, cluster in enumerate(self.clusters):
            used = [cube["infeasible"], mu, *(own[k] for own in lows if own)]
            used += [values[v] for v in cluster]
            moves = [self.moved[m] for m in self.touching[k]]
            (old, before), _ = self.last.get(k, ((None, []), 0.0))
            if old != used or not all(a is b for a, b in zip(before, moves, strict=True)):
                self.last[k] = (used, moves), self.highest(k, values, cube, mu, lows)
            maxima.append(self.last[k][1])
        total, most = above(maxima), -inf if bound is None else bound
        holds = total < 0 if cube["infeasible"] else total <= most
        need(holds, f"{words}: the sum of the maxima is {total}, too high")

    def highest(self, k: int, values: Any, cube: Any, mu: list[float], lows: Any) -> float:
        """The maximum of a cluster over the cube."""
        h = self.summed(0, k, values)
        columns = [[0.0 if x > -inf else -inf for x in h] if cube["infeasible"] else h]
        for j, price in enumerate(mu):
            if price:
                columns.append([-price * max(lows[j][k], x) for x in self.summed(j + 1, k, values)])
        for m in self.touching[k]:
            moved = self.moved[m].spread(self.clusters[k], values)
            columns.append([-x for x in moved] if self.moves[m][0] == k else moved)
        return max(map(above, zip(*filter(None, columns), strict=True)), default=0.0)

    def summed(self, f: int, k: int, values: Any) -> list[float]:
        """The tables of function f in cluster k, added up over the cube: t from below."""
        cluster, sign = self.clusters[k], -1.0 if f else 1.0
        used = [values[v] for v in cluster]
        if self.last.get((f, k), (None, []))[0] != used:
            each = zip(*(t.spread(cluster, values) for t in self.members[k, f]), strict=True)
            self.last[f, k] = used, [sign * above([sign * x for x in own]) for own in each]
        return list[float](self.last[f, k][1])

    def lows(self, j: int, values: Any) -> list[float]:
        """Of each cluster how far entries of t_j may be raised: the constraint holds anyway."""
        each = (self.summed(j + 1, k, values) for k in range(len(self.clusters)))
        most = [max((x for x in t if x > -inf), default=0.0) for t in each]
        total = above(most)
        return [min(own, -above([-self.limits[j], -own, total])) for own in most]


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
    verdicts = [(path, *verdict) for path in paths for verdict in check(path)]
    for path, n, _, words in verdicts:
        sys.stdout.write(f"{path}{'' if n is None else f', row {n}'}: {words}\n")
    return int(not all(holds for _, _, holds, _ in verdicts))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
