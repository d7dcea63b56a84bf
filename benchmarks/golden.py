"""A golden record: answers to a fixed, seeded set of problems, to compare two states of the code.

    python -m benchmarks.golden write FILE.json [--only SECTION ...]
    python -m benchmarks.golden compare OLD.json NEW.json [--only SECTION ...]

Sections: solve, wide, running, bound, explore, models, train. No timing is kept, and only public
names are used, so that this module also drives another checkout:

    PYTHONPATH=OTHER/src:. python -m benchmarks.golden write FILE.json

An entry is one of three kinds:

- `proof`: what methods that prove return, bounds, fronts, the best answers, sensitivities. Statuses
  are equal; numbers are equal to 1e-9 of 1 + their size. Assignments are not kept: optima may tie.
- `value`: numbers of models and hashes of samples; equal in the same way.
- `answer`: what heuristics and trained networks return. Where they differ, `compare` prints the
  mean objective that NEW loses on the rows that are feasible in both, and how many rows are
  feasible in one alone.

`compare` exits with 1 where a proof or a value differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import cmpe
    from benchmarks.golden_cases import Case

Entry = dict[str, Any]
Entries = Iterator[tuple[str, Entry]]

TOLERANCE = 1e-9  # of 1 + the size of a number
BOUNDS = ("lagrangian", "minibucket", "splitting", "messages", "knapsack", "rlt")
LOSSES = (
    "mse", "mae", "mse_pen", "mae_pen", "ssl_pen", "pdl", "ss_cmpe", "ss_cmpe_pen", "distill",
)  # fmt: skip
ENDLESS = ("toulbar2:vac", "toulbar2:vns")  # on some small problems they do not end
REFUSED: Entry = {"kind": "value", "refused": True}
SHOWN = 3  # differences of an entry that are printed
ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def plain(value: Any) -> Any:
    """The value for a JSON file."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def digest(array: Any) -> str:
    """A hash of an array's type, shape and bytes."""
    import numpy as np

    values = np.ascontiguousarray(array)
    head = f"{values.dtype.str} {values.shape} ".encode()
    return hashlib.sha256(head + values.tobytes()).hexdigest()


def answer(found: cmpe.Solutions, kind: str = "answer") -> Entry:
    """What is kept of answers."""
    kept = {"kind": kind, "status": found.labels, "objective": plain(found.objective)}
    return {**kept, "bound": plain(found.bound)} if kind == "proof" else kept


def solved(case: Case, method: str, **options: Any) -> Entry:
    """The answers to a case, or that it is refused."""
    import cmpe

    proves = cmpe.METHODS[method].proves and "gap" not in options
    try:
        found = cmpe.solve(case.problem, case.rows, method=method, **options)
    except cmpe.CmpeError:
        return REFUSED
    return answer(found, "proof" if proves else "answer")


@cache
def missing(method: str) -> bool:
    """Whether a method's package or licence is not there: it cannot answer the least problem."""
    import cmpe

    h = cmpe.LogLinearModel.from_tables([2, 2], [((0, 1), [[0, 2], [3, 1]])])
    try:
        labels = cmpe.solve(cmpe.queries.mpe(h), method=method).labels
    except cmpe.CmpeError:
        return True
    return cmpe.METHODS[method].proves and labels != ["optimal"]


def solve_entries() -> Entries:
    """Every method on small problems of every kind."""
    import cmpe
    from benchmarks import golden_cases as cases

    methods = [m for m in cmpe.METHODS if m not in ENDLESS and not missing(m)]
    groups = (cases.random_cases, cases.odd_cases, cases.learned_cases, cases.neural_cases)
    for case in (case for group in groups for case in group()):
        for method in methods:
            yield f"{method}/{case.name}", solved(case, method, seed=3)
        yield f"auto-gap/{case.name}", solved(case, "auto", gap=0.5)


def wide_entries() -> Entries:
    """Grids beyond cheap elimination, without a time limit."""
    from benchmarks import golden_cases as cases

    for case in (cases.ising(14, 5), cases.ising(20, 6), cases.ising(20, 7, 80, 3)):
        for method in ("local", "search", "lagrangian", "auto"):
            yield f"{method}/{case.name}", solved(case, method)
        for gap in (0.05, 2.0, 20.0):
            yield f"auto-gap-{gap:g}/{case.name}", solved(case, "auto", gap=gap)


def running_entries() -> Entries:
    """Starts, threads and workers."""
    import numpy as np

    import cmpe
    from benchmarks import golden_cases as cases

    rows = cases.random_case(cases.Kind("running", zeros=0.05, rows=70), 1)
    for case in (rows, cases.ising(14, 8, 30, 4)):
        count = len(case.problem.given(case.rows))
        rng = np.random.default_rng(9)
        start = cases.uniform(rng, case.problem.objective.cardinalities, count)
        start[1] = -1
        ways = {"start": cmpe.Running(start=start), "threads": cmpe.Running(threads=2)}
        for method in ("exact", "local", "search", "lagrangian", "milp"):
            for name, running in ways.items():
                yield f"{method}-{name}/{case.name}", solved(case, method, running=running)
        yield f"milp-workers/{case.name}", solved(case, "milp", running=cmpe.Running(workers=2))


