"""Table: every Bayesian network that comes with pgmpy, from its BIF file to proved answers.

    python -m benchmarks.real_networks [--rows 200] [--networks alarm hepar2 ...] [--limit 20]
                                       [--budget 60] [--reading]

Of each network: CPU seconds to read the file, beside splitting its text and pyAgrum's reader; the
largest difference from pyAgrum's values over 1,000 assignments, most of them sampled; then seconds
a row of MPE with 20 named findings, given as a DataFrame with NaN where unknown, beside pyAgrum's
and pgmpy's MPE, toulbar2 and HiGHS on the first rows; and the same with two constraints, a limit on
t, a noisy copy of the network, and on a count of findings, beside toulbar2 and HiGHS. Objectives
are compared: `agree` says of how many of the rows that both answered they are equal within 1e-4
nats. Where `--rows` rows would take more than `--budget` seconds, judged by the first row, there
are fewer of them, and a row that is not proved in half the budget is answered with its bound: `gap`
is the mean distance of the bounds, in nats.
"""

from __future__ import annotations

import resource
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from graphlib import TopologicalSorter
from importlib.util import find_spec
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import cmpe
from benchmarks.frame import Recorder, parser, print_table
from cmpe.formats.tables.bayes import conditionals
from cmpe.formats.text import read_text

FINDINGS = 20
_FORK = get_context("fork")
OTHERS_ROWS = 2  # rows that other solvers get
MOST_BYTES = 8 << 30  # and memory
COLUMNS = (
    "network", "variables", "question", "solver", "rows", "proved", "gap", "seconds_a_row", "agree",
)  # fmt: skip
READING = ("network", "bytes", "read_s", "split_s", "pyagrum_s", "agree", "difference")


def folder() -> Path:
    """Where pgmpy keeps its networks."""
    spec = find_spec("pgmpy")
    if spec is None or spec.origin is None:
        sys.exit("pgmpy is not installed: pip install 'cmpe[interop]'")
    return Path(spec.origin).parent / "utils" / "example_models"


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser(__doc__)
    options.add_argument("--rows", type=int, default=200, help="rows of each network")
    options.add_argument("--budget", type=float, default=60.0, help="seconds for them, about")
    options.add_argument("--limit", type=float, default=20.0, help="seconds a row for others")
    options.add_argument("--networks", nargs="*", help="names; default: all, smallest file first")
    options.add_argument("--reading", action="store_true", help="read the files, solve nothing")
    chosen = options.parse_args(arguments)
    files = sorted(folder().glob("*.bif.gz"), key=lambda file: file.stat().st_size)
    wanted = [f for f in files if not chosen.networks or _name(f) in chosen.networks]
    with warnings.catch_warnings():  # imports warn, and take seconds that are nobody's
        warnings.simplefilter("ignore")
        import pgmpy.inference  # noqa: F401
        import pyagrum  # noqa: F401
    with Recorder("real_networks", chosen, data="the BIF files of pgmpy") as recorder:
        for file in wanted:
            model = cmpe.read_model(file).to_model()
            recorder.add(
                network=_name(file), question="reading", **_reading(file, model, chosen.seed)
            )
            for record in [] if chosen.reading else _solving(file, model, chosen):
                recorder.add(network=_name(file), variables=model.variables, **record)
                print_table([recorder.records[-1]], COLUMNS)
    readings = [r for r in recorder.records if r["question"] == "reading"]
    print_table(readings, READING)
    print_table([r for r in recorder.records if r["question"] != "reading"], COLUMNS)
    return 0


def _name(file: Path) -> str:
    return file.name.partition(".")[0]


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    begin = time.process_time()
    found = work()
    return found, time.process_time() - begin


def sampled(model: cmpe.LogLinearModel, count: int, seed: int) -> Any:
    """Assignments (count, n) drawn from a Bayesian network, parents first."""
    rng = np.random.default_rng(seed)
    parts = conditionals(model, "the network")
    rows = np.zeros((count, model.variables), dtype=np.int64)
    order = TopologicalSorter({p.child: p.parents for p in parts}).static_order()
    for v in order:
        part = parts[v]
        shares = np.broadcast_to(
            part.table[tuple(rows[:, u] for u in part.parents)], (count, part.table.shape[-1])
        )
        drawn = rng.random((count, 1)) * shares.sum(axis=1, keepdims=True)
        rows[:, v] = (shares.cumsum(axis=1) < drawn).sum(axis=1)
    return rows


