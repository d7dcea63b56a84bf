"""`cmpe demo`: the main job on an embedded problem."""

from __future__ import annotations

import pytest

from cmpe import Solutions, reference
from cmpe.cli.demo import _comparison
from tests.cli.commands import output
from tests.problems import worked_example


def test_demo_shows_certificates_and_compares(tmp_path):
    figure = tmp_path / "demo.png"
    text = output("demo", "--rows", 3, "--seed", 1, "--epochs", 2, "--out", figure)
    assert "3 rows: 3 optimal" in text
    lines = {line[:20].strip(): line[20:].split() for line in text.splitlines()}
    assert lines["network + repair"][2] == "0.00%"
    assert float(lines["exact"][0]) == 0.0
    assert float(lines["network alone"][0]) > float(lines["network + repair"][0]) > 0
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_a_comparison_has_a_line_for_every_method():
    """Regret and rate of violations of two answers a row, worked out by hand."""
    problem = worked_example()
    against = reference(problem, [[1, 1], [1, 1]])
    best = against.solutions
    violated = Solutions.of(problem, [[1, 1, 0, 0]] * 2)  # h is 16, but t is 22 > 20
    text = _comparison({"best": lambda: best, "bad": lambda: violated}, against)
    heading, first, second = text.splitlines()
    assert heading.split()[:5] == ["on", "2", "unseen", "rows", "regret"]
    assert first.split()[:5] == ["best", "0.000", "0.000", "0.00%", "0.000"]
    assert second.split()[3] == "100.00%"
    assert second.split()[4] == "none"


@pytest.mark.parametrize("option", ["--rows", "--epochs"])
def test_nothing_to_show_is_refused(refused, option):
    assert f"Invalid value for '{option}'" in refused("demo", option, "0")
