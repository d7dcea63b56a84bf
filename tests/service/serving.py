"""A service on loopback, in a thread of this process, as its clients see it."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time

from cmpe.service.app import Service


@contextlib.contextmanager
def serving(problem, allowed=None, **options):
    """The port of a service that is ready."""
    import uvicorn

    config = uvicorn.Config(
        Service(problem, allowed=allowed, **options).app(), port=0, log_level="error"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        while request(port, "GET", "/health")[0] != 200:
            time.sleep(0.05)
        yield port
    finally:
        server.should_exit = True
        thread.join()


def request(port, method, path, body=None, kind="application/json"):
    """Status, headers and the JSON (or text) of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    data = json.dumps(body) if isinstance(body, dict | list) else body
    try:
        connection.request(method, path, data, {"Content-Type": kind} if data is not None else {})
        answer = connection.getresponse()
        text = answer.read().decode()
    finally:
        connection.close()
    is_json = answer.headers.get_content_type() == "application/json"
    return answer.status, answer.headers, json.loads(text) if is_json else text


def post(port, body, path="/solve", **options):
    """Status and JSON of a POST."""
    status, _, found = request(port, "POST", path, body, **options)
    return status, found
