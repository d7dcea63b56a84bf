"""The command line as others call it: files in, answers on stdout, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from cmpe.cli.main import app
from cmpe.formats.directory import read_directory
from cmpe.formats.evidence import write_evid
from cmpe.formats.results import read_mpe, read_solutions
from cmpe.formats.uai import write_uai
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.solvers import solve

COMMAND = str(Path(sys.executable).with_name("cmpe"))
FILES = ["constraint.uai", "objective.uai", "problem.json", "test.npy", "train.npy"]
FIELDS = ["index", "status", "objective", "bound", "gap", "feasible", "constraints"]
FIELDS += ["assignment", "method", "seconds"]


def run(*arguments, **options):
    """The installed command in a process of its own: (exit code, stdout, stderr)."""
    done = subprocess.run(
        [COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False, **options
    )
    return done.returncode, done.stdout, done.stderr


def output(*arguments):
    """What a command that succeeds prints, without a process."""
    result = CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)
    assert result.exit_code == 0
    assert result.stderr == ""
    return result.stdout


def rows_of(text):
    return [json.loads(line) for line in text.splitlines()]


def generated(model, folder, seed=3):
    options = ["--samples", 60, "--percentile", 30, "--evidence-fraction", 0.5, "--seed", seed]
    return "generate", model, "--out", folder, *options


def test_solve_answers_the_test_rows_with_certificates(problem):
    code, out, err = run("solve", problem, "--method", "milp")
    assert (code, err) == (0, "")
    content = read_directory(problem)
    expected = solve(content.problem, content.test, method="exhaustive")
    rows = rows_of(out)
    assert [list(row) for row in rows] == [FIELDS] * 6
    assert [row["index"] for row in rows] == list(range(6))
    observed = list(content.problem.evidence_variables)
    for i, row in enumerate(rows):
        assert row["status"] == "optimal"
        assert row["feasible"] is True
        assert row["method"] == "milp:highs"
        assert row["objective"] == pytest.approx(expected.objective[i], abs=1e-9)
        assert row["objective"] == content.problem.objective.value(row["assignment"])[0]
        assert row["gap"] == row["bound"] - row["objective"] >= 0
        assert row["seconds"] > 0
        [constraint] = row["constraints"]
        assert list(constraint) == ["value", "at_most", "violation"]
        assert constraint["at_most"] == content.problem.constraints[0].at_most
        assert constraint["violation"] == constraint["value"] - constraint["at_most"] <= 1e-6
        assert [row["assignment"][v] for v in observed] == content.test[i].tolist()


def test_bounds_are_proved(problem):
    content = read_directory(problem)
    best = solve(content.problem, content.test, method="exhaustive").objective
    rows = rows_of(output("bound", problem))
    fields = ["index", "bound", "infeasible", "multipliers", "method", "bounds", "seconds"]
    assert [list(row) for row in rows] == [fields] * 6
    for i, row in enumerate(rows):
        assert (row["index"], row["infeasible"], len(row["multipliers"])) == (i, False, 1)
        assert row["bound"] >= best[i] - 1e-9
    assert "6 rows: 0 proved infeasible" in output("bound", problem, "--format", "table")


def test_files_and_directories_are_the_same_problem(problem, tmp_path):
    content = read_directory(problem)
    observed = content.problem.evidence_variables
    output("convert", problem, tmp_path / "e.evid")
    full = np.full((6, 12), -1)
    full[:, list(observed)] = content.test
    np.save(tmp_path / "e.npy", full)
    np.savetxt(tmp_path / "e.csv", full, fmt="%d", delimiter=",")
    q = content.problem.constraints[0].at_most
    files = ["--objective", problem / "objective.uai", "--constraint", problem / "constraint.uai"]
    shared = ["solve", "--method", "exhaustive", "--format", "uai"]
    evidence = [["--evidence", tmp_path / name] for name in ("e.evid", "e.npy", "e.csv")]
    answers = [output(*shared, *files, "--at-most", q, *rows) for rows in evidence]
    answers += [output(*shared, problem), output(*shared, problem, *evidence[0])]
    assert len(set(answers)) == 1
    assert answers[0].startswith("MPE\n6\n12 ")


def test_two_constraints_take_their_limits_in_order(problem):
    again = ["--constraint", problem / "constraint.uai"]
    limits = ["--at-most", 1e5, "--at-most", 2e5]
    out = output(
        "solve", "--objective", problem / "objective.uai", *again, *again, *limits,
        "--method", "exhaustive",
    )  # fmt: skip
    [row] = rows_of(out)
    assert [c["at_most"] for c in row["constraints"]] == [1e5, 2e5]


def test_output_goes_to_the_file_instead_and_a_start_comes_from_it(problem, tmp_path):
    target = tmp_path / "answers.MPE"
    arguments = ["solve", problem, "--output", target, "--format", "uai"]
    assert output(*arguments, "--method", "exhaustive") == ""
    first = read_mpe(target, 12)
    assert (first >= 0).all()
    assert output(*arguments, "--method", "milp", "--start", target) == ""
    assert np.array_equal(read_mpe(target, 12), first)
    assert os.listdir(tmp_path) == ["answers.MPE"]


def test_a_table_is_for_people(problem, tmp_path):
    arguments = ["solve", problem, "--method", "exhaustive", "--format", "table"]
    shown = output(*arguments)
    assert "small.grid" in shown
    assert "6 rows: 6 optimal" in shown
    output(*arguments, "--output", tmp_path / "t.txt")
    assert (tmp_path / "t.txt").read_text().splitlines()[:3] == shown.splitlines()[:3]


def test_workers_give_the_same_answers_in_order(problem):
    code, out, err = run("solve", problem, "--method", "exhaustive", "--workers", 2)
    assert (code, err) == (0, "")
    alone = rows_of(output("solve", problem, "--method", "exhaustive"))
    timeless = [[{**row, "seconds": 0} for row in rows] for rows in (rows_of(out), alone)]
    assert timeless[0] == timeless[1]


@pytest.fixture
def pinned(tmp_path):
    """t = z0 in nats, h(1, 0) = -inf: with t <= 0.5 and z0 = 1 nothing is feasible."""
    h = LogLinearModel((2, 2), (Factor((0, 1), np.array([[0.0, 1.0], [-np.inf, 2.0]])),))
    t = LogLinearModel((2, 2), (Factor((0,), np.array([0.0, 1.0])),))
    write_uai(h, tmp_path / "h.uai")
    write_uai(t, tmp_path / "t.uai")
    files = ["--objective", tmp_path / "h.uai", "--constraint", tmp_path / "t.uai"]
    return ["solve", *files, "--at-most", 0.5, "--method", "exhaustive", "--evidence"]


def test_exit_code_1_when_every_row_is_infeasible(pinned, tmp_path):
    write_evid([{0: 1}, {0: 1, 1: 0}], tmp_path / "none.evid")
    code, out, err = run(*pinned, tmp_path / "none.evid")
    assert (code, err) == (1, "")
    for index, row in enumerate(rows_of(out)):
        nothing = {"value": None, "at_most": 0.5, "violation": None}
        assert row | {"seconds": 0} == {
            "index": index, "status": "infeasible", "objective": None, "bound": None, "gap": None,
            "feasible": False, "constraints": [nothing], "assignment": None,
            "method": "exhaustive", "seconds": 0,
        }  # fmt: skip


def test_exit_code_0_when_one_row_has_an_answer(pinned, tmp_path):
    write_evid([{0: 1}, {0: 0}], tmp_path / "some.evid")
    code, out, err = run(*pinned, tmp_path / "some.evid")
    assert (code, err) == (0, "")
    assert [row["status"] for row in rows_of(out)] == ["infeasible", "optimal"]


def test_demo_shows_certificates_and_compares(tmp_path):
    figure = tmp_path / "demo.png"
    text = output("demo", "--rows", 3, "--seed", 1, "--epochs", 2, "--out", figure)
    assert "3 rows: 3 optimal" in text
    lines = {line[:20].strip(): line[20:].split() for line in text.splitlines()}
    assert lines["network + repair"][2] == "0.00%"
    assert float(lines["exact"][0]) == 0.0
    assert float(lines["network alone"][0]) > float(lines["network + repair"][0]) > 0
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_help_of_everything_without_arguments_and_by_name():
    code, out, err = run()
    assert (code, err) == (0, "")
    for name in [
        "solve",
        "bound",
        "generate",
        "learn",
        "info",
        "convert",
        "train",
        "evaluate",
        "demo",
    ]:
        assert name in out
        assert "Usage" in output(name, "--help")
    assert output("--version").startswith("cmpe ")


def test_import_and_help_load_nothing_heavy():
    script = (
        "import sys, cmpe\n"
        "heavy = {'torch', 'scipy', 'matplotlib', 'numba', 'highspy'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "from cmpe.cli.main import main\n"
        "sys.argv = ['cmpe', '--help']\n"
        "try:\n    main()\nexcept SystemExit as stop:\n    assert stop.code == 0\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_reader_that_goes_away_is_no_error(problem):
    arguments = [COMMAND, "solve", str(problem), "--method", "exhaustive"]
    buffered = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    pipe = subprocess.PIPE
    with subprocess.Popen(arguments, stdout=pipe, stderr=pipe, env=buffered) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


def test_json_lines_can_be_read_back(problem, tmp_path):
    output("solve", problem, "--method", "exhaustive", "--output", tmp_path / "a.json.gz")
    answers = read_solutions(tmp_path / "a.json.gz", read_directory(problem).problem)
    assert answers.labels == ["optimal"] * 6
