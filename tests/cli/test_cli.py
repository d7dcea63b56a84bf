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

from cmpe.cli.main import COMMANDS, make_app
from cmpe.formats.directory import read_directory
from cmpe.formats.evidence import read_evidence, write_evid
from cmpe.formats.results import read_mpe, read_solutions
from cmpe.formats.uai import read_uai, write_uai
from cmpe.generation import grid
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.solvers.dispatch import solve

app = make_app(COMMANDS)

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


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "small.grid.uai.gz"
    write_uai(grid(3, 4, seed=1), path)
    return path


def generated(model, folder, seed=3):
    options = ["--samples", 60, "--percentile", 30, "--evidence-fraction", 0.5, "--seed", seed]
    return "generate", model, "--out", folder, *options


@pytest.fixture(scope="module")
def problem(model, tmp_path_factory):
    folder = tmp_path_factory.mktemp("generated") / "new" / "problem"
    code, out, err = run(*generated(model, folder))
    assert (code, err) == (0, "")
    assert out.startswith(f"{folder}: 12 variables, 6 observed, ")
    assert out.count("\n") == 1
    return folder


def test_generate_writes_the_agreed_layout(problem, model):
    assert sorted(os.listdir(problem)) == FILES
    described = json.loads((problem / "problem.json").read_bytes())
    assert isinstance(described["at_most"], float)
    assert len(described["evidence_variables"]) == 6
    assert described["name"] == "small.grid"
    assert np.load(problem / "train.npy").shape == (54, 6)
    assert np.load(problem / "test.npy").shape == (6, 6)
    first, second = read_uai(problem / "objective.uai"), read_uai(problem / "constraint.uai")
    for before, h, t in zip(read_uai(model).factors, first.factors, second.factors, strict=True):
        np.testing.assert_allclose(h.log_table, before.log_table, atol=1e-12)
        assert before.scope == h.scope == t.scope
        assert not np.array_equal(h.log_table, t.log_table)


def test_one_seed_gives_identical_bytes_another_does_not(problem, model, tmp_path):
    code, _, _ = run(*generated(model, tmp_path / "same"), cwd=tmp_path)
    assert code == 0
    output(*generated(model, tmp_path / "other", seed=4))
    for name in FILES:
        assert (tmp_path / "same" / name).read_bytes() == (problem / name).read_bytes()
    different = [
        n for n in FILES if (tmp_path / "other" / n).read_bytes() != (problem / n).read_bytes()
    ]
    assert different == ["constraint.uai", "problem.json", "test.npy", "train.npy"]


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


def test_info_of_a_model_and_of_a_directory(model, problem):
    facts = json.loads(output("info", model, "--format", "json"))
    assert facts["variables"] == 12
    assert facts["factors"] == 12 + 17
    assert facts["edges"] == 17
    facts = json.loads(output("info", problem, "--format", "json"))
    assert facts["free variables"] == 6
    assert facts["test rows"].startswith("6 ")
    lines = output("info", problem).splitlines()
    assert any(line.split()[:2] == ["variables", "12"] for line in lines)


def test_convert_keeps_every_bit(model, tmp_path):
    for source, target in ((model, "a.LG.xz"), ("a.LG.xz", "b.uai"), ("b.uai", "c.LG")):
        assert output("convert", tmp_path / source, tmp_path / target) == ""
    assert read_uai(tmp_path / "c.LG") == read_uai(tmp_path / "b.uai") == read_uai(model)


def test_convert_exports_a_row_of_a_problem(problem, model, tmp_path):
    for source, target, options, variables in (
        (problem, "row.cfn", ["--row", 5], 6),
        (problem, "all.cfn", [], 12),
        (model, "model.cfn", [], 12),
    ):
        output("convert", source, tmp_path / target, *options)
        network = json.loads((tmp_path / target).read_bytes())
        assert len([v for v in network["variables"] if v.startswith("z")]) == variables
        assert network["problem"]["name"] == "small.grid"
        assert ("limit0" in network["functions"]) == (source is problem)


def test_convert_exports_evidence(problem, tmp_path):
    content = read_directory(problem)
    output("convert", problem, tmp_path / "all.evid.gz")
    rows = read_evidence(tmp_path / "all.evid.gz", content.problem)
    observed = list(content.problem.evidence_variables)
    np.testing.assert_array_equal(rows[:, observed], content.test)
    output("convert", problem, tmp_path / "one.evid", "--row", 2)
    rows = read_evidence(tmp_path / "one.evid", content.problem)
    np.testing.assert_array_equal(rows[:, observed], content.test[2:3])


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
