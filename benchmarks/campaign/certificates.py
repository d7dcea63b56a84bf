"""Certificates of random problems: all must be verified; tampered ones only where they still hold.

A tampered certificate has one number, one cube or one table changed, in its file or in a model file
that it names. Whether its claims hold is enumerated from the files by numpy, in this module alone.
"""

from __future__ import annotations

import copy
import itertools
import json
import math
import tempfile
import traceback
from pathlib import Path
from typing import Any

import numpy as np

import cmpe
from benchmarks.campaign.journal import Journal
from benchmarks.campaign.rows import Case, random_case
from cmpe.arrays import Floats, Values
from cmpe.certificates.checker import check

TAMPERED = 3  # versions of each certificate
MOST_ASSIGNMENTS = 5000
CLOSE = 1e-7

Json = Any


def unit(rng: np.random.Generator, journal: Journal) -> None:
    """One problem with up to five rows: certify, check, tamper, check again."""
    case = random_case(rng)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            content = certified(case, folder, rng)
        except Exception:  # whatever it is, it is a finding
            journal.find("leak", f"certify: {traceback.format_exc(limit=-3)}")
            return
        journal.count("certificates")
        journal.count("certified rows", len(content["rows"]))
        journal.count("row-by-method checks", len(content["rows"]))
        for row, holds, words in verdicts(content, folder):
            if not (holds and claim_holds(content, folder, row)):
                journal.find("wrong", f"certificate, row {row}: {words}\n{json.dumps(content)}")
        for _ in range(TAMPERED):
            judge(content, folder, rng, journal)


def certified(case: Case, folder: Path, rng: np.random.Generator) -> Json:
    """The certificate of a case; models lie in files half of the time."""
    problem, models = case.problem, list[Path]()
    if rng.random() < 0.5:
        for number, function in enumerate((problem.parts.objective, *problem.functions[1:])):
            if isinstance(function, cmpe.LogLinearModel):
                models.append(folder / f"m{number}{rng.choice(['.LG', '.uai'])}")
                cmpe.write_model(function, models[-1])
    path = folder / "proof.json"
    cmpe.certify(problem, case.evidence, path, models=models, **case.options)
    return json.loads(path.read_text())


def verdicts(content: Json, folder: Path) -> list[tuple[int | None, bool, str]]:
    """What the checker says of each row."""
    path = folder / "checked.json"
    path.write_text(json.dumps(content))
    return list(check(path))


def judge(content: Json, folder: Path, rng: np.random.Generator, journal: Journal) -> None:
    """Tamper once; nothing may be verified that does not hold."""
    files = {path.name: path.read_text() for path in folder.glob("m*.*")}
    changed = copy.deepcopy(content)
    kind = tamper(changed, folder, rng)
    journal.count("tampered certificates")
    found = verdicts(changed, folder)
    journal.count("tampered certificates that were refused", int(not all(h for _, h, _ in found)))
    for row, holds, words in found:
        if holds and not claim_holds(changed, folder, row):
            model = {name: (folder / name).read_text() for name in files}
            journal.find("wrong", f"tampered {kind}, row {row}: {words}\n{changed}\n{model}")
    for name, text in files.items():
        (folder / name).write_text(text)


