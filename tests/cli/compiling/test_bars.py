from __future__ import annotations

import io
from contextlib import redirect_stderr

from cmpe.cli.compiling import bars
from cmpe.core.compiler.notices import Notice

FIRST = Notice("cmpe.a.kernels.one", "exact", 1, False)
LAST = Notice("cmpe.a.kernels.one", "exact", 900, True)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_without_a_terminal_one_line(capsys):
    bar = bars.CompilingBar()
    for notice in (FIRST, FIRST, LAST):
        bar(notice)
    bar.close()
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"cmpe: {FIRST.sentence()}\n")


def test_another_engine_is_another_line(capsys):
    bar = bars.CompilingBar()
    front = Notice("cmpe.b.kernels.two", "front", 2, False)
    for notice in (FIRST, front, FIRST):
        bar(notice)
    assert capsys.readouterr().err == f"cmpe: {FIRST.sentence()}\ncmpe: {front.sentence()}\n"


def test_a_bar_in_a_terminal_that_goes_when_all_is_compiled(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    with redirect_stderr(Terminal()) as terminal:
        _show_and_close(bars.CompilingBar())
    assert terminal.getvalue().startswith(f"cmpe: {FIRST.sentence()}\n")


def _show_and_close(bar):
    bar(FIRST)
    [shown] = bars.SHOWN
    [task] = shown.tasks
    assert (task.description, task.completed, task.total) == ("compiling", 0, FIRST.cost.functions)
    bar(Notice("cmpe.b", "exact", 900, False))  # more than was estimated
    assert (task.completed, task.total) == (899, 900)
    bar(LAST)
    assert bars.SHOWN == []
    bar(Notice("cmpe.b", None, 901, False))  # more is compiled later, of what nobody estimated
    assert bars.SHOWN[0].tasks[0].total is None
    bar.close()
    assert bars.SHOWN == []


def test_it_joins_the_bar_that_is_on():
    bar = bars.CompilingBar()
    with redirect_stderr(Terminal()), bars.display("{task.description}") as shown:
        shown.add_task("solving", total=None)
        bar(FIRST)
        assert [task.description for task in shown.tasks] == ["solving", "compiling"]
        bar(LAST)
        assert [task.description for task in shown.tasks] == ["solving"]
