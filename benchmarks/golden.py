"""A golden record: answers to a fixed, seeded set, bit for bit, to compare two states of the code.

    python -m benchmarks.golden write FILE.json
    python -m benchmarks.golden compare A.json B.json

Only public names and the command `cmpe` are used, and no timing is kept. Numbers are written in
hexadecimal, so that equal means equal in every bit. `--only PREFIX` takes the entries whose key
begins so: solve, wide, running, bound, models, train, study.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
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

BOUNDS = ("lagrangian", "minibucket", "splitting", "messages", "knapsack")
LOSSES = (
    "mse", "mae", "mse_pen", "mae_pen", "ssl_pen", "pdl", "ss_cmpe", "ss_cmpe_pen", "distill",
    "distill_pen",
)  # fmt: skip
ANSWER = ("assignments", "objective", "constraint_values", "bound", "method")
TIMED = ("seconds", "batch", "single", "latency")  # beginnings or ends of what is never kept
ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def plain(value: Any) -> Any:
    """The value for a JSON file: floats in hexadecimal, rows of whole numbers as one string."""
    import numpy as np

    if isinstance(value, np.ndarray):
        if value.ndim == 2 and value.dtype.kind in "iu":
            return [" ".join(map(str, row)) for row in value.tolist()]
        return plain(value.tolist())
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items() if not is_timing(str(k))}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float | np.floating):
        return float(value).hex()
    return int(value) if isinstance(value, np.integer) else value


def is_timing(name: str) -> bool:
    """Whether a field holds times."""
    return name.startswith(TIMED) or name.endswith(TIMED)


def digest(array: Any) -> str:
    """A hash of an array's type, shape and bytes."""
    import numpy as np

    values = np.ascontiguousarray(array)
    head = f"{values.dtype.str} {values.shape} ".encode()
    return hashlib.sha256(head + values.tobytes()).hexdigest()


def answer(found: cmpe.Solutions) -> Entry:
    """What is kept of answers."""
    kept = {name: plain(getattr(found, name)) for name in ANSWER}
    return {**kept, "status": found.labels}


def solved(case: Case, method: Any, **told: Any) -> Entry:
    """The answers to a case, or that it is refused."""
    import cmpe

    try:
        return answer(cmpe.solve(case.problem, case.rows, method=method, **told))
    except cmpe.CmpeError:
        return {"refused": True}


@cache
def missing(method: str) -> bool:
    """Whether a method's package or licence is not there: it cannot answer the least problem."""
    import cmpe

    h = cmpe.LogLinearModel.from_tables([2, 2], [((0, 1), [[0, 2], [3, 1]])])
    try:
        return cmpe.solve(cmpe.queries.mpe(h), method=method).labels != ["optimal"]
    except cmpe.CmpeError:
        return True


def methods() -> Iterator[str]:
    """Every method that can run here and ends by itself."""
    import cmpe

    loose = {"local", "search", "lagrangian"}  # they prove nothing
    endless = {"toulbar2:vac", "toulbar2:vns"}  # on some small problems they do not end
    names = (name for name in cmpe.METHODS if name not in endless)
    return (name for name in names if name in loose or not missing(name))


def solve_entries() -> Entries:
    """Every method on small problems of every kind."""
    import cmpe
    from benchmarks import golden_cases as cases

    for method in set(cmpe.METHODS) - set(methods()):
        yield f"solve/{method}", {"skipped": True}
    groups = (cases.random_cases, cases.odd_cases, cases.learned_cases, cases.neural_cases)
    for case in (case for group in groups for case in group()):
        for method in methods():
            yield f"solve/{method}/{case.name}", solved(case, method, seed=3)
        yield f"solve/auto-gap/{case.name}", solved(case, "auto", gap=0.5)


