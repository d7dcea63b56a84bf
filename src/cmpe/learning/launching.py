"""Training on the machines of a Ray cluster: what torchrun does, done by Ray tasks.

One task for each process, all of them placed at once, on different machines where there are enough.
The first one's machine and a free port there become MASTER_ADDR and MASTER_PORT, and each task
calls `fit` as under torchrun. Ray Train would need a file system that all machines share for what
a run leaves; here the first process sends its run directory back.
"""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from cmpe.errors import BackendError, MethodError
from cmpe.execution.ray import connected
from cmpe.learning.runs import locked
from cmpe.learning.solver import NeuralSolver
from cmpe.learning.training.config import TrainingConfig
from cmpe.learning.training.fitting import Session, fit
from cmpe.problem import Evidence, Problem

Files = dict[str, bytes]


def fit_on_ray(
    asked: tuple[Problem, Evidence],
    config: TrainingConfig | None = None,
    session: Session | None = None,
    *,
    processes: int,
    address: str | None = None,
) -> NeuralSolver:
    """Train as `fit` does, by so many processes of a Ray cluster; a GPU for each with `cuda`.

    Labels are made by every process, so have them in the problem directory first. A run that is
    stopped cannot be resumed: its files are on the machine of the first process until the end.
    """
    told = session or Session()
    if told.resume:
        raise MethodError("a run on a Ray cluster cannot be resumed")
    if processes < 1:
        raise MethodError(f"processes must be at least 1, found {processes}")
    with connected(address, processes * told.threads) as ray:
        files = _train(ray, (*asked, config), told, processes)
    return _kept(files, asked[0], told)


def _train(ray: Any, asked: tuple[Any, ...], session: Session, processes: int) -> Files:
    from ray.util.placement_group import placement_group, remove_placement_group
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    gpus = 1 if session.device.startswith("cuda") else 0
    group = placement_group([{"CPU": session.threads, "GPU": gpus}] * processes, strategy="SPREAD")
    try:
        ray.get(group.ready())

        def placed(rank: int) -> dict[str, Any]:
            strategy = PlacementGroupSchedulingStrategy(group, rank)
            return {"num_cpus": session.threads, "num_gpus": gpus, "scheduling_strategy": strategy}

        host, port = ray.get(ray.remote(**placed(0))(_meeting_point).remote())
        shared = {"WORLD_SIZE": str(processes), "MASTER_ADDR": host, "MASTER_PORT": port}
        quiet = replace(session, out=None, cache=None, progress=None, labelling=None)
        arguments = ray.put((*asked, quiet))
        started = [
            ray.remote(max_retries=0, **placed(rank))(run_process).remote(
                arguments, {**shared, "RANK": str(rank), "LOCAL_RANK": "0"}
            )
            for rank in range(processes)
        ]
        files: Files = ray.get(started)[0]
    except ray.exceptions.RayError as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise BackendError(f"a process of the training failed: {lines[-1]}") from None
    finally:
        remove_placement_group(group)
    return files


def _meeting_point() -> tuple[str, str]:
    """The address of this machine, as others reach it, and a free port."""
    import ray

    host = str(ray.util.get_node_ip_address())
    with socket.socket() as found:
        found.bind((host, 0))
        return host, str(found.getsockname()[1])


def run_process(asked: tuple[Any, ...], told: Mapping[str, str]) -> Files:
    """One process of the group; the first gives the files of its run."""
    problem, evidence, config, session = asked
    with tempfile.TemporaryDirectory() as folder, _environment(told):
        out = Path(folder, "run")
        fit(problem, evidence, config, replace(session, out=out))
        if told["RANK"] != "0":
            return {}
        return {file.name: file.read_bytes() for file in out.iterdir() if file.is_file()}


@contextmanager
def _environment(told: Mapping[str, str]) -> Iterator[None]:
    """What torchrun would tell; a worker of Ray lives on and must forget it."""
    os.environ.update(told)
    try:
        yield
    finally:
        for name in told:
            os.environ.pop(name, None)


def _kept(files: Files, problem: Problem, session: Session) -> NeuralSolver:
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) if session.out is None else session.out
        out.mkdir(parents=True, exist_ok=True)
        with locked(out):
            for name, data in files.items():
                (out / name).write_bytes(data)
        return NeuralSolver.load(out, problem)
