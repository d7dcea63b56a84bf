"""The service against `cmpe.solve`, its limits, and what happens when too much arrives."""

import asyncio
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings

import cmpe
from cmpe import LogLinearModel, Problem
from cmpe.service.batching import Batcher, Overloaded
from cmpe.service.questions import Allowed, answered, parsed
from tests.problems import all_assignments, random_problem, seeds

pytest.importorskip("starlette", reason="the service needs the extra serve")
pytest.importorskip("uvicorn")
from tests.service.serving import post, request, serving

NET = LogLinearModel.from_tables(
    [2, 3, 2],
    [((0, 1), np.arange(6.0).reshape(2, 3)), ((1, 2), [[0, 1], [2, -np.inf], [0.5, 3]])],
    names=["rain", "wind", "late"],
    states=[["no", "yes"], ["low", "mid", "high"], ["no", "yes"]],
)
PROBLEM = Problem(
    NET, [cmpe.count({"rain": "yes", "late": "yes"}, name="trouble") <= 1], name="commute"
)
ROWS = [{}, {"rain": "yes"}, {"wind": [0.2, 0.5, 0.3]}, {"wind": {"low": 1, "mid": 0, "high": 0}}]


@pytest.fixture(scope="module")
def port():
    with serving(PROBLEM, Allowed(rows=50, bytes=20_000)) as found:
        yield found


def states_of(answers):
    return [answer["states"] for answer in answers]


def test_answers_are_those_of_solve(port):
    status, found = post(port, {"rows": ROWS})
    expected = cmpe.solve(PROBLEM, ROWS)
    assert status == 200
    assert states_of(found["answers"]) == [dict(answer) for answer in expected]
    assert [a["objective"] for a in found["answers"]] == pytest.approx(expected.objective.tolist())
    assert [a["status"] for a in found["answers"]] == expected.labels
    assert all(a["bound"] >= a["objective"] for a in found["answers"])


def test_limits_and_potentials_of_rows(port):
    potentials = {"late": [[0.0, 9.0], [0.0, -9.0]]}
    body = {"limits": {"trouble": [0, 2]}, "potentials": potentials}
    status, found = post(port, body)
    expected = cmpe.solve(
        PROBLEM, limits={"trouble": [0, 2]}, potentials={"late": np.array(potentials["late"])}
    )
    assert status == 200
    assert states_of(found["answers"]) == [dict(answer) for answer in expected]
    assert [a["constraints"][0]["at_most"] for a in found["answers"]] == [0, 2]


@given(seeds)
@settings(max_examples=30)
def test_requests_answered_together_are_those_answered_alone(seed):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng)[0].observing(())
    cards = problem.domain.cardinalities
    asked = []
    for _ in range(int(rng.integers(1, 5))):
        rows = [
            {str(v): int(rng.integers(k)) for v, k in enumerate(cards) if rng.random() < 0.4}
            for _ in range(int(rng.integers(1, 4)))
        ]
        asked.append(parsed(problem, json.dumps({"rows": rows}).encode(), Allowed(seconds=30)))
    together = answered(asked, "auto", 1)
    for each, found in zip(asked, together, strict=True):
        alone = cmpe.solve(problem, each.rows.evidence)
        assert found.labels == alone.labels
        assert found.objective == pytest.approx(alone.objective, nan_ok=True)


