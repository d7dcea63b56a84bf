"""A process of its own: it serves many calls, and neither a crash nor a deaf call ends this one."""

import ctypes
import os
import resource
import signal
import threading
import time

import pytest

from cmpe.errors import BackendError
from cmpe.execution import isolated
from cmpe.execution.isolated import IsolatedProcess, Reply, allow_memory, isolated_process
from tests.execution.work import is_running, refuse


@pytest.fixture
def process():
    made = IsolatedProcess()
    yield made
    made.close()


def deaf():
    """Neither replies nor hears SIGINT, like a compiled loop."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    time.sleep(60)


def crash():
    ctypes.string_at(0)


def most_data():
    return resource.getrlimit(resource.RLIMIT_DATA)[0]


def test_memory_is_limited_there_and_not_here(process):
    before = most_data()
    allow_memory(10**9)
    assert most_data() == before
    process.call(allow_memory, 10**9)
    assert process.call(most_data).value == 10**9


def test_one_process_serves_many_calls(process):
    first = process.call(os.getpid)
    assert first.answered
    assert first.value != os.getpid()
    assert process.call(os.getpid) == first
    process.close()
    assert not is_running(first.value)


def test_what_a_call_raises_is_said(process):
    assert process.call(refuse, 1) == Reply(error="EvidenceError: odd: 1")
    assert process.call(abs, -2).value == 2


def test_a_crash_is_said_and_another_process_follows(process):
    before = process.call(os.getpid).value
    assert process.call(crash).error == "its process crashed (SIGSEGV)"
    assert process.call(os._exit, 3).error == "its process ended with exit code 3"
    assert process.call(os.getpid).value != before


def test_a_process_that_died_between_calls_is_replaced(process):
    os.kill(process.call(os.getpid).value, signal.SIGKILL)
    time.sleep(1.0)
    assert process.call(abs, -2).value == 2


def test_a_time_limit_stops_a_call(process):
    reply = process.call(time.sleep, 60, seconds=0.2)
    assert (reply.value, reply.stopped, reply.interrupted) == (None, True, False)
    assert process.call(abs, -2).value == 2


def test_a_call_that_does_not_stop_is_killed(process, monkeypatch):
    monkeypatch.setattr(isolated, "EXECUTION", isolated.EXECUTION._replace(process_grace=0.2))
    number = process.call(os.getpid).value
    assert process.call(deaf, seconds=0.1) == Reply(stopped=True)
    assert not is_running(number)


def test_an_event_and_ctrl_c_stop_a_call(process):
    stop = threading.Event()
    process.start()
    threading.Timer(0.2, stop.set).start()
    assert process.call(time.sleep, 60, stop=stop).interrupted
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    reply = process.call(time.sleep, 60)
    assert (reply.stopped, reply.interrupted) == (True, True)


def test_ctrl_c_while_it_starts(process, monkeypatch):
    monkeypatch.setattr(isolated, "CODE", "import time; time.sleep(60)")
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
    assert process.call(abs, -2) == Reply(stopped=True, interrupted=True)


def test_a_process_that_cannot_start_is_said(process, monkeypatch):
    monkeypatch.setattr(isolated, "CODE", "raise SystemExit")
    with pytest.raises(BackendError, match="could not be started"):
        process.call(abs, -2)


def test_a_large_call_to_a_process_that_dies_is_said(process):
    number = process.call(os.getpid).value
    os.kill(number, signal.SIGSTOP)
    threading.Timer(0.2, os.kill, (number, signal.SIGKILL)).start()
    assert process.call(len, bytes(10**6)).error == "its process crashed (SIGKILL)"


def test_each_thread_and_name_has_its_own():
    here = isolated_process("a")
    assert isolated_process("a") is here
    assert isolated_process("b") is not here
    others = []
    thread = threading.Thread(target=lambda: others.append(isolated_process("a")))
    thread.start()
    thread.join()
    assert others[0] is not here


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_leaves_the_process_to_its_parent(process):
    number = process.call(os.getpid).value
    child = os.fork()
    if child == 0:
        process.close()
        os._exit(0)
    os.waitpid(child, 0)
    assert is_running(number)
    assert process.call(os.getpid).value == number


@pytest.mark.skipif(not os.path.exists("/proc"), reason="the kernel of Linux ends it")
def test_it_ends_with_a_parent_that_is_killed(tmp_path):
    import subprocess
    import sys

    script = (
        "import os, sys, time\n"
        "from cmpe.execution.isolated import IsolatedProcess\n"
        "p = IsolatedProcess()\n"
        "print(p.call(os.getpid).value, flush=True)\n"
        "p.call(time.sleep, 60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as parent:
        number = int(parent.stdout.readline())
        assert is_running(number)
        parent.kill()
    end = time.monotonic() + 5
    while is_running(number) and time.monotonic() < end:
        time.sleep(0.05)
    assert not is_running(number)