def bound_entries() -> Entries:
    """Every bound, where it takes the problem."""
    import cmpe
    from benchmarks import golden_cases as cases

    kinds = [cases.Kind(f"bounded-{m}", zeros=0.05, constraints=m) for m in (0, 1, 2)]
    chosen = [cases.random_case(kind, 1) for kind in kinds]
    chosen += [cases.ising(16, 4, 20, 4), *cases.learned_cases(), *cases.neural_cases()]
    for case in chosen:
        for name in BOUNDS:
            try:
                upper = cmpe.bound(case.problem, case.rows, method=name).upper
                yield f"{name}/{case.name}", {"kind": "proof", "bound": plain(upper)}
            except cmpe.CmpeError:
                yield f"{name}/{case.name}", REFUSED


def explore_entries() -> Entries:
    """Fronts, the best answers and sensitivities, where elimination fits."""
    import cmpe
    from benchmarks import golden_cases as cases

    for case in (*cases.random_cases(), *cases.odd_cases(), *cases.learned_cases()):
        asked = case.problem, case.rows
        for distance in (None, 2):
            if distance and "ties" in case.name:
                continue  # which of two equal answers is taken decides what is far from it
            ranked = cmpe.best(*asked, 10, distance=distance)
            kept = [[row.complete, row.objective] for row in ranked]
            yield f"best-{distance}/{case.name}", {"kind": "proof", "rows": plain(kept)}
        for over in range(len(case.problem.constraints)):
            fronts = cmpe.front(*asked, over=over)
            kept = [[row.complete, row.objective, row.values] for row in fronts]
            yield f"front-{over}/{case.name}", {"kind": "proof", "rows": plain(kept)}
        regrets = [list(row.regrets.values()) for row in cmpe.sensitivity(*asked)]
        yield f"sensitivity/{case.name}", {"kind": "proof", "rows": plain(regrets)}


def model_entries() -> Entries:
    """Learning, sampling and generation."""
    import numpy as np

    import cmpe
    from benchmarks import golden_cases as cases

    models = cases.learned_models()
    for name, model in models.items():
        points = cases.uniform(np.random.default_rng(51), model.cardinalities, 30)
        drawn = cmpe.sample(model, 50, 7)
        kept = {"values": plain(model.value(points)), "sampler": drawn.sampler}
        yield name, {"kind": "value", **kept, "sample": digest(drawn.assignments)}
    grid: Any = cases.ising(5, 52).problem.objective
    wide = cmpe.sample(cases.ising(12, 53).problem.objective, 8, 5, memory_limit=1 << 14)
    kept = {"sampler": wide.sampler, "sample": digest(wide.assignments)}
    yield "gibbs", {"kind": "value", **kept}
    for name, model in (("grid", grid), ("cutset", models["cutset"]), ("tables", models["tables"])):
        made = cmpe.generate(model, cmpe.Recipe(samples=60, seed=4, percentile=30), name=name)
        observed = list(made.problem.evidence_variables)
        kept = {"limits": plain(made.problem.limits), "observed": observed}
        kept |= {"train": digest(made.train), "test": digest(made.test)}
        yield f"generate/{name}", {"kind": "value", **kept}


def train_entries() -> Entries:
    """Three epochs of every loss and of every head."""
    import cmpe
    from benchmarks import golden_cases as cases

    small = cmpe.TrainingConfig(epochs=3, hidden=(12, 8), batch_size=16, seed=2, skip=True)
    recipe = cmpe.Recipe(samples=60, seed=6, percentile=40)
    grid: Any = cases.ising(4, 61).problem.objective
    tables = cmpe.generate(grid, recipe)
    several = replace(small, margins=(0.0, 1.0), predict_multiplier=True)
    for loss in LOSSES:
        mlp = replace(several, loss=loss, beta=2.0)
        yield from trained(f"mlp-{loss}/grid", tables, mlp)
    for name in ("cutset", "tables"):
        made = cmpe.generate(cases.learned_models()[name], recipe)
        for loss in ("ss_cmpe", "distill"):
            yield from trained(f"mlp-{loss}/{name}", made, replace(several, loss=loss))
    problem, drawn = cases.adversarial(62, (8, 10, 3), 60)
    images: Any = drawn
    directory = cmpe.ProblemDirectory(problem, images[:50], images[50:])
    for head in ("plain", "residual"):
        config = replace(small, head=head, loss="ss_cmpe_pen", beta=1.0, skip=head == "residual")
        yield from trained(f"{head}-ss_cmpe_pen/adversarial", directory, config)


