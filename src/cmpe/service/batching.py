"""Requests that arrive together are answered in one batch; more than may wait are refused."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from cmpe.errors import CmpeError


class Overloaded(CmpeError):  # noqa: N818 - what the service is
    """More rows wait than may."""


@dataclass(frozen=True)
class _Waiting:
    """One request in the queue."""

    kind: Any  # requests of one kind make a batch
    asked: Any
    rows: int
    done: asyncio.Future[Any]


class Batcher:
    """A queue of requests, and one thread that answers those of a kind together.

    `work` answers the requests of a batch, in order; whatever is accepted is answered or refused
    by an error of its own, so nothing is lost.
    """

    def __init__(
        self,
        work: Callable[[Any, Sequence[Any]], Sequence[Any]],
        *,
        batch_rows: int,
        queue_rows: int,
        wait: float,
    ) -> None:
        self._work, self._batch, self._most, self._wait = work, batch_rows, queue_rows, wait
        self._queue: deque[_Waiting] = deque()
        self._arrived = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, "cmpe-serve")
        self.waiting = 0  # rows in the queue or being answered
        self.batches = 0
        self.rows = 0

    async def ask(self, kind: Any, asked: Any, rows: int) -> Any:
        """The answer to one request; Overloaded where there is no room or it waited too long."""
        if self.waiting + rows > self._most:
            raise Overloaded(f"{self.waiting} rows wait, and {self._most} may; try again later")
        item = _Waiting(kind, asked, rows, asyncio.get_running_loop().create_future())
        self._queue.append(item)
        self.waiting += rows
        self._arrived.set()
        try:
            return await asyncio.wait_for(item.done, self._wait)
        except TimeoutError:
            raise Overloaded(f"no answer after {self._wait:g} s; try again later") from None

    async def run(self) -> None:
        """Answer what arrives, until it is cancelled."""
        while True:
            while not self._queue:
                self._arrived.clear()
                await self._arrived.wait()
            batch = self._next()
            await self._answer([item for item in batch if not item.done.done()])
            self.waiting -= sum(item.rows for item in batch)

    def close(self) -> None:
        """Refuse what waits, and end the thread."""
        while self._queue:
            item = self._queue.popleft()
            if not item.done.done():
                item.done.set_exception(Overloaded("the service is being stopped"))
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _next(self) -> list[_Waiting]:
        """The first request, and all others of its kind that fit beside it."""
        first = self._queue.popleft()
        batch, rows, others = [first], first.rows, deque[_Waiting]()
        while self._queue:
            item = self._queue.popleft()
            fits = item.kind == first.kind and rows + item.rows <= self._batch
            if fits:
                batch.append(item)
                rows += item.rows
            else:
                others.append(item)
        self._queue = others
        return batch

    async def _answer(self, batch: list[_Waiting]) -> None:
        if not batch:
            return
        loop = asyncio.get_running_loop()
        asked = [item.asked for item in batch]
        try:
            found = await loop.run_in_executor(self._thread, self._work, batch[0].kind, asked)
        except Exception as error:
            if len(batch) > 1:  # one request's error must not be the others'
                for item in batch:
                    await self._answer([item])
            elif not batch[0].done.done():
                batch[0].done.set_exception(error)
            return
        self.batches += 1
        self.rows += sum(item.rows for item in batch)
        for item, answer in zip(batch, found, strict=True):
            if not item.done.done():
                item.done.set_result(answer)
