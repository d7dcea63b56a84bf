"""Table: `cmpe serve` on loopback: rows per second, latency, and what happens with too much.

    python -m benchmarks.serving [--requests 300] [--seconds 10]

The service is a process of its own (one thread that answers); clients are threads of this process,
each with one connection, and send a fixed number of requests for at most so many seconds. A request
has 1 or 100 rows of the alarm network with 60 % of its variables observed, under one count: the
same variables in all rows, or other ones in each. The last setting lets 200 rows wait only. `lost`
counts requests that got no answer at all: neither 200 nor 503.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import cmpe
from benchmarks.frame import Recorder, parser, print_table

COLUMNS = (
    "observed",
    "clients",
    "rows",
    "queue",
    "answered",
    "refused",
    "lost",
    "rows/s",
    "p50 ms",
    "p99 ms",
)
FAULTS = "HYPOVOLEMIA=TRUE LVFAILURE=TRUE ANAPHYLAXIS=TRUE INSUFFANESTH=TRUE <= 1"
PORT = 8765
# what rows observe, clients, rows of a request, rows that may wait
SETTINGS = (
    ("same", 1, 1, 20_000), ("same", 64, 1, 20_000), ("same", 1, 100, 20_000),
    ("same", 16, 100, 20_000), ("other", 64, 1, 20_000), ("other", 16, 100, 20_000),
    ("same", 64, 100, 200),
)  # fmt: skip


@dataclass(frozen=True)
class Load:
    """What is sent: bodies, clients, and when to stop."""

    bodies: Sequence[bytes]
    clients: int
    requests: int
    seconds: float


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser(__doc__)
    options.add_argument("--requests", type=int, default=300, help="of each client at most")
    options.add_argument("--seconds", type=float, default=10.0, help="of each setting at most")
    chosen = options.parse_args(arguments)
    rng = np.random.default_rng(chosen.seed)
    with Recorder("serving", chosen, "alarm, 60 % observed, one count") as recorder:
        for observed, clients, rows, queue in SETTINGS:
            bodies = _bodies(rows, rng, is_same=observed == "same")
            load = Load(bodies, clients, chosen.requests, chosen.seconds)
            measured = _measured(load, rows, queue)
            recorder.add(observed=observed, clients=clients, rows=rows, queue=queue, **measured)
    print_table(recorder.records, COLUMNS)
    return 0


def _bodies(rows: int, rng: np.random.Generator, *, is_same: bool) -> list[bytes]:
    """Requests of sampled rows, which observe the same variables or each other ones."""
    net = cmpe.read_model(cmpe.example("alarm"))
    drawn = cmpe.sample(net, 50 * rows, seed=int(rng.integers(1 << 30))).assignments
    domain, out = net.domain, []
    seen = rng.random(net.variables) < 0.6
    for k in range(50):
        asked = [
            {
                domain.name(v): domain.states_of(v)[row[v]]
                for v in range(net.variables)
                if (seen[v] if is_same else rng.random() < 0.6)
            }
            for row in drawn[k * rows : (k + 1) * rows]
        ]
        out.append(json.dumps({"rows": asked}).encode())
    return out


def _measured(load: Load, rows: int, queue: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "alarm.bif"
        cmpe.write_model(cmpe.read_model(cmpe.example("alarm")), model)
        words = ["--objective", str(model), "--count", FAULTS, "--port", str(PORT)]
        code = "from cmpe.cli.main import main; main()"
        command = [sys.executable, "-c", code, "serve", *words, "--queue", str(queue)]
        server = subprocess.Popen(command, env={**os.environ})
        try:
            _until_ready(server)
            began = time.perf_counter()
            with ThreadPoolExecutor(load.clients) as pool:
                found = [each for part in pool.map(_client, [load] * load.clients) for each in part]
            wall = time.perf_counter() - began
        finally:
            server.terminate()
            server.wait(30)
    times = sorted(seconds for status, seconds in found if status == 200)
    refused = sum(status == 503 for status, _ in found)
    return {
        "answered": len(times),
        "refused": refused,
        "lost": len(found) - len(times) - refused,
        "rows/s": round(len(times) * rows / wall),
        "p50 ms": round(1e3 * times[len(times) // 2], 1),
        "p99 ms": round(1e3 * times[min(len(times) - 1, int(0.99 * len(times)))], 1),
    }


def _until_ready(server: subprocess.Popen[bytes]) -> None:
    for _ in range(1200):
        if server.poll() is not None:
            raise RuntimeError(f"the service ended with exit code {server.returncode}")
        try:
            if _asked(http.client.HTTPConnection("127.0.0.1", PORT, timeout=5), None) == 200:
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise RuntimeError("the service was not ready within two minutes")


def _client(load: Load) -> list[tuple[int, float]]:
    """Status and seconds of every request of one client; 0 where no answer came."""
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=60)
    out, end = [], time.perf_counter() + load.seconds
    for number in range(load.requests):
        began = time.perf_counter()
        if began > end:
            break
        try:
            status = _asked(connection, load.bodies[number % len(load.bodies)])
        except (OSError, http.client.HTTPException):
            status = 0
            connection.close()
        out.append((status, time.perf_counter() - began))
    connection.close()
    return out


def _asked(connection: http.client.HTTPConnection, body: bytes | None) -> int:
    """The status of a POST, or of /health."""
    if body is None:
        connection.request("GET", "/health")
    else:
        connection.request("POST", "/solve", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    return answer.status


if __name__ == "__main__":
    sys.exit(main())