def wide_entries() -> Entries:
    """Grids beyond cheap elimination, without a time limit."""
    from benchmarks import golden_cases as cases

    for case in (cases.ising(14, 5), cases.ising(20, 6), cases.ising(20, 7, 80, 3)):
        for method in ("local", "search", "lagrangian", "auto"):
            yield f"wide/{method}/{case.name}", solved(case, method)
        for gap in (0.05, 2.0, 20.0):
            yield f"wide/auto-gap-{gap:g}/{case.name}", solved(case, "auto", gap=gap)


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
        for method in ("exact", "local", "search", "lagrangian", "milp"):
            begun = cmpe.Running(start=start)
            yield f"running/start/{method}/{case.name}", solved(case, method, running=begun)
            wide = cmpe.Running(threads=2)
            yield f"running/threads/{method}/{case.name}", solved(case, method, running=wide)
        pair = cmpe.Running(workers=2)
        yield f"running/workers/milp/{case.name}", solved(case, "milp", running=pair)
    problem, images = cases.adversarial(43, (6, 8, 3), 3)
    start = np.concatenate([images, 1.0 - images], axis=1)
    case = cases.Case("adversarial", problem, images)
    for method in ("local", "milp"):
        for name, how in (("start", {"start": start}), ("threads", {"threads": 2})):
            told: Any = cmpe.Running(**how)
            yield f"running/{name}/{method}/adversarial", solved(case, method, running=told)


