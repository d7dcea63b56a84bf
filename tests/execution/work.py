"""Jobs and tasks: at the top of a module, since they are sent to other processes by name."""

import os
import signal
import time

from cmpe.errors import EvidenceError


def square(number):
    return number * number


def die_at_three(row):
    if row == 3:
        os._exit(1)
    return row


def die_once(numbers, which, flag):
    if which == 3 and not os.path.exists(flag):
        open(flag, "w").close()
        os._exit(1)
    return numbers[which]


def refuse(number):
    raise EvidenceError(f"odd:\n  {number}")


def wait_for_the_last(number, last, flag):
    """Block 0 ends when the last one has; a minute is too long."""
    if number == last:
        open(flag, "w").close()
    end = time.monotonic() + 60.0
    while number == 0 and not os.path.exists(flag):
        if time.monotonic() > end:
            raise TimeoutError("nobody took the other blocks")
        time.sleep(0.01)
    return number


def ignores_interrupts(_row):
    return signal.getsignal(signal.SIGINT) == signal.SIG_IGN


def sleeps(_row):
    """A row that nobody waits for; the workers' numbers are on stdout, if that is the parent's."""
    print(os.getpid(), flush=True)
    time.sleep(600)


def end_of(executor, count):
    """The outcomes of so many tasks by name; the executor is closed."""
    outcomes = [executor.next() for _ in range(count)]
    executor.close()
    return {outcome.name: outcome for outcome in outcomes}


def is_running(process):
    """Whether the process of this number is there and has not ended."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
