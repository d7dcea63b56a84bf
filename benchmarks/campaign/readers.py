"""Every reader against mutated files: nothing but CmpeError may come out, quickly, in 2 GB.

A worker of this part may take `MOST_MEMORY` more than it has when it starts; a file that needs more
makes it run out of memory, which is a finding.
"""

from __future__ import annotations

import json
import resource
import shutil
import signal
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import cmpe
from benchmarks.campaign.costs import CFN, wcsp_text
from benchmarks.campaign.journal import Journal
from benchmarks.campaign.mutations import PACK, bomb, mutated
from cmpe.certificates.checker import check
from cmpe.errors import CmpeError
from cmpe.formats import registry
from cmpe.formats.debd import read_data
from cmpe.formats.directory import write_array
from cmpe.formats.evidence import write_evid
from cmpe.formats.functions import read_function, write_function
from cmpe.formats.idx import read_idx
from cmpe.formats.labels import Labels, read_labels, write_labels
from cmpe.formats.numbers import read_limits, read_potentials
from cmpe.formats.results import format_mpe, json_rows
from cmpe.generation import grid
from cmpe.problem.rows import Rows
from cmpe.problem.wording import count_from_text, rule_from_text
from cmpe.service.questions import Allowed, parsed

MOST_MEMORY = 2 << 30
MOST_SECONDS = 20.0  # of one core
INPUTS = 250  # of one unit
BOMBS = 0.0003  # the share of packed inputs that are bombs


@dataclass(frozen=True)
class Sample:
    """Sound files, what reads them, and which of them are changed."""

    reader: str
    files: dict[str, bytes]
    read: Callable[[Path], object]  # of the folder that holds them
    changed: tuple[str, ...]


def unit(rng: np.random.Generator, journal: Journal) -> None:
    """Some inputs of every reader in turn."""
    whole = samples()
    with tempfile.TemporaryDirectory(dir=_memory_disk()) as folder:
        for number in range(INPUTS):
            sample = whole[int(rng.integers(len(whole)))]
            name = sample.changed[int(rng.integers(len(sample.changed)))]
            suffix = "." + name.rsplit(".", 1)[-1]
            is_bomb = suffix in PACK and rng.random() < BOMBS
            data = bomb(rng, suffix) if is_bomb else mutated(rng, name, sample.files[name])
            place = Path(folder, str(number))
            found = outcome(sample, {**sample.files, name: data}, place, journal)
            shutil.rmtree(place, ignore_errors=True)
            if found is not None:
                small = data if is_bomb else smallest(sample, name, data, Path(folder))
                journal.find("leak", f"{sample.reader}, {name}: {found}", {name: small[: 1 << 20]})
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    journal.measure("gigabytes of a process that reads", own)


def _memory_disk() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def outcome(sample: Sample, files: dict[str, bytes], place: Path, journal: Journal) -> str | None:
    """What is wrong with the way that files are read, or None."""
    place.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (place / name).write_bytes(data)
    journal.count("inputs")
    journal.count(f"inputs of {sample.reader}")
    begin = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sample.read(place)
        journal.count("inputs that were read")
    except CmpeError as error:
        journal.count("inputs that were refused")
        if "\n" in str(error):
            return f"more than one line: {error}"
    except Exception:
        return traceback.format_exc(limit=-4)
    seconds = time.process_time() - begin
    journal.measure("seconds of an input", seconds)
    return f"took {seconds:.1f} s" if seconds > MOST_SECONDS else None