def command(*arguments: str | Path) -> list[Entry]:
    """Run `cmpe` and read the JSON lines that it prints."""
    tool = Path(sys.executable).with_name("cmpe")
    done = subprocess.run([tool, *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode:
        return [{"exit": done.returncode}]
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return [plain(json.loads(line)) for line in lines]


def bound_entries() -> Entries:
    """`cmpe bound` and `cmpe solve` on problem directories."""
    import cmpe
    from benchmarks import golden_cases as cases

    kinds = [cases.Kind(f"bounded-{m}", zeros=0.05, constraints=m) for m in (1, 2)]
    chosen = [cases.random_case(kind, 1) for kind in kinds]
    chosen += [cases.ising(16, 4, 20, 4), list(cases.learned_cases())[1]]
    for case in chosen:
        with tempfile.TemporaryDirectory() as folder:
            rows = case.rows
            cmpe.write_directory(cmpe.ProblemDirectory(case.problem, rows[:2], rows), folder)
            again = cmpe.read_directory(folder)
            yield f"bound/read/{case.name}", {"test": plain(again.test)}
            for name in BOUNDS:
                found = command("bound", folder, "--method", name)
                yield f"bound/{name}/{case.name}", {"rows": found}
            yield f"bound/solve/{case.name}", {"rows": command("solve", folder, "--format", "json")}


def model_entries() -> Entries:
    """Learning, sampling, generation and evaluation."""
    import numpy as np

    import cmpe
    from benchmarks import golden_cases as cases

    models = cases.learned_models()
    for name, model in models.items():
        points = cases.uniform(np.random.default_rng(51), model.cardinalities, 30)
        drawn = cmpe.sample(model, 50, 7)
        kept = {"values": plain(model.value(points)), "sampler": drawn.sampler}
        yield f"models/{name}", {**kept, "sample": digest(drawn.assignments)}
    grid: Any = cases.ising(5, 52).problem.objective
    wide = cmpe.sample(cases.ising(12, 53).problem.objective, 8, 5, memory_limit=1 << 14)
    yield "models/gibbs", {"sampler": wide.sampler, "rows": plain(wide.assignments)}
    for name, model in (("grid", grid), ("cutset", models["cutset"]), ("tables", models["tables"])):
        made = cmpe.generate(model, cmpe.Recipe(samples=60, seed=4, percentile=30), name=name)
        yield f"models/generate/{name}", _generated(made)
        yield f"models/evaluate/{name}", _evaluated(made)


def _generated(made: Any) -> Entry:
    """The hashes of what generation made."""
    with tempfile.TemporaryDirectory() as folder:
        import cmpe

        content = cmpe.ProblemDirectory(made.problem, made.train, made.test, made.provenance)
        cmpe.write_directory(content, folder)
        files = {
            file.name: hashlib.sha256(file.read_bytes()).hexdigest()
            for file in sorted(Path(folder).iterdir())
            if file.suffix in (".uai", ".npy")
        }
    about = {"limits": plain(made.problem.limits), "quantiles": digest(made.quantiles)}
    rows = {"train": digest(made.train), "test": digest(made.test)}
    observed = list(made.problem.evidence_variables)
    return {**about, **rows, "files": files, "observed": observed}


def _evaluated(made: Any) -> Entry:
    """How local search fares against proved optima."""
    import cmpe

    against = cmpe.reference(made.problem, made.test)
    found = cmpe.evaluate(cmpe.solve(made.problem, made.test, method="local"), against)
    every, constrained = found.every.to_json(), found.constrained.to_json()
    return {"every": plain(every), "constrained": plain(constrained)}


def train_entries() -> Entries:
    """Three epochs of every loss and network, of every head, and one cross-validation."""
    import cmpe
    from benchmarks import golden_cases as cases

    small = cmpe.TrainingConfig(epochs=3, hidden=(12, 8), batch_size=16, seed=2, skip=True)
    recipe = cmpe.Recipe(samples=60, seed=6, percentile=40)
    grid: Any = cases.ising(4, 61).problem.objective
    tables = cmpe.generate(grid, recipe)
    several = replace(small, margins=(0.0, 1.0), predict_multiplier=True)
    for loss in LOSSES:
        mlp = replace(several, loss=loss, beta=2.0, mix=0.5)
        yield from trained(f"grid/mlp/{loss}", tables, mlp)
        unrolled = replace(small, loss=loss, network="unrolled", steps=2, temperature=0.5)
        yield from trained(f"grid/unrolled/{loss}", tables, unrolled)
    more = replace(several, mask_inputs=True, gamma=0.1, cooldown=0.5, plateau_patience=0)
    yield from trained("grid/mlp/options", tables, more)
    for name in ("cutset", "tables"):
        made = cmpe.generate(cases.learned_models()[name], recipe)
        for loss in ("ss_cmpe", "distill"):
            yield from trained(f"{name}/mlp/{loss}", made, replace(several, loss=loss))
    yield from _neural_training(small)
    numbers = {"beta": (0.5, 5.0), "rho": (0.1, 1.0)}
    chosen = cmpe.cross_validate(
        tables.problem, tables.train[:20], numbers, replace(small, loss="ss_cmpe_pen")
    )
    yield "train/cross-validation", {"trials": [plain(vars(trial)) for trial in chosen.trials]}


def _neural_training(small: cmpe.TrainingConfig) -> Entries:
    """Adversarial problems with each head, and a neural constraint."""
    import numpy as np

    import cmpe
    from benchmarks import golden_cases as cases

    problem, drawn = cases.adversarial(62, (8, 10, 3), 60)
    images: Any = drawn
    made = cmpe.ProblemDirectory(problem, images[:50], images[50:])
    for head in ("plain", "residual", "linear"):
        for loss in ("mse_pen", "ss_cmpe_pen", "distill_pen"):
            if head == "linear" or loss != "distill_pen":
                config = replace(
                    small, head=head, loss=loss, beta=1.0, mix=2.0, skip=head == "residual"
                )
                yield from trained(f"adversarial/{head}/{loss}", made, config)
    case = next(cases.neural_cases())
    rows = cases.uniform(np.random.default_rng(63), (3, 2), 30)
    made = cmpe.ProblemDirectory(case.problem, rows[:24], rows[24:])
    for loss in ("mse", "ss_cmpe"):
        yield from trained(f"neural/mlp/{loss}", made, replace(small, loss=loss))


def trained(name: str, made: Any, config: cmpe.TrainingConfig) -> Entries:
    """Train, keep the run's files without timings, and answer with and without what follows."""
    import cmpe

    with tempfile.TemporaryDirectory() as folder:
        try:
            cmpe.fit(made.problem, made.train, config, cmpe.Session(out=Path(folder)))
        except cmpe.CmpeError:
            yield f"train/{name}", {"refused": True}
            return
        yield f"train/{name}", _run_files(Path(folder))
        solver = cmpe.NeuralSolver.load(folder, made.problem)
    stages: dict[str, dict[str, Any]] = {
        "whole": {},
        "alone": {"repair": False, "certificate": "none"},
        "predicted": {"repair": False, "certificate": "predicted"},
        "margins": {"margins": (0.0, 0.5), "sweeps": 0, "certificate": "none"},
        "search": {"search_passes": 2, "certificate": "none"},
    }
    for stage, told in stages.items():
        try:
            found = solver.with_stages(**told).solve(made.problem, made.test)
            yield f"train/{name}/{stage}", answer(found)
        except cmpe.CmpeError:
            yield f"train/{name}/{stage}", {"refused": True}


def _run_files(folder: Path) -> Entry:
    """Hashes of the weights, the calibration and the log of a run."""
    from safetensors.numpy import load_file

    weights = load_file(folder / "weights.safetensors")
    about = json.loads((folder / "config.json").read_text())
    log = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return {
        "weights": {key: digest(weights[key]) for key in sorted(weights)},
        "calibration": plain(about["calibration"]),
        "problem": about["problem_sha256"],
        "log": plain(log),
    }


def study_entries() -> Entries:
    """One small study of adversarial examples."""
    import numpy as np

    chosen = "ilp,copy,ss_cmpe_pen,residual,linear,linear+search,linear+refine,attack,attack+8bit"
    with tempfile.TemporaryDirectory() as folder:
        told = ("--rows", "40", "--epochs", "2", "--few", "2", "--hidden", "16")
        wanted = ("--methods", chosen, "--format", "json", "--time-limit", "600")
        table = command("adversarial", "--data", "digits", "--out", folder, *told, *wanted)
        for row in table:
            yield f"study/table/{row.get('method')}", row
        for file in sorted(Path(folder).rglob("*.npz")):
            with np.load(file) as arrays:
                kept = {key: digest(arrays[key]) for key in arrays.files if not is_timing(key)}
            yield f"study/{file.relative_to(folder)}", kept
        for file in sorted(Path(folder).rglob("weights.safetensors")):
            yield f"study/{file.parent.relative_to(folder)}", _run_files(file.parent)


SECTIONS: dict[str, Callable[[], Entries]] = {
    "solve": solve_entries,
    "wide": wide_entries,
    "running": running_entries,
    "bound": bound_entries,
    "models": model_entries,
    "train": train_entries,
    "study": study_entries,
}


def write(path: Path, only: str) -> int:
    """Solve the set and write the record."""
    warnings.simplefilter("ignore")
    record: dict[str, Entry] = {}
    for name, entries in SECTIONS.items():
        if not only.startswith(name) and not name.startswith(only):
            continue
        begin, before = time.monotonic(), len(record)
        record.update((key, entry) for key, entry in entries() if key.startswith(only))
        spent = time.monotonic() - begin
        print(f"{name}: {len(record) - before} entries, {spent:.0f} s", file=sys.stderr)
    path.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
    return 0


def differences(first: Any, second: Any, place: str = "") -> Iterator[str]:
    """Each place where two entries differ, with both values."""
    if isinstance(first, dict) and isinstance(second, dict):
        for key in sorted(first.keys() | second.keys()):
            yield from differences(first.get(key), second.get(key), f"{place}.{key}".strip("."))
    elif isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        for number, pair in enumerate(zip(first, second, strict=True)):
            yield from differences(*pair, f"{place}[{number}]")
    elif first != second:
        yield f"{place}: {_shown(first)} != {_shown(second)}"


def _shown(value: Any) -> str:
    """A value for a person: numbers also in decimals."""
    if isinstance(value, str) and "0x" in value:
        return f"{value} ({float.fromhex(value):.17g})"
    text = json.dumps(value)
    return text if len(text) <= 100 else f"{text[:97]}..."


def compare(first: Path, second: Path, only: str) -> int:
    """Print each entry that differs; 1 if any does."""
    a, b = (
        {key: entry for key, entry in json.loads(path.read_text()).items() if key.startswith(only)}
        for path in (first, second)
    )
    odd = 0
    for key in sorted(a.keys() | b.keys()):
        if a.get(key) == b.get(key):
            continue
        odd += 1
        if key in a and key in b:
            print(f"{key}: {'; '.join(list(differences(a[key], b[key]))[:4])}")
        else:
            print(f"{key}: only in {first if key in a else second}")
    print(f"{odd} entries differ" if odd else f"{len(a)} entries equal")
    return int(odd > 0)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.golden", description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True)
    for name, files in (("write", ("file",)), ("compare", ("first", "second"))):
        action = actions.add_parser(name)
        for file in files:
            action.add_argument(file, type=Path)
        action.add_argument("--only", default="", help="entries whose key begins so")
    told = parser.parse_args()
    if told.action == "compare":
        return compare(told.first, told.second, told.only)
    for variable in ONE_THREAD:  # before numpy and torch are loaded
        os.environ[variable] = "1"
    return write(told.file, told.only)


if __name__ == "__main__":
    sys.exit(main())