def trained(name: str, made: Any, config: cmpe.TrainingConfig) -> Entries:
    """What a trained network answers, with repair and without."""
    import cmpe

    with tempfile.TemporaryDirectory() as folder:
        cmpe.fit(made.problem, made.train, config, cmpe.Session(out=Path(folder)))
        solver = cmpe.NeuralSolver.load(folder, made.problem)
    yield name, answer(solver.solve(made.problem, made.test))
    alone = solver.with_stages(repair=False, certificate="none")
    yield f"{name}/alone", answer(alone.solve(made.problem, made.test))


SECTIONS: dict[str, Callable[[], Entries]] = {
    "solve": solve_entries,
    "wide": wide_entries,
    "running": running_entries,
    "bound": bound_entries,
    "explore": explore_entries,
    "models": model_entries,
    "train": train_entries,
}


def write(path: Path, sections: list[str]) -> int:
    """Solve the set and write the record."""
    warnings.simplefilter("ignore")
    record: dict[str, Entry] = {}
    for section in sections:
        begin, before = time.process_time(), len(record)
        record.update((f"{section}/{key}", entry) for key, entry in SECTIONS[section]())
        spent = time.process_time() - begin
        print(f"{section}: {len(record) - before} entries, {spent:.0f} s of CPU", file=sys.stderr)
    path.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return 0


def differences(first: Any, second: Any, place: str = "") -> Iterator[str]:
    """Each place where two entries differ by more than the tolerance, with both values."""
    if isinstance(first, dict) and isinstance(second, dict):
        for key in sorted(first.keys() | second.keys()):
            yield from differences(first.get(key), second.get(key), f"{place}.{key}".strip("."))
    elif isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        for number, pair in enumerate(zip(first, second, strict=True)):
            yield from differences(*pair, f"{place}[{number}]")
    elif not _equal(first, second):
        yield f"{place}: {json.dumps(first)[:60]} != {json.dumps(second)[:60]}"


def _equal(first: Any, second: Any) -> bool:
    if not (isinstance(first, float) and isinstance(second, float | int)):
        return bool(first == second)
    if not (math.isfinite(first) and math.isfinite(second)):
        return first == second or (math.isnan(first) and math.isnan(second))
    return abs(first - second) <= TOLERANCE * (1.0 + abs(first))


def losses(first: Entry, second: Entry) -> tuple[list[float], int]:
    """What each row that both answer loses, and how many rows one of them alone answers."""
    pairs = [
        tuple(h if s in ("optimal", "feasible") else None for h, s in rows)
        for rows in zip(
            *(zip(e["objective"], e["status"], strict=True) for e in (first, second)), strict=True
        )
    ]
    both = [a - b for a, b in pairs if a is not None and b is not None]
    return both, sum((a is None) != (b is None) for a, b in pairs)


def compare(paths: list[Path], sections: list[str]) -> int:
    """Print what differs; 1 if a proof or a value does."""
    a, b = (json.loads(path.read_text(encoding="utf-8")) for path in paths)
    lost: dict[str, list[float]] = defaultdict(list)
    changed: dict[str, int] = defaultdict(int)
    odd, equal = 0, 0
    for key in sorted(k for k in a.keys() | b.keys() if k.split("/")[0] in sections):
        if key in a and key in b and a[key]["kind"] == b[key]["kind"] == "answer":
            group = "/".join(key.split("/")[:2])
            rows, alone = losses(a[key], b[key])
            lost[group] += rows
            changed[group] += alone
        elif found := list(differences(a.get(key), b.get(key))):
            odd += 1
            print(f"{key}: {'; '.join(found[:SHOWN])}")
        else:
            equal += 1
    means = {group: sum(rows) / max(1, len(rows)) for group, rows in lost.items()}
    for group in sorted(group for group in lost if means[group] or changed[group]):
        print(
            f"{group}: mean loss {means[group]:.3g} nats, feasibility of {changed[group]} changed"
        )
    same = sum(not (means[group] or changed[group]) for group in lost)
    print(f"{equal} proofs and values equal, {odd} differ; {same} groups of answers equal")
    return int(odd > 0)


def main() -> int:
    """Run the command line."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("action", choices=["write", "compare"])
    options.add_argument("files", type=Path, nargs="+")
    options.add_argument("--only", nargs="+", choices=list(SECTIONS), default=list(SECTIONS))
    chosen = options.parse_args()
    if len(chosen.files) != (1 if chosen.action == "write" else 2):
        options.error("write takes one file, compare takes two")
    if chosen.action == "compare":
        return compare(chosen.files, chosen.only)
    for variable in ONE_THREAD:  # before numpy and torch are loaded
        os.environ[variable] = "1"
    return write(chosen.files[0], chosen.only)


if __name__ == "__main__":
    sys.exit(main())
