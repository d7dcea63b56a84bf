"""`cmpe serve`: a problem over HTTP, with a page to explore it in a browser."""

from __future__ import annotations

from typing import Annotated

import typer

from cmpe.cli.options import METHOD_HELP, ProblemOptions, refuse_unknown, spread
from cmpe.errors import MissingExtra
from cmpe.solvers.base import Limits
from cmpe.solving import chosen


@spread
def serve(
    context: typer.Context,
    models: ProblemOptions,
    *,
    method: Annotated[str, typer.Option(help=METHOD_HELP)] = "auto",
    time_limit: Annotated[
        float,
        typer.Option(
            min=0.001,
            help="The largest time limit, in seconds per row; a request may set a smaller one.",
        ),
    ] = 1.0,
    threads: Annotated[int, typer.Option(min=1, help="Threads that answer a batch.")] = 1,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port.")] = 8000,
    most_rows: Annotated[int, typer.Option(min=1, help="The most rows in a request.")] = 10_000,
    most_bytes: Annotated[
        int, typer.Option(min=1, help="The most bytes in a request.")
    ] = 10_000_000,
    queue: Annotated[
        int,
        typer.Option(
            min=1, help="The most rows that may wait; further requests are answered with 503."
        ),
    ] = 20_000,
    connections: Annotated[
        int,
        typer.Option(
            min=1, help="The most connections at a time; further ones are answered with 503."
        ),
    ] = 256,
) -> int:
    """Answer rows over HTTP, with certificates, and serve a page to explore the problem."""
    from cmpe.service.app import Service
    from cmpe.service.questions import Allowed

    try:
        import uvicorn
    except ImportError:
        raise MissingExtra.named("uvicorn", "serve") from None
    refuse_unknown(method, Limits(seconds=time_limit, threads=threads))
    problem, _ = models.read(context)
    allowed = Allowed(bytes=most_bytes, rows=most_rows, seconds=time_limit, queue=queue)
    service = Service(problem, chosen(method, problem), allowed, threads)
    uvicorn.run(
        service.app(), host=host, port=port, limit_concurrency=connections, log_level="warning",
        server_header=False, timeout_graceful_shutdown=10,
    )  # fmt: skip
    return 0
