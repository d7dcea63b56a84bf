"""Parts of a batch over threads of this process: for compiled code, which lets others run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor


def over_threads(
    work: Callable[[slice], slice], parts: Sequence[slice], threads: int
) -> Iterator[slice]:
    """Yield each part, in their order, once `work` is done with it.

    When the caller stops (Ctrl-C, say), parts that have not begun are dropped.
    """
    with ThreadPoolExecutor(threads) as pool:
        try:
            yield from pool.map(work, parts)
        finally:
            pool.shutdown(cancel_futures=True)
