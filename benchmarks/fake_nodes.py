"""A Ray cluster of hundreds of nodes on one machine: what the head of a real one would see.

Ray's own `Cluster` starts its nodes one after the other, three seconds each, with two Python agents
of 85 MiB beside every raylet. Here the head and one node are started so; the others are copies of
that node's raylet with names of their own, and share its agents: 25 MiB and some milliseconds each.
A node claims one core, has one worker process and an object store of 80 MiB. What is not real is
the network between them, and the cores, which they share.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CLAIMS: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 << 20}
AGENTS = ("--dashboard_agent_command=", "--runtime_env_agent_command=")
WAIT = 120.0  # seconds for all nodes to be there
TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class FakeCluster:
    """Where it is, and the processes of its head."""

    address: str
    head: dict[str, int]  # process numbers by name: gcs_server, raylet

    def spent(self) -> dict[str, float]:
        """CPU seconds of each of them until now."""
        return {name: _cpu_seconds(process) for name, process in self.head.items()}


def _cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


@contextmanager
def fake_cluster(nodes: int) -> Iterator[FakeCluster]:
    """A cluster of so many nodes, and this process connected to it."""
    import ray
    from ray.cluster_utils import Cluster

    os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    head = {**CLAIMS, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    copies: list[subprocess.Popen[bytes]] = []
    try:
        if nodes > 1:
            model = cluster.add_node(**CLAIMS)
            copies += [_copy_of(model, number) for number in range(nodes - 2)]
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        _wait_for(ray, nodes)
        running = cluster.head_node.all_processes
        names = ("gcs_server", "raylet")
        yield FakeCluster(cluster.address, {n: running[n][0].process.pid for n in names})
    finally:
        ray.shutdown()
        for copy in copies:
            copy.terminate()
        for copy in copies:
            copy.wait()
        cluster.shutdown()


def _copy_of(node: Any, number: int) -> subprocess.Popen[bytes]:
    """A raylet like that of `node`, under another name, which believes to have agents of its own.

    It reads the ports of its agents from files that they leave in the folder of the session.
    """
    name = secrets.token_hex(len(node.node_id) // 2)
    for ports in Path(node.get_session_dir_path()).glob(f"*_port_{node.node_id}"):
        shutil.copy(ports, ports.with_name(ports.name.replace(node.node_id, name)))
    known = {
        node.node_id: name,
        node.raylet_socket_name: f"{node.raylet_socket_name}.{number}",
        node.plasma_store_socket_name: f"{node.plasma_store_socket_name}.{number}",
        "/raylet.1.": f"/raylet.1.{number}.",
    }
    words = []
    for word in node.all_processes["raylet"][0].process.args:
        begin = next((agent for agent in AGENTS if word.startswith(agent)), None)
        for old, new in known.items():
            word = word.replace(old, new)
        words.append(word if begin is None else f"{begin}sleep 1000000")
    nothing = subprocess.DEVNULL
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=nothing, stderr=nothing)


def _wait_for(ray: Any, nodes: int) -> None:
    end = time.monotonic() + WAIT
    while (alive := sum(node["Alive"] for node in ray.nodes())) < nodes:
        if time.monotonic() > end:
            raise SystemExit(f"of {nodes} nodes {alive} are there after {WAIT:g} s")
        time.sleep(0.2)
