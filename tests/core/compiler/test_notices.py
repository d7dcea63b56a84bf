from __future__ import annotations

import logging

import pytest

from cmpe.core.compiler import notices
from cmpe.core.compiler.costs import COSTS


@pytest.fixture(autouse=True)
def nothing_compiled_yet(monkeypatch, caplog):
    caplog.set_level(logging.WARNING, logger="cmpe")  # a page shows how to silence it
    monkeypatch.setattr(notices, "_begun", 0)
    monkeypatch.setattr(notices, "_asked_for", None)
    monkeypatch.setattr(notices, "_logged", set())
    monkeypatch.setattr(notices, "slowness", 1)


def test_one_line_for_the_first_function_and_none_for_others(caplog):
    with notices.asked_for("exact"):
        notices.begin("cmpe.a.kernels.one")
        notices.begin("cmpe.a.kernels.two")
        notices.end("cmpe.a.kernels.two")
    [record] = caplog.records
    assert (record.name, record.levelno) == ("cmpe", logging.WARNING)
    assert f"compiling exact for this machine, once, up to about {COSTS['exact'].seconds} s" in (
        record.getMessage()
    )


def test_what_takes_more_than_was_said_has_a_line_of_its_own(caplog):
    with notices.asked_for("auto"):
        notices.begin("cmpe.a.kernels.one")
        with notices.asked_for("wide", more=True):
            notices.begin("cmpe.b.kernels.two")
        notices.begin("cmpe.a.kernels.three")
    first, second = (record.getMessage() for record in caplog.records)
    assert "compiling auto for this machine" in first
    assert f"what wide rows need for this machine, once, up to about {COSTS['wide'].seconds} s" in (
        second
    )


def test_what_nobody_estimated_is_named_after_its_module(caplog):
    notices.begin("cmpe.core.tables.evaluate")
    assert "compiling cmpe.core.tables for this machine, once, some seconds; later" in caplog.text


def test_the_outermost_question_counts():
    told = []
    with notices.telling(told.append):
        with notices.asked_for("auto"), notices.asked_for("bounds"):
            notices.begin("cmpe.one")
        notices.begin("cmpe.two")
        notices.end("cmpe.two")
    assert [(n.what, n.begun, n.is_over) for n in told] == [
        ("auto", 1, False),
        (None, 2, False),
        (None, 2, True),
    ]
    assert told[0].cost is COSTS["auto"]
    assert told[1].cost is None
