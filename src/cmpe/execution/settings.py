"""Settings of processes, threads and clusters."""

from __future__ import annotations

from typing import NamedTuple


class ExecutionSettings(NamedTuple):
    """What tunes processes, threads and clusters.

    They were chosen by hand; `benchmarks.streams` measures what a change does.
    """

    # Blocks of rows.
    ahead: int = 2  # blocks for each core: one that runs, one that waits
    fetched: int = 4  # shared values that a process keeps
    blocks: int = 8  # for each core, so that no core waits long for the last one
    largest: int = 4096  # rows of a block
    # Processes and threads.
    process_grace: float = 2.0  # seconds to reply after a request to stop
    poll: float = 0.05  # seconds between two looks at `stop`, and between two requests to stop
    start: float = 60.0  # seconds to start, on a very busy machine
    retries: int = 2  # of tasks that were running when a process died
    thread_grace: float = 2.0  # seconds to end after being cancelled
    # Ray.
    cores_fresh: float = 1.0  # seconds for which a count of cores is used
    ray_retries: int = 8  # of a task whose worker or machine died


EXECUTION = ExecutionSettings()
