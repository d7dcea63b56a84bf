"""Commands that read a cost function network with its bound."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

WCSP = "two 2 3 2 TOP 3 2 1 0 0 3 0 3 1 4 2 9 1 1 0 2 0 3 1 5"


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("loose.wcsp").write_text(WCSP.replace("TOP", "8"))
    Path("tight.wcsp").write_text(WCSP.replace("TOP", "6"))
    # counts state 1 of the first variable
    Path("count.uai").write_text("MARKOV\n2\n3 2\n1\n1 0\n3 1 2.718281828459045 1\n")


def lines(out):
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.parametrize("option", [[], ["--objective"]])
def test_solve_honours_the_bound(call, files, option):
    code, out, _ = call("solve", *option, "loose.wcsp")
    assert (code, lines(out)[0]["objective"]) == (0, -6.0)
    code, out, _ = call("solve", *option, "tight.wcsp")
    assert (code, lines(out)[0]["status"]) == (1, "infeasible")


def test_the_bound_joins_other_constraints(call, files):
    words = ["--objective", "loose.wcsp", "--constraint", "count.uai", "--at-least", "1"]
    code, out, _ = call("solve", *words)
    assert (code, lines(out)[0]["assignment"]) == (0, [1, 0])
    code, out, _ = call("front", *words)
    assert (code, [p["objective"] for p in lines(out)[0]["points"]]) == (0, [-6.0, -7.0])


def test_best_and_bound_honour_the_bound(call, files):
    code, out, _ = call("best", "--objective", "loose.wcsp")
    assert (code, [line["objective"] for line in lines(out)]) == (0, [-6.0, -7.0])
    code, out, _ = call("bound", "tight.wcsp")
    assert (code, lines(out)[0]["infeasible"]) == (0, True)
    code, out, _ = call("bound", "loose.wcsp")
    assert code == 0
    assert lines(out)[0]["bound"] >= -6.0


def test_convert_keeps_the_bound_or_refuses(call, refused, files):
    assert call("convert", "loose.wcsp", "copy.cfn")[0] == 0
    assert lines(call("solve", "copy.cfn")[1])[0]["objective"] == pytest.approx(-6.0)
    assert call("convert", "tight.wcsp", "tight.cfn")[0] == 0
    assert lines(call("solve", "tight.cfn")[1])[0]["status"] == "infeasible"
    Path("sum.wcsp").write_text(WCSP.replace("TOP", "9"))  # no entry alone reaches the bound
    message = refused("convert", "sum.wcsp", "copy.uai")
    assert message.endswith("which .uai files do not hold; convert it to .cfn")
    Path("free.wcsp").write_text(WCSP.replace("TOP", "99"))  # no sum reaches the bound
    assert call("convert", "free.wcsp", "copy.uai")[0] == 0
