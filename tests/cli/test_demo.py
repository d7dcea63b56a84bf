"""`cmpe demo`: a named problem and its proof, its front, and a race on a wide problem."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from cmpe.cli.demo import SHOWN, spin_glass
from tests.cli.commands import output


def lines_of(text):
    return {line[3:27].strip(): line[27:].split() for line in text.splitlines()}


def test_demo_shows_proofs_and_a_race(tmp_path):
    figure = tmp_path / "demo.png"
    text = output("demo", "--seconds", 0.2, "--side", 6, "--out", figure)
    assert "k = 3   log-probability  -11.63   disconnect, lvfailure, intubation" in text
    assert "-12.32, is proved: no feasible assignment has a higher objective." in text
    assert "The front has 4 points, complete: proved." in text
    found = lines_of(text)
    for name in ("HiGHS", "search", "learned start + search", "constant start + search"):
        assert len(found[name]) == 3, name
    assert float(found["learned start + search"][-1]) <= 0.5
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert "Skipped" not in text
    assert len(text.splitlines()) <= 33


def test_what_is_missing_is_said(tmp_path, monkeypatch):
    """Without torch and matplotlib, as far as this process can tell."""
    for name in [*sys.modules]:
        if name.startswith(("cmpe.learning.training.fitting", "matplotlib")):
            monkeypatch.delitem(sys.modules, name)
    for name in ("cmpe.learning.training.fitting", "matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    text = output("demo", "--seconds", 0.05, "--side", 5, "--out", tmp_path / "demo.png")
    assert (
        "Skipped: the learned start, for want of torch; install it with: pip install 'cmpe[learn]'"
        in text
    )
    assert (
        "Skipped: the figure, for want of matplotlib; install it with: pip install 'cmpe[report]'"
        in text
    )
    assert list(tmp_path.iterdir()) == []


def test_the_wide_problem_is_what_it_says():
    problem, rows = spin_glass(8, 1)
    assert problem.variables == 64
    assert rows.shape[1] == len(problem.evidence_variables) == 3
    again, others = spin_glass(8, 1)
    assert problem.constraints[0].at_most == again.constraints[0].at_most
    assert np.array_equal(rows[:SHOWN], others[:SHOWN])


@pytest.mark.parametrize("option", ["--seconds", "--side"])
def test_nothing_to_show_is_refused(refused, option):
    assert f"Invalid value for '{option}'" in refused("demo", option, "0")