BAD = {
    "text": ("{", "a request must be JSON"),
    "list": ([1], "must be a JSON object"),
    "deep": ("[" * 5000, "a request must be JSON"),
    "nan": ('{"limits": {"trouble": NaN}}', "numbers must be finite"),
    "path": ({"model": "/etc/passwd"}, "a request has rows, potentials"),
    "evidence": ({"rows": "rows.csv"}, "rows must be a list of objects"),
    "name": ({"rows": [{"rian": "yes"}]}, "did you mean 'rain'"),
    "state": ({"rows": [{"rain": "perhaps"}]}, "has no state 'perhaps'"),
    "many": ({"rows": [{}] * 51}, "1 to 50 rows, found 51"),
    "none": ({"rows": []}, "1 to 50 rows, found 0"),
    "repeated": ({"limits": {"trouble": [1] * 60}}, "1 to 50 rows, found 60"),
    "slow": ({"time_limit": 5}, "at most 1 s a row"),
    "limit": ({"limits": {"touble": 1}}, "there is no constraint 'touble'"),
    "infinite": ('{"limits": {"trouble": 1e999}}', "a limit must be a finite number"),
    "shape": ({"potentials": {"rain": [[0.0]]}}, "must have shape"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_requests_are_one_line(port, name):
    body, message = BAD[name]
    body = body if isinstance(body, str) else json.dumps(body)
    status, found = post(port, body)
    assert status == 400
    assert message in found["error"]
    assert "\n" not in found["error"]


def test_limits_on_size_type_and_method(port):
    assert post(port, "x" * 20_001)[0] == 413
    assert post(port, "{}", kind="text/plain")[0] == 400
    assert request(port, "GET", "/solve")[0] == 405
    assert request(port, "GET", "/etc/passwd")[0] == 404
    assert request(port, "GET", "/../questions.py")[0] == 404


def test_explanations(port):
    status, found = post(port, {"rows": [{"wind": "high"}]}, "/explain")
    answer = cmpe.solve(PROBLEM, {"wind": "high"})
    front = cmpe.front(PROBLEM, {"wind": "high"})[0]
    assert status == 200
    assert found["proof"] == answer[0].proof
    assert found["alternatives"][0]["states"] == dict(answer[0])
    assert found["fronts"][0]["objective"] == pytest.approx(front.objective.tolist())
    likely = cmpe.probability(PROBLEM, {"wind": "high"})
    assert found["sure"]["probability"] == pytest.approx(likely.of(answer)[0])
    assert found["sure"]["marginals"]["rain"] == pytest.approx(likely.marginals["rain"][0])
    status, found = post(port, {"rows": [{"rain": "yes", "late": "yes"}]}, "/explain")
    assert status == 200
    assert "trouble" in found["conflict"]["text"]
    assert post(port, {"rows": [{}, {}]}, "/explain")[0] == 400


def test_health_model_and_metrics(port):
    assert request(port, "GET", "/health")[2]["status"] == "ok"
    model = request(port, "GET", "/model")[2]
    assert model["constraints"] == [{"name": "trouble", "relation": "<=", "limit": 1.0}]
    assert model["variables"][1] == {"name": "wind", "states": ["low", "mid", "high"]}
    post(port, {})
    text = request(port, "GET", "/metrics")[2]
    numbers = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")
    assert float(numbers['cmpe_requests_total{path="/solve",status="200"}']) >= 1
    assert numbers["cmpe_waiting_rows"] == "0"
    total = float(numbers["cmpe_request_seconds_count"])
    assert float(numbers['cmpe_request_seconds_bucket{le="+Inf"}']) == total


def test_pages_bring_no_script_of_others(port):
    status, headers, page = request(port, "GET", "/")
    assert status == 200
    assert headers["Content-Security-Policy"].startswith("default-src 'self'")
    assert "http" not in page.replace("http-equiv", "")
    for path in ("/page.js", "/page.css"):
        assert request(port, "GET", path)[0] == 200


def test_what_is_accepted_is_answered_and_the_rest_is_refused():
    """Many clients at once, more than may wait: 200 with the right answer, or 503."""
    with serving(PROBLEM, Allowed(rows=8, queue=16)) as port:
        rows = [{"rain": "yes"}, {"rain": "no"}] * 4
        with ThreadPoolExecutor(24) as clients:
            found = list(clients.map(lambda _: post(port, {"rows": rows}), range(120)))
        statuses = {status for status, _ in found}
        assert statuses <= {200, 503}
        assert 200 in statuses
        expected = [dict(answer) for answer in cmpe.solve(PROBLEM, rows)]
        for status, answer in found:
            if status == 200:
                assert states_of(answer["answers"]) == expected
            else:
                assert "try again later" in answer["error"]
        assert request(port, "GET", "/metrics")[2].count("cmpe_waiting_rows 0") == 1


def run(work, *, queue_rows=10, wait=10.0):
    """Run a coroutine beside a batcher."""

    async def whole(act, batcher):
        task = asyncio.create_task(batcher.run())
        try:
            return await act(batcher)
        finally:
            task.cancel()
            batcher.close()

    def ask(act):
        async def start():
            return await whole(act, Batcher(work, batch_rows=4, queue_rows=queue_rows, wait=wait))

        return asyncio.run(start())

    return ask


def test_batches_hold_requests_of_one_kind_in_order():
    batches = []
    first = threading.Event()

    def work(kind, asked):
        batches.append((kind, list(asked)))
        if len(batches) == 1:
            first.wait(5)
        return [(kind, each) for each in asked]

    async def act(batcher):
        asks = [asyncio.create_task(batcher.ask("a", 0, 1))]
        await asyncio.sleep(0.05)
        asks += [asyncio.create_task(batcher.ask("ab"[k % 2], k, 1)) for k in range(1, 8)]
        await asyncio.sleep(0.05)
        first.set()
        return await asyncio.gather(*asks)

    found = run(work)(act)
    assert found == [("a", 0), *(("ab"[k % 2], k) for k in range(1, 8))]
    assert batches == [("a", [0]), ("b", [1, 3, 5, 7]), ("a", [2, 4, 6])]


def test_errors_are_of_the_request_that_has_them():
    def work(kind, asked):
        if "bad" in asked:
            raise ValueError("bad")
        return list(asked)

    async def act(batcher):
        return await asyncio.gather(
            *(batcher.ask("a", word, 1) for word in ("x", "bad", "y")), return_exceptions=True
        )

    first, error, last = run(work)(act)
    assert (first, str(error), last) == ("x", "bad", "y")


def test_too_many_rows_and_too_long_a_wait_are_refused():
    def work(kind, asked):
        time.sleep(0.3)
        return list(asked)

    async def act(batcher):
        asks = [asyncio.create_task(batcher.ask("a", k, 5)) for k in range(3)]
        found = await asyncio.gather(*asks, return_exceptions=True)
        await asyncio.sleep(0.7)
        return found, batcher.waiting

    found, waiting = run(work, wait=0.1)(act)
    assert all(isinstance(each, Overloaded) for each in found)
    assert "10 may" in str(found[2])
    assert waiting == 0
    found, _ = run(work)(act)
    assert found[:2] == [0, 1]


def test_the_model_of_a_service_is_enumerated():
    """One row of every assignment's evidence, against all assignments."""
    rows = all_assignments((2, 3, 2))
    h = NET.value(rows)
    trouble = (rows[:, 0] == 1).astype(int) + (rows[:, 2] == 1)
    body = {"rows": [{"wind": w} for w in ("low", "mid", "high")]}
    asked = parsed(PROBLEM, json.dumps(body).encode(), Allowed(seconds=30))
    (found,) = answered([asked], "auto", 1)
    for w in range(3):
        assert found.objective[w] == h[(rows[:, 1] == w) & (trouble <= 1)].max()