def pyagrum_network(file: Path) -> Any:
    """pyAgrum's network, read from an unpacked copy of the file."""
    import tempfile

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pyagrum

    with tempfile.TemporaryDirectory() as place:
        plain = Path(place) / f"{_name(file)}.bif"
        plain.write_text(read_text(file, encoding="utf-8"), encoding="utf-8")
        return pyagrum.loadBN(str(plain))


def _reading(file: Path, model: cmpe.LogLinearModel, seed: int) -> dict[str, Any]:
    text = read_text(file, encoding="utf-8")
    _, ours = _timed(lambda: cmpe.read_model(file))
    _, split = _timed(text.split)
    record = {"bytes": len(text), "read_s": ours, "split_s": split}
    try:
        network, theirs = _timed(lambda: pyagrum_network(file))
    except Exception as error:  # whatever the other package raises is its outcome
        return {**record, "agree": f"pyAgrum: {type(error).__name__}"}
    rng = np.random.default_rng(seed)
    rows = sampled(model, 1000, seed)
    rows[:200] = rng.integers(0, model.cardinalities, (200, model.variables))
    other = cmpe.LogLinearModel.from_pyagrum(network)
    both = cmpe.Problem(model, [other <= 0.0])  # joined by name
    first, second = (f.value(rows) for f in both.functions)
    same = bool((np.isfinite(first) == np.isfinite(second)).all())
    known = np.isfinite(first) & np.isfinite(second)
    first, second = first[known], second[known]
    return {
        **record,
        "pyagrum_s": theirs,
        "agree": same,
        "difference": float(np.abs(first - second).max(initial=0.0)),
    }


