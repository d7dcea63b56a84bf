"""`cmpe best`: what solve writes, with the rank."""

from typer.testing import CliRunner

from tests.cli.commands import app, output, rows_of
from tests.refusals import refused


def test_json_is_that_of_solve_with_the_rank(models):
    rows = rows_of(output("best", *models, "--evidence", "e.evid", "-k", 3))
    assert [(row["index"], row["rank"]) for row in rows] == [
        (i, r) for i in (0, 1) for r in (1, 2, 3)
    ]
    solved = rows_of(output("solve", *models, "--evidence", "e.evid"))
    for row, first in zip(solved, rows[::3], strict=True):
        assert first["objective"] == row["objective"]
        assert first["assignment"] == row["assignment"]
        assert first["constraints"] == row["constraints"]


def test_solve_writes_multipliers(models):
    [row] = rows_of(output("solve", *models))
    assert len(row["multipliers"]) == 1
    assert row["multipliers"][0] > 0


def test_csv_and_distance(models, tmp_path):
    output("best", *models, "-k", 2, "--distance", 3, "--output", "best.csv")
    head, first, second = (tmp_path / "best.csv").read_text().splitlines()
    assert head.startswith("index,rank,0,1")
    pairs = zip(first.split(",")[2:11], second.split(",")[2:11], strict=True)
    assert sum(a != b for a, b in pairs) >= 3


def test_chosen_variables_and_a_distance_in_nats(models):
    rows = rows_of(output("best", *models, "--over", "0", "--over", "1"))
    assert len({tuple(row["assignment"][:2]) for row in rows}) == len(rows) == 4
    summed = rows_of(output("best", "--objective", "h.uai", "--over", "0", "--rest", "sum"))
    assert [set(row["states"]) for row in summed] == [{"x0"}, {"x0"}]
    every = rows_of(output("best", *models, "--within", "1.5"))
    assert every[-1]["objective"] >= every[0]["objective"] - 1.5
    assert (
        rows_of(output("best", *models, "--within", "1.5", "-k", 2)) == every[:2] or len(every) < 2
    )


def test_refusals(models, tmp_path):
    def call(*words):
        return lambda: CliRunner().invoke(app, ["best", *words], catch_exceptions=False)

    refused(call(*models, "--output", "x.svg"), "expected a suffix")
    (tmp_path / "parts").mkdir()
    refused(call(*models, "--output", "parts", "--within", "1"), "list one file")
