"""Answers as a table for people."""

from __future__ import annotations

import numpy as np
import pytest

from cmpe import Constraint, LogLinearModel, Problem, Solutions
from cmpe.cli.table import table_text
from cmpe.formats.directory import ProblemDirectory, write_directory
from cmpe.generation import Recipe, generate, grid
from tests.cli.commands import output


def test_a_table_is_for_people(problem, tmp_path):
    arguments = ["solve", problem, "--method", "exhaustive", "--format", "table"]
    shown = output(*arguments)
    assert "small.grid" in shown
    assert "6 rows: 6 optimal" in shown
    output(*arguments, "--output", tmp_path / "t.txt")
    written = (tmp_path / "t.txt").read_text().splitlines()
    for line in (0, 2):  # the title and the names of the columns, whose widths depend on times
        assert written[line].split() == shown.splitlines()[line].split()


@pytest.mark.usefixtures("beside_model")
def test_the_name_of_a_problem_is_only_a_name(call):
    made = generate(grid(2, 2), Recipe(samples=20), name="[/red] ] modèle")
    write_directory(ProblemDirectory(made.problem, made.train, made.test), "p")
    code, out, err = call("solve", "p", "--method", "exhaustive", "--format", "table")
    assert (code, err) == (0, "")
    assert out.startswith("[/red] ] modèle")
    assert call("convert", "p", "o.cfn") == (0, "", "")


def two_limits():
    h, t = (LogLinearModel.from_tables([2], [((0,), [0.0, x])]) for x in (1.5, 2.0))
    return Problem(h, (Constraint(t, 1.0), Constraint(t, 3.0)))


def test_every_number_of_a_row():
    problem = two_limits()
    found = Solutions.of(problem, [[0], [-1], [1]], bound=[1.5, np.inf, 2.0], seconds=0.002)
    _, heading, _, *rows = [
        [cell.strip() for cell in line.split("┃" if "┃" in line else "│")[1:-1]]
        for line in table_text(problem, found).splitlines()[:-1]
    ]
    names = ["row", "status", "objective", "t1 <= 1", "t2 <= 3", "bound", "gap", "ms", "answer"]
    assert heading == names
    assert rows[0] == ["0", "feasible", "0.0000", "0.0000", "0.0000", "1.5000", "1.5", "2.0", "0"]
    assert rows[1] == ["1", "unknown", "-", "-", "-", "inf", "-", "2.0", ""]
    assert rows[2] == ["2", "violated", "1.5000", "2.0000", "2.0000", "2.0000", "-", "2.0", "1"]


def test_rows_that_are_not_shown_are_counted():
    problem = two_limits()
    found = Solutions.of(problem, [[0]] * 3, seconds=0.5)
    last = table_text(problem, found, 1).splitlines()[-1]
    assert last == "2 more rows: use --format json. 3 rows: 3 feasible; 1.5 s in all"
    one = table_text(problem, found.take([0])).splitlines()[-1]
    assert one == "1 row: 1 feasible; 0.5 s in all"