def tamper(content: Json, folder: Path, rng: np.random.Generator) -> str:
    """Change one number, cube or table; what was changed."""
    kind = str(rng.choice(["number", "cube", "table"]))
    files = sorted(folder.glob("m*.*"))
    cubes = [row["cubes"] for row in content["rows"] if row.get("cubes")]
    if kind == "table" and files and rng.random() < 0.7:
        path = files[int(rng.integers(len(files)))]
        words = path.read_text().split()
        at = int(rng.integers(1, len(words)))
        words[at] = str(float(words[at]) * 1.5 + 0.1) if "." in words[at] else str(rng.integers(4))
        path.write_text(" ".join(words))
        return f"file {path.name}"
    if kind == "cube" and cubes:
        own = cubes[int(rng.integers(len(cubes)))]
        at = int(rng.integers(len(own)))
        how = str(rng.choice(["drop", "repeat", "kind", "where", "free"]))
        if how == "drop":
            del own[at]
        elif how == "repeat":
            own[at] = copy.deepcopy(own[int(rng.integers(len(own)))])
        elif how == "kind":
            own[at]["infeasible"] = not own[at]["infeasible"]
        elif how == "where" and own[at]["where"]:
            own[at]["where"].pop()
        else:
            own[at]["multipliers"] = [0.0 for _ in own[at]["multipliers"]]
        return f"cube: {how}"
    places = list(numbers_in(content["problem"] if kind == "table" else content))
    holder, key = places[int(rng.integers(len(places)))]
    old = holder[key]
    new = [old + 1, old - 1, -old, old * 1.1 + 0.01, 0, 1e6, -1e6, None]
    holder[key] = new[int(rng.integers(len(new)))]
    return f"number: {old} to {holder[key]}"


def numbers_in(node: Json) -> list[tuple[Json, Any]]:
    """Where the numbers of a document are: (list or object, index or key)."""
    pairs = node.items() if isinstance(node, dict) else enumerate(node)
    out = []
    for key, value in pairs:
        if isinstance(value, int | float) and not isinstance(value, bool):
            out.append((node, key))
        elif isinstance(value, dict | list):
            out += numbers_in(value)
    return out


def claim_holds(content: Json, folder: Path, number: int | None) -> bool:
    """Whether what is claimed of a row is true, by enumeration."""
    try:
        return _claim_holds(content, folder, content["rows"][number])
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return False  # it means nothing


def _claim_holds(content: Json, folder: Path, row: Json) -> bool:
    problem = content["problem"]
    cards = problem["cardinalities"]
    if math.prod(cards) > MOST_ASSIGNMENTS:
        return True
    every = np.array(list(itertools.product(*map(range, cards)))).reshape(-1, len(cards))
    h = _value(problem["objective"], every, cards, folder)
    h = h + _value(row["potentials"], every, cards, folder)
    agrees = np.ones(len(every), dtype=bool)
    for v, value in row["evidence"]:
        agrees &= every[:, v] == value
    t = [_value(c["tables"], every, cards, folder) for c in problem["constraints"]]
    sure, good = agrees & np.isfinite(h), agrees & np.isfinite(h)
    for values, q in zip(t, row["limits"], strict=True):
        room = 1e-6 * max(1.0, abs(q))
        sure &= values <= q + room - 1e-9 * max(1.0, abs(q))
        good &= values <= q + room + CLOSE * max(1.0, abs(q))
    best = h[sure].max(initial=-np.inf)
    if best > (-np.inf if row["bound"] is None else row["bound"] + CLOSE * max(1.0, abs(best))):
        return False
    if row["assignment"] is None:
        return True
    (where,) = np.flatnonzero((every == np.array(row["assignment"])).all(axis=1))
    return bool(good[where] and abs(h[where] - row["objective"]) <= CLOSE * max(1, abs(h[where])))


def _value(parts: Json, every: Values, cards: list[int], folder: Path) -> Floats:
    """The sum of tables at every assignment."""
    total = np.zeros(len(every))
    for part in parts:
        tables = (
            [(part["scope"], part["table"])] if "scope" in part else _read(folder, part["file"])
        )
        for scope, table in tables:
            numbers = np.array([-np.inf if x is None else x for x in table], dtype=float)
            shaped = numbers.reshape([cards[v] for v in scope])
            total = total + shaped[tuple(every[:, v] for v in scope)]
    return total


def _read(folder: Path, name: str) -> list[tuple[list[int], list[float]]]:
    words = (folder / name).read_text().split()
    at = iter(words[1:])
    for _ in range(int(next(at))):
        next(at)
    scopes = [[int(next(at)) for _ in range(int(next(at)))] for _ in range(int(next(at)))]
    out = []
    for scope in scopes:
        values = [float(next(at)) for _ in range(int(next(at)))]
        with np.errstate(divide="ignore"):
            logs = values if name.endswith(".LG") else np.log(values).tolist()
        out.append((scope, logs))
    return out
