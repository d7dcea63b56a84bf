"""The service as a Starlette application: /solve, /explain, /model, /health, /metrics, a page.

POST /solve    {"rows": [{"Rain": "yes"}], "limits": {"faults": [2]}, "potentials": {...}}
POST /explain  the same with one row: the answer, others, how sure, what limits cost, or why not
GET  /model    variables, states, constraints, and what a request may ask for
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from cmpe.errors import CmpeError, InputError, MissingExtra, TooLarge
from cmpe.problem import Problem
from cmpe.service.batching import Batcher, Overloaded
from cmpe.service.questions import (
    Allowed,
    Asked,
    Kind,
    answered,
    described,
    encoded,
    explained,
    parsed,
    told,
)
from cmpe.solvers.dispatch import Chosen

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

EXPLAINED_ROWS = 100  # that an explanation counts for in the queue
PAGE = {"/": "page.html", "/page.js": "page.js", "/page.css": "page.css"}
TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css"}
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds


class BodyTooLarge(InputError):  # noqa: N818 - a noun reads better where it is caught
    """A body of more bytes than a request may have."""


@dataclass
class _Seen:
    """What /metrics counts."""

    requests: Counter[tuple[str, int]] = field(default_factory=Counter)  # by path and status
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    seconds: float = 0.0

    def add(self, path: str, status: int, seconds: float) -> None:
        """One request that was answered."""
        self.requests[path, status] += 1
        if path in ("/solve", "/explain"):
            self.seconds += seconds
            self.buckets[next((k for k, b in enumerate(BUCKETS) if seconds <= b), -1)] += 1


class Service:
    """A problem, a method and the requests about them."""

    def __init__(
        self, problem: Problem, method: Chosen = "auto", allowed: Allowed | None = None,
        threads: int = 1,
    ) -> None:  # fmt: skip
        self._problem, self._method = problem.observing(()), method  # rows say what they observe
        self._allowed, self._threads = allowed or Allowed(), threads
        self._seen = _Seen()
        self._ready = False
        self._batcher: Batcher | None = None

    def app(self) -> Starlette:
        """What a server such as uvicorn runs."""
        try:
            from starlette.applications import Starlette
            from starlette.routing import Route
        except ImportError:
            raise MissingExtra.named("starlette", "serve") from None
        routes = [
            Route("/solve", self._post, methods=["POST"]),
            Route("/explain", self._post, methods=["POST"]),
            Route("/model", self._model),
            Route("/health", self._health),
            Route("/metrics", self._metrics),
            *(Route(path, self._page) for path in PAGE),
        ]
        return Starlette(routes=routes, lifespan=self._lifespan)

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """Start the thread that answers, and compile what it needs."""
        self._batcher = Batcher(
            self._work, batch_rows=self._allowed.rows, queue_rows=self._allowed.queue,
            wait=self._allowed.wait,
        )  # fmt: skip
        tasks = [asyncio.create_task(self._batcher.run()), asyncio.create_task(self._warm())]
        yield
        for task in tasks:
            task.cancel()
        self._batcher.close()

    async def _warm(self) -> None:
        first = parsed(self._problem, b"{}", self._allowed)
        assert self._batcher is not None
        with contextlib.suppress(CmpeError):
            await self._batcher.ask(("solve", first.kind), first, 1)
        self._ready = True

    def _work(self, kind: tuple[str, Kind], asked: Sequence[Asked]) -> list[Any]:
        """What the thread does with a batch: the bytes of each answer."""
        if kind[0] == "explain":
            return [encoded(explained(each, self._method)) for each in asked]
        found = answered(list(asked), self._method, self._threads)
        return [encoded({"answers": told(self._problem, each)}) for each in found]

    async def _post(self, request: Request) -> Response:
        began = time.perf_counter()
        path = request.url.path
        status, body = await self._answer(request, path.removeprefix("/"))
        self._seen.add(path, status, time.perf_counter() - began)
        return _json(status, body)

    async def _answer(self, request: Request, kind: str) -> tuple[int, bytes]:
        try:
            body = await self._body(request)
            asked = await asyncio.to_thread(parsed, self._problem, body, self._allowed)
            if kind == "explain" and len(asked.rows) != 1:
                raise InputError(f"an explanation is of one row, found {len(asked.rows)}")
            assert self._batcher is not None
            weight = EXPLAINED_ROWS if kind == "explain" else len(asked.rows)
            return 200, await self._batcher.ask((kind, asked.kind), asked, weight)
        except BodyTooLarge as error:
            return 413, _error(error)
        except Overloaded as error:
            return 503, _error(error)
        except (InputError, TooLarge) as error:
            return 400, _error(error)
        except CmpeError as error:
            return 500, _error(error)

    async def _body(self, request: Request) -> bytes:
        """The body of a request, which is JSON and of limited size."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise InputError(f"the content type must be application/json, found {kind[:60]!r}")
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > self._allowed.bytes:
                raise BodyTooLarge(f"a body has at most {self._allowed.bytes} bytes")
            parts.append(part)
        return b"".join(parts)

    async def _model(self, _: Request) -> Response:
        return _json(200, encoded(described(self._problem, self._allowed)))

    async def _health(self, _: Request) -> Response:
        state = "ok" if self._ready else "compiling"
        body = {"status": state, "version": version("cmpe"), "problem": self._problem.name}
        return _json(200 if self._ready else 503, encoded(body))

    async def _metrics(self, _: Request) -> Response:
        from starlette.responses import PlainTextResponse

        assert self._batcher is not None
        lines = ["# TYPE cmpe_requests_total counter"]
        for (path, status), count in sorted(self._seen.requests.items()):
            lines.append(f'cmpe_requests_total{{path="{path}",status="{status}"}} {count}')
        for name, kind, value in (
            ("cmpe_rows_total", "counter", self._batcher.rows),
            ("cmpe_batches_total", "counter", self._batcher.batches),
            ("cmpe_waiting_rows", "gauge", self._batcher.waiting),
        ):
            lines += [f"# TYPE {name} {kind}", f"{name} {value}"]
        lines.append("# TYPE cmpe_request_seconds histogram")
        total = 0
        for bound, count in zip((*map(str, BUCKETS), "+Inf"), self._seen.buckets, strict=True):
            total += count
            lines.append(f'cmpe_request_seconds_bucket{{le="{bound}"}} {total}')
        lines.append(f"cmpe_request_seconds_sum {self._seen.seconds:.6f}")
        lines.append(f"cmpe_request_seconds_count {total}")
        return PlainTextResponse("\n".join(lines) + "\n", headers=HEADERS)

    async def _page(self, request: Request) -> Response:
        from starlette.responses import Response

        name = PAGE[request.url.path]
        text = files("cmpe.service").joinpath(name).read_text(encoding="utf-8")
        return Response(text, media_type=TYPES[name.rpartition(".")[2]], headers=HEADERS)


def _json(status: int, body: bytes) -> Response:
    from starlette.responses import Response

    more = {"Retry-After": "1"} if status == 503 else {}
    return Response(body, status, {**HEADERS, **more}, "application/json")


def _error(error: CmpeError) -> bytes:
    return encoded({"error": str(error)})
