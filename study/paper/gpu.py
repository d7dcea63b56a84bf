"""Train packed tasks on a GPU: many networks at once, as much as a time budget allows.

    python -m study paper pack --scale brief --out DIR --to PACKS           here
    PYTHONPATH=src:. python study/paper/gpu.py PACKS/*.zip --out OUT \\
        --percentiles 80 10 30 60 90 --budget 540                              there
    python -m study paper import --out DIR OUT/results-*.zip                here

The machine with the GPU needs torch, numpy and scipy only. Tasks that differ in their seed are
one batched program; `--together` programs take turns on streams of their own, so that their small
kernels overlap. Cells are done in the order of the percentiles, then of the files; every finished
program is written at once. Packing again leaves out what has been imported: call again for the
rest. The seconds of a network are its share of the device, not the time until it was there.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

if __package__ in (None, ""):  # run as a file: the repository's root is two folders up
    sys.path[0] = str(Path(__file__).parents[2])

from study.bare import without_numba, without_safetensors

LARGEST = 12 << 20  # bytes of one file of results
RESERVE = 1.15  # a program is begun if this times the longest so far still fits


def condition(evidence: Any, gather: Any, out: Any) -> None:
    """`cmpe.core.tables.condition` without a compiler: one table at a time, all rows."""
    values, offsets, starts, columns, strides, entries, steps, targets = gather
    out[:] = 0.0
    for f in range(len(offsets) - 1):
        base: Any = offsets[f]
        for s in range(starts[f], starts[f + 1]):
            base = base + strides[s] * evidence[columns[s]]
        for e in range(entries[f], entries[f + 1]):
            out[targets[e]] += values[base + steps[e]]


def evaluate(rows: Any, values: Any, offsets: Any, *others: Any) -> int:
    """`cmpe.core.tables.evaluate` without a compiler: one table at a time, all rows."""
    starts, variables, strides, cards, out = others
    wrong = ((rows < 0) | (rows >= cards)).ravel()
    if wrong.any():
        return int(np.argmax(wrong))
    out[:] = 0.0
    for f in range(len(offsets) - 1):
        index: Any = np.full(len(rows), offsets[f])
        for s in range(starts[f], starts[f + 1]):
            index = index + strides[s] * rows[:, variables[s]]
        out += values[index]
    return -1


def without_compiler() -> None:
    """Stand in for what is missing on this machine."""
    if without_numba():
        from cmpe.core import tables as kernels

        kernels.condition, kernels.evaluate = condition, evaluate
    without_safetensors()


@dataclass
class Pack:
    """A packed file: its tasks, what they read, and what its programs share."""

    path: Path
    tasks: list[Any]
    artifacts: dict[str, Any]
    relaxations: dict[Any, Any] = field(default_factory=dict)
    encoded: dict[Any, Any] = field(default_factory=dict)  # training rows, by their number

    @classmethod
    def read(cls, path: Path) -> Pack:
        """A file of `pack`."""
        from study.paper.packing import read_packed

        return cls(path, *read_packed(path))

    def inputs(self, task: Any) -> dict[str, Any]:
        """The artifacts that a task reads."""
        return {name: self.artifacts[key] for name, key in task.inputs.items()}

    def relaxation(self, make: Callable[..., Any], problem: Any, **how: Any) -> Any:
        """One relaxation for all programs: they differ in q, which it does not know."""
        name = tuple(how.items())
        if name not in self.relaxations:
            made, known = make(problem, **how), {}
            rows_of = made.rows

            def rows(evidence: Any) -> Any:
                seen = np.ascontiguousarray(evidence).tobytes()
                if hash(seen) not in known:
                    known[hash(seen)] = rows_of(evidence)
                return known[hash(seen)]

            made.rows = rows
            self.relaxations[name] = made
        return self.relaxations[name]


@dataclass
class Program:
    """A stack on its way, on a stream of its own."""

    pack: Pack
    tasks: list[Any]
    stack: Any
    stream: Any
    steps: Iterator[None]
    begin: float
    share: float = 0.0  # seconds of the device


class Trainers:
    """Takes the tasks of all packs through training, several programs at a time."""

    def __init__(self, packs: list[Pack], options: argparse.Namespace) -> None:
        self.packs, self.options = packs, options
        self.begin, self.longest, self.count = time.perf_counter(), 0.0, 0
        self._results = 0
        self._queue = self._programs()
        self._on_gpu = options.device.startswith("cuda")
        self._first = torch.cuda.current_stream() if self._on_gpu else None

    def _switch(self, stream: Any) -> None:
        """Launch on `stream` from now on: cheaper than a context, and done for every step."""
        if self._on_gpu:
            torch.cuda.set_stream(stream)

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.begin

    def run(self) -> None:
        """Until all is done or the budget is spent."""
        active: list[Program] = []
        while self.elapsed < self.options.budget:
            while len(active) < self.options.together and self._has_time():
                begun = next(self._queue, None)
                if begun is None:
                    break
                active.append(begun)
            if not active:
                return
            active = self._round(active)
        print(f"budget spent: {len(active)} programs dropped", flush=True)

    def _has_time(self) -> bool:
        return self.elapsed + RESERVE * self.longest < float(self.options.budget)

    def _round(self, active: list[Program]) -> list[Program]:
        """Some steps of every program, in turns."""
        begin, ended = time.perf_counter(), []
        for _ in range(self.options.steps):
            for program in active:
                self._switch(program.stream)
                if next(program.steps, program) is program:
                    ended.append(program)
            if ended:
                break
        self._switch(self._first)
        spent = (time.perf_counter() - begin) / len(active)
        for program in active:
            program.share += spent
        for program in ended:
            self._keep(program)
        return [program for program in active if program not in ended]

    def _keep(self, program: Program) -> None:
        whole = time.perf_counter() - program.begin
        self.longest = max(self.longest, whole)
        begin = time.perf_counter()
        with torch.cuda.stream(program.stream), self._sharing(program.pack):
            made = program.stack.artifacts(program.share)
        for artifact in made:
            artifact.aside.update(elapsed_seconds=whole, gpu=_device_name(self.options.device))
        self._write(program.tasks, made)
        spent = time.perf_counter() - begin
        settings = program.tasks[0].settings
        self.count += len(made)
        print(
            f"{self.elapsed:7.1f} s  {program.pack.path.stem} q={settings['q']} "
            f"{settings['config']['loss']} x {len(program.stack.trainer.configs)}: "
            f"{whole:.1f} s, share {program.share:.1f} s, answers {spent:.2f} s; "
            f"{self.count} tasks",
            flush=True,
        )

    def _write(self, tasks: list[Any], made: list[Any]) -> None:
        from study.paper.packing import add_artifacts

        path = self.options.out / f"results-{self._results}.zip"
        while path.exists() and path.stat().st_size > LARGEST:
            self._results += 1
            path = self.options.out / f"results-{self._results}.zip"
        add_artifacts(path, {t.key: a for t, a in zip(tasks, made, strict=True)}, tasks)

    def _programs(self) -> Iterator[Program]:
        """Every program, begun when it is asked for."""
        from study.paper import training
        from study.paper.artifacts import rows_of

        for q in self.options.percentiles:
            for pack in self.packs:
                mine = [t for t in pack.tasks if t.settings["q"] == q and self._wanted(t)]
                for task in mine:
                    if task.stage == "cross_validation":
                        self._choose(pack, task)
                for tasks in _alike([t for t in mine if t.stage == "train"]):
                    inputs = pack.inputs(tasks[0])
                    told = [training.chosen(t.settings, inputs) for t in tasks]
                    stream = _stream() if self._on_gpu else None
                    begin = time.perf_counter()
                    with torch.cuda.stream(stream), self._sharing(pack):
                        rows = rows_of(inputs["problem"], q)
                        stack = training.Stack(rows, inputs, told, self.options.device)
                    if self._on_gpu:
                        torch.cuda.synchronize()  # what programs share is there for all streams
                    gc.freeze()  # a capture collects garbage: not among what stays
                    yield Program(pack, tasks, stack, stream, stack.steps(), begin)

    def _wanted(self, task: Any) -> bool:
        """Seeds and methods may be left for another call."""
        seeds, losses = self.options.seeds, self.options.losses
        config = task.settings["config"]
        if losses and config["loss"] not in losses:
            return False
        return not seeds or task.stage == "cross_validation" or config["seed"] in seeds

    def _choose(self, pack: Pack, task: Any) -> None:
        from study.paper.training import cross_validation

        begin = time.perf_counter()
        with self._sharing(pack):
            made = cross_validation(task.settings, pack.inputs(task), self.options.device)
        made.aside.update(stage_seconds=time.perf_counter() - begin)
        pack.artifacts[task.key] = made
        self._write([task], [made])

    @contextmanager
    def _sharing(self, pack: Pack) -> Iterator[None]:
        """While programs of a pack are made, they get its relaxation and its inputs."""
        from cmpe.learning.losses.functions import relaxation_of
        from cmpe.learning.networks.modules import inputs_of
        from cmpe.learning.training import tensors

        def inputs(problem: Any, evidence: Any, config: Any, reads: Any) -> Any:
            count = len(evidence)
            if count not in pack.encoded:
                device = self.options.device
                pack.encoded[count] = inputs_of(problem, evidence, config, reads).to(device)
            return pack.encoded[count]

        shared = partial(pack.relaxation, relaxation_of)
        with patch.multiple(tensors, relaxation_of=shared, inputs_of=inputs):
            yield


def _stream() -> torch.cuda.Stream:
    return torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch gives it no types


def _alike(tasks: list[Any]) -> list[list[Any]]:
    """Tasks that differ in their seed only, together."""
    from study.paper.store import canonical

    groups: dict[bytes, list[Any]] = {}
    for task in tasks:
        told = {**task.to_json(), "settings": {**task.settings}}
        told["settings"]["config"] = {**task.settings["config"], "seed": 0}
        groups.setdefault(canonical(told), []).append(task)
    return list(groups.values())


def _device_name(device: str) -> str:
    return torch.cuda.get_device_name() if device.startswith("cuda") else ""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path, help="of `pack`, in order of priority")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--percentiles", nargs="+", type=int, default=(80, 10, 30, 60, 90))
    parser.add_argument("--seeds", nargs="+", type=int, help="only these")
    parser.add_argument("--losses", nargs="+", help="only these")
    parser.add_argument("--budget", type=float, default=540.0, help="seconds")
    parser.add_argument("--together", type=int, default=12, help="programs at a time")
    parser.add_argument("--steps", type=int, default=20, help="of a program between two looks")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args(arguments)
    without_compiler()
    torch.set_flush_denormal(True)
    torch.backends.cuda.matmul.allow_tf32 = True  # of networks; values of functions stay float32
    torch.set_num_threads(1 if options.device == "cpu" else torch.get_num_threads())
    options.out.mkdir(parents=True, exist_ok=True)
    work = Trainers([Pack.read(path) for path in options.files], options)
    print(f"{len(work.packs)} files, {sum(len(p.tasks) for p in work.packs)} tasks", flush=True)
    work.run()
    print(f"{work.count} tasks in {work.elapsed:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
