"""A real Ray cluster of two nodes, one of which is killed while it works."""

from __future__ import annotations

import os
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from cmpe.cli.streaming.jobs import SolveJob
from cmpe.execution import executor
from cmpe.execution.local import InProcess
from cmpe.generation import Recipe, generate, grid
from cmpe.solvers.base import Limits, Running
from cmpe.solving import solve
from cmpe.streams.folder import StreamQuestion
from cmpe.streams.pieces import MemorySource
from cmpe.streams.stream import answer_stream
from study.paper.plan import plan_of
from study.paper.results import results_hash
from study.paper.runner import run
from study.paper.store import Store
from tests.streams.work import SumJob, lines_in, named_problem, question
from tests.study.paper.studies import tiny

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own

# A dead node is noticed after two seconds instead of half a minute.
QUICK = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 4,
    "worker_niceness": 0,  # not 15: beside other tests workers would wait for minutes
}
NODE = {"num_cpus": 1, "object_store_memory": 80 << 20}
PATIENCE = 60.0  # seconds that a task waits for the other node


@pytest.fixture(scope="module")
def cluster():
    from ray.cluster_utils import Cluster

    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        head = {**NODE, "include_dashboard": False, "_system_config": QUICK}
        made = Cluster(initialize_head=True, head_node_args=head)
        ray.init(address=made.address, log_to_driver=False, logging_level="ERROR")
        yield made
        ray.shutdown()
        made.shutdown()


def square(number, blob, doomed, folder):
    """On the node that will die: say so and never end. Elsewhere: wait until it has begun."""
    begun = Path(folder, "begun")
    if ray.get_runtime_context().get_node_id() == doomed:
        begun.touch()
        time.sleep(10 * PATIENCE)
    end = time.monotonic() + PATIENCE
    while not begun.exists() and time.monotonic() < end:
        time.sleep(0.05)
    return number * number + len(blob)


def fail(number):
    raise ValueError(f"number {number}")


def test_the_tasks_of_a_killed_node_run_elsewhere(cluster, tmp_path):
    other = cluster.add_node(**NODE)
    work = executor("ray", address=cluster.address)
    assert work.capacity == 2
    blob = work.share(b"x" * 200_000)
    for number in range(6):
        work.submit(str(number), square, number, blob, other.node_id, str(tmp_path))
    found = [work.next()]
    assert (tmp_path / "begun").exists(), "nothing ran on the other node"
    cluster.remove_node(other, allow_graceful=False)
    found += [work.next() for _ in range(5)]
    assert {o.name: o.result for o in found} == {str(n): n * n + 200_000 for n in range(6)}
    work.submit("bad", fail, 3)
    assert work.next().error == "ValueError: number 3"
    work.close()


def test_a_study_loses_nothing_and_ends_as_on_one_machine(cluster, tmp_path):
    plan = plan_of(tiny(methods=["exact", "ss_cmpe_pen", "milp:highs"], seeds=[0]), tmp_path)
    local, spread = Store(tmp_path / "local"), Store(tmp_path / "spread")
    run(plan, local, InProcess())
    other = cluster.add_node(**NODE)
    left = [other]

    def kill(task, done, total):
        if done >= 5 and left:
            cluster.remove_node(left.pop(), allow_graceful=False)

    report = run(plan, spread, executor("ray", address=cluster.address), progress=kill)
    assert not left
    assert not report.failed
    assert len(report.done) == len(plan.tasks)
    tasks = plan.tasks.values()
    assert results_hash(spread, tasks) == results_hash(local, tasks)


def test_ctrl_c_leaves_the_cluster_and_another_machine_resumes(cluster, tmp_path):
    """What runs is cancelled, so that the core is free for the next who asks; the folder holds the
    finished parts, and is completed without the cluster that began it."""
    source = MemorySource(np.arange(20).reshape(20, 1) % np.array([[2, 3]]), [["rows", 20, "x"]])
    place, whole = (tmp_path / "out", question()), (tmp_path / "whole", question())

    def interrupt(done, total):
        if done >= 8:
            raise KeyboardInterrupt

    def work():
        return executor("ray", address=cluster.address)

    job = SumJob(named_problem())
    with pytest.raises(KeyboardInterrupt, match="after 8 rows; add --resume"):
        answer_stream(source, job, place, work, report=interrupt)
    again = work()
    again.submit("free", fail, 1)
    assert again.next().error == "ValueError: number 1"
    again.close()
    assert ray.is_initialized()
    answer_stream(source, job, place, InProcess, resume=True)
    answer_stream(source, job, whole, InProcess)
    assert lines_in(place[0]) == lines_in(whole[0])
    assert len((place[0] / "journal.jsonl").read_text().splitlines()) == 5, "a part was done twice"


def test_a_stream_loses_no_row_with_a_killed_node(cluster, tmp_path):
    """Two nodes answer a stream and one is killed midway; then `solve` in memory, the same."""
    made = generate(grid(4, 4, seed=1), Recipe(samples=100, percentile=50))
    rows = np.concatenate([made.train, made.test])
    source = MemorySource(rows, [["rows", len(rows), "x"]])
    job = SolveJob(made.problem, "exact", Limits(), "jsonl")
    asked = StreamQuestion({"method": "exact"}, 5, "jsonl")
    answer_stream(source, job, (tmp_path / "here", asked), InProcess)
    other = cluster.add_node(**NODE)
    left = [other]

    def kill(done, total):
        if done >= total // 4 and left:
            cluster.remove_node(left.pop(), allow_graceful=False)

    def work():
        return executor("ray", address=cluster.address)

    answer_stream(source, job, (tmp_path / "there", asked), work, report=kill)
    assert not left
    files = sorted(file.name for file in (tmp_path / "here").glob("[mp]a*"))
    assert len(files) == 21
    for name in files:
        assert (tmp_path / "here" / name).read_bytes() == (tmp_path / "there" / name).read_bytes()
    found = solve(made.problem, rows, method="exact", running=Running(executor="ray"))
    wanted = solve(made.problem, rows, method="exact")
    np.testing.assert_array_equal(found.assignments, wanted.assignments)
    np.testing.assert_array_equal(found.objective, wanted.objective)
    np.testing.assert_array_equal(found.bound, wanted.bound)