def evidence(model: cmpe.LogLinearModel, count: int, seed: int) -> pd.DataFrame:
    """Findings about 20 variables by name; in three of four rows one of them is unknown."""
    rng = np.random.default_rng(seed)
    chosen = rng.choice(model.variables, min(FINDINGS, 3 * model.variables // 4), replace=False)
    rows = sampled(model, count, seed + 1)
    cells = {model.names[v]: [model.domain.states_of(v)[s] for s in rows[:, v]] for v in chosen}
    frame = pd.DataFrame(cells).astype(object)
    for k in (1, 2, 3):
        frame.iloc[k::4, k % frame.shape[1]] = np.nan
    return frame


def problems(model: cmpe.LogLinearModel, seed: int) -> dict[str, cmpe.Problem]:
    """MPE, and MPE under two constraints."""
    noisy = model.perturb(0.1, seed)
    limit = float(np.median(noisy.value(sampled(model, 100, seed + 2))))
    rare = {name: model.domain.states_of(v)[-1] for v, name in enumerate(model.names)}
    most = max(1, model.variables // 2)
    limits = [noisy <= limit, cmpe.count(rare) <= most]
    return {"mpe": cmpe.Problem(model), "constrained": cmpe.Problem(model, limits)}


def _solving(file: Path, model: cmpe.LogLinearModel, chosen: Any) -> Iterator[dict[str, Any]]:
    rows = evidence(model, chosen.rows, chosen.seed)
    longest = chosen.budget / 2
    for question, problem in problems(model, chosen.seed).items():
        cmpe.solve(problem, rows[:1], time_limit=min(1.0, longest))  # compiled code is loaded
        begin = time.perf_counter()
        answers = cmpe.solve(problem, rows[:1], time_limit=longest)
        seconds = time.perf_counter() - begin
        count = min(chosen.rows, int(chosen.budget / seconds))
        if count > 1:
            begin = time.perf_counter()
            answers = cmpe.solve(problem, rows[:count], time_limit=longest)
            seconds = time.perf_counter() - begin
        gaps = answers.gap[np.isfinite(answers.gap)]
        yield {
            "question": question,
            "solver": "cmpe",
            "rows": len(answers),
            "proved": sum(label in ("optimal", "infeasible") for label in answers.labels),
            "gap": float(gaps.mean()) if len(gaps) else None,
            "seconds_a_row": seconds / len(answers),
        }
        few = rows[:OTHERS_ROWS]
        others = {m: _ours(m, problem, few, chosen.limit) for m in ("milp:highs", "toulbar2")}
        if question == "mpe":
            others["pyagrum"] = partial(pyagrum_mpe, file, model, few)
            others["pgmpy"] = partial(_pgmpy_mpe, model, few)
        for name, work in others.items():
            yield _beside(question, name, work, answers, chosen.limit)


def _ours(
    method: str, problem: cmpe.Problem, rows: pd.DataFrame, limit: float
) -> Callable[[], list[float]]:
    def work() -> list[float]:
        found = cmpe.solve(problem, rows, method=method, time_limit=limit)
        pairs = zip(found.objective.tolist(), found.labels, strict=True)
        return [h if label == "optimal" else np.nan for h, label in pairs]

    return work


def _beside(
    question: str, name: str, work: Callable[[], list[float]], answers: cmpe.Solutions, limit: float
) -> dict[str, Any]:
    record: dict[str, Any] = {"question": question, "solver": name, "rows": OTHERS_ROWS}
    begin = time.perf_counter()
    try:
        found = _in_a_process(work, limit * OTHERS_ROWS * 2)
    except TimeoutError:
        return {**record, "proved": 0, "agree": f"not done in {2 * limit * OTHERS_ROWS:g} s"}
    except Exception as error:  # whatever the other package raises is its outcome
        first = (str(error).splitlines() or [""])[0]
        return {**record, "proved": 0, "agree": first[:50]}
    seconds = time.perf_counter() - begin
    ours = answers.objective[: len(found)]
    known = np.isfinite(found) & np.isfinite(ours)
    equal = int((np.abs(ours - found)[known] <= 1e-4).sum())
    return {
        **record,
        "rows": len(found),
        "proved": int(np.isfinite(found).sum()),
        "seconds_a_row": seconds / len(found),
        "agree": f"{equal} of {int(known.sum())}",
    }


def pyagrum_mpe(file: Path, model: cmpe.LogLinearModel, rows: pd.DataFrame) -> list[float]:
    import pyagrum

    network = pyagrum_network(file)
    found = []
    for _, row in rows.iterrows():
        engine = pyagrum.LazyPropagation(network)
        engine.setEvidence({k: v for k, v in row.items() if isinstance(v, str)})
        best = engine.mpe()
        values = {name: str(label) for name, label in best.todict(True).items()}
        numbers = [model.domain.state(v, values[name]) for v, name in enumerate(model.names)]
        found.append(float(model.value(numbers)[0]))
    return found


def _pgmpy_mpe(model: cmpe.LogLinearModel, rows: pd.DataFrame) -> list[float]:
    from pgmpy.inference import VariableElimination

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        engine = VariableElimination(model.to_pgmpy())
        found = []
        for _, row in rows.iterrows():
            known = {k: v for k, v in row.items() if isinstance(v, str)}
            free = [name for name in model.names if name not in known]
            best = {**known, **engine.map_query(free, evidence=known, show_progress=False)}
            numbers = [model.domain.state(v, best[name]) for v, name in enumerate(model.names)]
            found.append(float(model.value(numbers)[0]))
    return found


def _in_a_process(work: Callable[[], list[float]], seconds: float) -> list[float]:
    """What `work` gives, from a process that is killed after `seconds` and may crash."""
    ours, theirs = _FORK.Pipe(duplex=False)
    process = _FORK.Process(target=_send, args=(work, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        if not ours.poll(seconds):
            raise TimeoutError
        found = ours.recv()
    except EOFError:
        raise RuntimeError("the process died") from None
    finally:
        process.kill()
        process.join()
    if isinstance(found, str):
        raise RuntimeError(found)
    return list(found)


def _send(work: Callable[[], list[float]], to: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
    try:
        to.send(work())
    except BaseException as error:  # whatever the other package raises is its outcome
        to.send(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    sys.exit(main())