def smallest(sample: Sample, name: str, data: bytes, folder: Path) -> bytes:
    """The bytes with every part left out that the finding does not need."""

    def is_found(other: bytes) -> bool:
        place = folder / "smaller"
        try:
            return outcome(sample, {**sample.files, name: other}, place, Journal()) is not None
        finally:
            shutil.rmtree(place, ignore_errors=True)

    size, tries = max(1, len(data) // 2), 0
    while size and tries < 150:
        at = 0
        while at < len(data) and tries < 150:
            tries += 1
            other = data[:at] + data[at + size :]
            if is_found(other):
                data = other
            else:
                at += size
        size //= 2
    return data


def limited() -> None:
    """Give this process `MOST_MEMORY` beyond what it has, and a clock that ends a hang."""
    samples()
    status = Path("/proc/self/statm").read_text(encoding="ascii").split()
    now = int(status[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MOST_MEMORY, now + MOST_MEMORY))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


@cache
def samples() -> list[Sample]:
    """Sound files of every format, small ones."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        parts = (_models, _costs, _rows, _numbers, _texts, _arrays, _folders)
        return [sample for part in parts for sample in part(place)]


def _sample(reader: str, folder: Path, read: Callable[[Path], object], *changed: str) -> Sample:
    files = {p.name: p.read_bytes() for p in sorted(folder.iterdir()) if p.is_file()}
    return Sample(reader, files, read, changed or tuple(files))


def _in(name: str, read: Callable[[Path], object]) -> Callable[[Path], object]:
    return lambda place: read(place / name)


def _one(reader: str, path: Path, read: Callable[[Path], object]) -> list[Sample]:
    """One file as it is, and packed."""
    data = {path.name: path.read_bytes()}
    data |= {path.name + suffix: pack(data[path.name]) for suffix, pack in PACK.items()}
    return [
        Sample(reader, {name: packed}, _in(name, read), (name,)) for name, packed in data.items()
    ]


def _problem() -> cmpe.Problem:
    h, t = grid(2, 3, seed=1), grid(2, 3, seed=2)
    return cmpe.Problem(h, (cmpe.Constraint(t, at_most=30.0),), (0, 3, 4), name="p")


def _models(folder: Path) -> list[Sample]:
    network = cmpe.learn_cutset(np.random.default_rng(0).integers(0, 2, (60, 5)))
    tree = cmpe.learn_chow_liu([[0, 1, 0], [1, 1, 2], [0, 0, 1]])
    out: list[Sample] = []
    for number, known in enumerate(registry.FORMATS):
        for suffix in known.suffixes:
            place = folder / f"model{number}{suffix}"
            place.mkdir()
            _write(network if not known.only_tables else grid(2, 2, seed=3), place / f"m{suffix}")
            if len(list(place.iterdir())) == 1:
                out += _one(f"model {suffix}", place / f"m{suffix}", cmpe.read_model)
            else:
                read = _in(f"m{suffix}", cmpe.read_model)
                out.append(_sample(f"model {suffix}", place, read))
    (folder / "tree").mkdir()
    cmpe.write_network(tree, folder / "tree" / "m")
    out.append(_sample("network", folder / "tree", lambda f: cmpe.read_network(f / "m.json")))
    return out


def _costs(folder: Path) -> list[Sample]:
    """Cost function networks with functions of every kind."""
    out: list[Sample] = []
    for name, text in (("every.wcsp", wcsp_text()), ("every.cfn", CFN)):
        (folder / name).write_text(text, encoding="ascii")
        suffix = name.removeprefix("every")
        out += _one(f"problem {suffix}", folder / name, cmpe.read_problem)
    return out


def _write(model: Any, path: Path) -> None:
    """Write a model, or a Bayesian network where only that can be written."""
    try:
        cmpe.write_model(model, path)
    except CmpeError:
        first, second = np.array([0.25, 0.75]), np.array([[0.5, 0.25, 0.25], [0.0, 0.5, 0.5]])
        with np.errstate(divide="ignore"):
            tables = [((0,), np.log(first)), ((0, 1), np.log(second))]
        cmpe.write_model(cmpe.LogLinearModel.from_tables((2, 3), tables), path)


def _rows(folder: Path) -> list[Sample]:
    problem = _problem()
    rows = np.array([[0, 1, 0], [1, 1, 1]])
    write_evid([{0: 1, 3: 0}, {2: 1}], folder / "many.evid")
    write_evid([{0: 1, 3: 0, 5: 1}], folder / "one.evid")
    write_array(rows, folder / "e.npy")
    (folder / "e.csv").write_text("0,1,0\n1,1,1\n", encoding="ascii")
    (folder / "d.data").write_text("0,1,0\n1,2,11\n", encoding="ascii")
    (folder / "s.data").write_text("0,1,0\n1,1,1\n", encoding="ascii")
    write_array(rows, folder / "d.npy")
    answers = cmpe.solve(problem, rows)
    lines = "".join(f"{line}\n" for line in json_rows(problem, answers))
    (folder / "a.jsonl").write_text(lines, encoding="ascii")
    (folder / "a.mpe").write_text(format_mpe(answers.assignments), encoding="ascii")
    (folder / "i.idx").write_bytes(b"\0\0\x08\x02" + b"\0\0\0\x02\0\0\0\x03" + bytes(range(6)))

    def evidence(path: Path) -> object:
        return cmpe.read_evidence(path, problem)

    def results(path: Path) -> object:
        return cmpe.read_solutions(path, problem)

    names: dict[str, Callable[[Path], object]] = {
        "many.evid": evidence, "one.evid": evidence, "e.npy": evidence, "e.csv": evidence,
        "d.data": read_data, "s.data": read_data, "d.npy": read_data, "a.jsonl": results,
        "a.mpe": results, "i.idx": read_idx,
    }  # fmt: skip
    return [s for name, read in names.items() for s in _one(name, folder / name, read)]


def _named_problem() -> cmpe.Problem:
    """Three variables with names, a count and a soft rule."""
    names, states = ["A", "B", "c d"], [["no", "yes"], ["0", "1", "2"], ["x", "y=z"]]
    tables = [(("A", "B"), np.eye(2, 3)), (("c d",), np.array([0.0, 1.0]))]
    model = cmpe.LogLinearModel.from_tables([2, 3, 2], tables, names, states)
    return cmpe.Problem(
        model,
        [cmpe.count({"A": "yes", "c d": "y=z"}, name="faults") <= 1,
         cmpe.implies({"A": "yes"}, {"B": [0, 2]}, weight=1.5)],
    )  # fmt: skip


def _numbers(folder: Path) -> list[Sample]:
    """Numbers of rows' own, columns of states and likelihoods, and rules."""
    problem = _named_problem()
    arrays: Any = {"A": np.zeros((2, 2)), "A,B": np.ones((2, 2, 3))}
    np.savez(folder / "p.npz", **arrays)
    write_array(np.zeros((2, 3, 3)), folder / "q.npy")
    (folder / "l.csv").write_text("faults\n1\n0.5\n", encoding="ascii")
    (folder / "m.csv").write_text("1\n-2.5e3\n", encoding="ascii")
    cells = "A,B,c d=x,c d=y=z\nyes,2,0.25,1\n,0,,\n"
    (folder / "s.csv").write_text(cells, encoding="ascii")
    (folder / "r.cnf").write_text("c rules\np cnf 3 2\n1 -2 0\n2 3 -1 0\n", encoding="ascii")
    made = folder / "ruled"
    cmpe.write_directory(cmpe.ProblemDirectory(problem, np.zeros((1, 0)), np.zeros((1, 0))), made)
    text = json.loads((made / "problem.json").read_bytes())
    (made / "problem.json").write_text(json.dumps({**text, "sha256": {}}), encoding="ascii")

    def potentials(path: Path) -> object:
        return Rows.of(problem, None, read_potentials(path, problem))

    def limits(path: Path) -> object:
        return Rows.of(problem, None, limits=read_limits(path))

    def evidence(path: Path) -> object:
        return Rows.of(problem, cmpe.read_evidence(path, problem))

    def rules(path: Path) -> object:
        return cmpe.Problem(cmpe.LogLinearModel((2,) * 3), cmpe.read_rules(path))

    readers: dict[str, Callable[[Path], object]] = {
        "p.npz": potentials, "q.npy": potentials, "l.csv": limits, "m.csv": limits,
        "s.csv": evidence, "r.cnf": rules,
    }  # fmt: skip
    if find_spec("pyarrow") is not None:
        import pandas as pd

        pd.read_csv(folder / "s.csv").to_parquet(folder / "s.parquet")
        readers |= {"s.parquet": evidence}
    out = [s for name, read in readers.items() for s in _one(name, folder / name, read)]
    return [*out, _sample("directory with rules", made, cmpe.read_directory, "problem.json")]


RULES = (
    'A=yes and B!=1 implies "c d=y=z" weight 1.5',
    "triage: exactly one of A=yes B=0|2 'c d=x'",
    "all different A B",
    "allowed A B : yes 2 ; no 0 weight 2",
)
COUNTS = ('faults: A=yes B=0 2*"c d=x" <= 2', "1 <= A=yes B=1|2 <= 3", "-0.5*A=no B=1 == 1")


def _texts(folder: Path) -> list[Sample]:
    """Rules and counts in words, requests of the service, certificates."""
    problem = _named_problem()

    def ruled(text_of: Callable[[str, Any], Any]) -> Callable[[Path], object]:
        def read(path: Path) -> object:
            text = path.read_bytes().decode("utf-8", "replace")
            return cmpe.Problem(problem.objective, [text_of(text, problem.domain)])

        return read

    rows = [{"A": "yes", "B": [0.5, 0.25, 0]}, {}, {"c d": {"x": 1, "y=z": 0.5}}]
    asked = {"rows": rows, "potentials": {"A": [[0.0, 1.5]] * 3}, "limits": {"faults": [1, 2, 0.5]}}
    plain = cmpe.Problem(cmpe.LogLinearModel((2, 3)), [cmpe.count({0: 1}, name="t") <= 1])
    texts = [("rule.txt", text, ruled(rule_from_text)) for text in RULES]
    texts += [("count.txt", text, ruled(count_from_text)) for text in COUNTS]
    texts += [
        ("request.json", json.dumps(asked), lambda p: parsed(problem, p.read_bytes(), Allowed())),
        (
            "plain.json",
            '{"rows": [{"0": 1, "1": [1, 0.5, 0]}], "limits": {"0": 1}}',
            lambda p: parsed(plain, p.read_bytes(), Allowed()),
        ),
    ]
    cmpe.certify(problem, [{"A": "yes"}, {}], folder / "proof.json")
    proof = (folder / "proof.json").read_text(encoding="ascii")
    texts.append(("proof.json", proof, lambda p: list(check(p))))
    return [
        Sample(name, {name: text.encode()}, _in(name, read), (name,)) for name, text, read in texts
    ]


def _arrays(folder: Path) -> list[Sample]:
    write_labels(folder, "k", Labels(np.zeros((3, 6), np.int32), np.zeros(3)))
    network = cmpe.ReluNetwork((np.ones((4, 2)), np.ones((2, 4))), (np.zeros(4), np.zeros(2)))
    problem = cmpe.queries.adversarial(network)
    write_function(problem.objective, folder / "distance.npz")
    write_function(problem.constraints[0].function, folder / "margin.npz")
    readers: dict[str, Callable[[Path], object]] = {
        "distance.npz": read_function,
        "margin.npz": read_function,
    }
    out = [s for name, read in readers.items() for s in _one(name, folder / name, read)[:1]]
    labels = {"labels-k.npz": (folder / "labels-k.npz").read_bytes()}
    out.append(Sample("labels", labels, lambda f: read_labels(f, "k", (3, 6)), tuple(labels)))
    out.append(Sample("labels", labels, lambda f: read_labels(f, "k"), tuple(labels)))
    return out


def _folders(folder: Path) -> list[Sample]:
    problem = _problem()
    rows = np.zeros((2, 3), dtype=np.int32)
    made = folder / "directory"
    cmpe.write_directory(cmpe.ProblemDirectory(problem, rows, rows), made)
    text = json.loads((made / "problem.json").read_bytes())
    (made / "problem.json").write_text(json.dumps({**text, "sha256": {}}), encoding="ascii")
    return [
        _sample("directory", made, cmpe.read_directory),
        _run(folder, problem, rows),
        _report(folder),
        _images(folder),
    ]


def _run(folder: Path, problem: cmpe.Problem, rows: Any) -> Sample:
    from cmpe.learning.runs import CHECKPOINT, read_checkpoint, read_log

    config = cmpe.TrainingConfig(hidden=(3,), epochs=1, batch_size=2, validation_share=0.4)
    out = folder / "run"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cmpe.fit(problem, np.repeat(rows, 5, 0), config, cmpe.Session(out=out))
    told = json.loads((out / "config.json").read_bytes())
    told.pop("weights_sha256", None)  # or every change of the weights ends there
    (out / "config.json").write_text(json.dumps(told), encoding="ascii")

    def read(place: Path) -> object:
        read_log(place)
        read_checkpoint(place)
        return cmpe.NeuralSolver.load(place, problem).predictor.network

    return _sample("run", out, read, "config.json", "weights.safetensors", "log.jsonl", CHECKPOINT)


def _report(folder: Path) -> Sample:
    from study.reporting.results import read_results

    place = folder / "report"
    place.mkdir()
    every = {"rows": 5, "distinct": 5, "regret": 0.0, "gap": None, "violation": 0.25}
    cell = {"dataset": "grid", "group": "uai", "q": 30, "method": "exact", "seed": 0}
    cells = [{**cell, "every": every, "settings": {"beta": 1.0}}, {**cell, "status": "missing"}]
    cells[1]["method"] = "milp"
    text = "".join(f"{json.dumps(row)}\n" for row in cells)
    (place / "cells.jsonl").write_text(text, encoding="ascii")
    (place / "provenance.json").write_text('{"seed": 1}', encoding="ascii")
    return _sample("report", place, read_results)


def _images(folder: Path) -> Sample:
    from cmpe.formats.images import read_images

    place = folder / "images"
    place.mkdir()
    for part in ("train", "t10k"):
        pixels = b"\0\0\x08\x03" + b"\0\0\0\x02" * 3 + bytes(8)
        (place / f"{part}-images-idx3-ubyte").write_bytes(pixels)
        (place / f"{part}-labels-idx1-ubyte").write_bytes(b"\0\0\x08\x01\0\0\0\x02\1\2")
    return _sample("images", place, read_images)
