from __future__ import annotations

import re

import pytest

from cmpe import warming


def test_parts_and_a_last_line(call, monkeypatch):
    asked = []

    def compile_parts(names, workers, report):
        asked.append((list(names), workers))
        return warming.in_cache()

    monkeypatch.setattr(warming, "compile_parts", compile_parts)
    code, out, err = call("compile", "--workers", "3")
    assert (code, err) == (0, "")
    assert re.fullmatch(r"\d+ functions compiled, \d+\.\d s, \d+\.\d MB in .*/cmpe(/core)?\n", out)
    assert call("compile", "exact", "local")[0] == 0
    assert asked[0] == (list(warming.PARTS), 3)
    assert asked[1][0] == ["exact", "local"]


def test_an_unknown_part_is_refused(call):
    code, out, err = call("compile", "exact", "nonsense")
    assert (code, out) == (2, "")
    assert err.startswith("error: parts are ")
    assert err.endswith("found nonsense\n")


@pytest.mark.parametrize("workers", [0, -1])
def test_workers(call, workers):
    assert call("compile", "--workers", workers)[0] == 2
