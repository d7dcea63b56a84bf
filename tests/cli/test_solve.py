"""`cmpe solve`: files in, answers with certificates out, exit codes; nothing is lost on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cmpe.formats.directory import ProblemDirectory, read_directory, write_directory
from cmpe.formats.evidence import write_evid
from cmpe.formats.results import read_mpe, read_solutions
from cmpe.formats.uai import read_uai, write_uai
from cmpe.generation import Recipe, generate, grid
from cmpe.models.loglinear import Factor, LogLinearModel
from cmpe.solving import solve
from tests.cli.commands import COMMAND, SOLVE, output, rows_of, run
from tests.problems import all_assignments
from tests.refusals import only_line

FIELDS = ["index", "status", "objective", "bound", "gap", "feasible", "constraints"]
FIELDS += ["assignment", "method", "seconds"]
ROWS = 3000


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


@pytest.mark.usefixtures("beside_model")
def test_limits_from_below_and_above_take_their_order(call):
    """h and t are one model: t <= 9 and t >= q in both orders."""
    values = read_uai("m.uai").value(all_assignments(read_uai("m.uai").cardinalities))
    q = float(np.sort(values)[1])
    model = ["solve", "--objective", "m.uai"]
    upper = ["--constraint", "m.uai", "--at-most", 9]
    lower = ["--constraint", "m.uai", f"--at-least={q!r}"]
    for words, keys in (([*upper, *lower], ["at_most", "at_least"]), ([*lower, *upper], None)):
        code, out, _ = call(*model, *words)
        row = json.loads(out)
        found = [next(k for k in c if k.startswith("at_")) for c in row["constraints"]]
        assert (code, found) == (0, keys or ["at_least", "at_most"])
        assert row["objective"] == pytest.approx(values.max())
        by_kind = dict(zip(found, row["constraints"], strict=True))
        assert by_kind["at_least"]["at_least"] == q
        assert by_kind["at_least"]["value"] == row["objective"]
        assert by_kind["at_least"]["violation"] == pytest.approx(q - row["objective"])
    code, out, _ = call(*model, "--constraint", "m.uai", "--at-least", float(values.max()) + 1)
    assert (code, json.loads(out)["status"]) == (1, "infeasible")


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


def test_json_lines_can_be_read_back(problem, tmp_path):
    output("solve", problem, "--method", "exhaustive", "--output", tmp_path / "a.json.gz")
    answers = read_solutions(tmp_path / "a.json.gz", read_directory(problem).problem)
    assert answers.labels == ["optimal"] * 6


def test_variables_between_0_and_1(flips, tmp_path):
    """Fractions as evidence, as starts and in the answers."""
    content = read_directory(flips)
    np.save(tmp_path / "e.npy", content.test[:2])
    found = rows_of(output("solve", flips, "--method", "local"))
    some = rows_of(output("solve", flips, "--method", "local", "--evidence", tmp_path / "e.npy"))
    assert [row["assignment"] for row in some] == [row["assignment"] for row in found[:2]]
    assert [row["feasible"] for row in found] == [True] * 4
    starts = np.array([row["assignment"] for row in found])
    assert starts[:, :3].tolist() == content.test.tolist()
    expected = solve(content.problem, content.test, method="local").assignments
    assert starts.tolist() == expected.tolist()
    np.save(tmp_path / "s.npy", starts)
    again = rows_of(output("solve", flips, "--method", "local", "--start", tmp_path / "s.npy"))
    for one, two in zip(again, found, strict=True):
        assert one["objective"] >= two["objective"]


def test_a_result_of_whole_numbers_cannot_hold_fractions(refused, flips):
    line = refused("solve", flips, "--format", "uai")
    assert line == "--format uai holds whole numbers, found variables in [0, 1]; use json"


EVIDENCE = {
    "range.evid": ("1 1 3", "line 1: expected a value of variable 1 below 3, found 3"),
    "variable.evid": ("1 2 0", "line 1: expected variables below 2, found 2"),
    "both.evid": ("2\n0\n2 1 0 1 2\n", "line 3: expected one value of variable 1, found 0 and 2"),
    "cut.evid": ("2 0 1 1", "line 1: expected 2 pairs of variable and value after the count"),
    "text.csv": ("0,one", "line 1: expected whole numbers or -1, found 'one'"),
    "range.csv": ("0,2\n0,3", "row 1, variable 1: evidence must be from 0 to 2, found 3"),
    "wide.csv": ("0,1,0", "every row: expected 0 columns or 2 columns, found 3"),
    "text.npy": ("0 1", "expected a .npy array, found"),
    "other.txt": ("0 1", "expected a file ending in .evid, .npy, .csv or .p"),
    "none.evid": (None, "cannot be read: No such file or directory"),
}


@pytest.mark.parametrize("name", EVIDENCE)
def test_bad_evidence(refused, name):
    content, message = EVIDENCE[name]
    if content is not None:
        Path(name).write_text(content)
    line = refused("solve", "--objective", "m.uai", "--evidence", name, "--output", "out.json")
    assert line.startswith(f"{name}: ")
    assert message in line


USAGE = [
    ([*SOLVE, "--constraint", "m.uai", "--at-most", "x"], "Invalid value for '--at-most'"),
    ([*SOLVE, "--format", "xml"], "Invalid value for '--format'"),
    ([*SOLVE, "--time-limit", "0"], "a time limit must be above 0 seconds, found 0.0"),
    ([*SOLVE, "--time-limit", "nan"], "a time limit must be above 0 seconds, found nan"),
    ([*SOLVE, "--memory", "0"], "memory must be at least 0.1 GB, found 0"),
    ([*SOLVE, "--memory", "lots"], "Invalid value for '--memory'"),
    ([*SOLVE, "--workers", "0"], "Invalid value for '--workers'"),
    ([*SOLVE, "--seed", "-1"], "Invalid value for '--seed'"),
    ([*SOLVE, "--output", "."], ".: cannot be written: it is a directory"),
    ([*SOLVE, "--output", "no/o.json"], "no/o.json: cannot be written: No such file or directory"),
    (
        [*SOLVE, "--start", "s.MPE"],
        "s.MPE: row 0, variable 1: a value must be from 0 to 2, found 3",
    ),
    ([*SOLVE, "--start", "m.uai"], "m.uai: line 1, word 1: expected MPE, found 'MARKOV'"),
    ([*SOLVE, "--start", "s2.MPE"], "s2.MPE: the assignments: expected 1 rows, as the evidence"),
]


@pytest.mark.parametrize(("arguments", "message"), USAGE)
def test_bad_arguments(refused, arguments, message):
    Path("s.MPE").write_text("MPE\n2 0 3\n")
    Path("s2.MPE").write_text("MPE\n2\n2 0 2\n2 0 1\n")
    assert message in refused(*arguments)


def test_too_large_is_said_before_memory_is_taken(refused):
    write_uai(grid(5, 6), "grid.uai")
    line = refused("solve", "--objective", "grid.uai", "--method", "exhaustive")
    assert "exhaustive enumerates at most 4194304 assignments a row" in line


@pytest.mark.usefixtures("beside_model", "full_disk")
def test_a_full_disk_does_not_lose_the_answers(call):
    Path("old.json").write_text("old")
    code, out, err = call(*SOLVE, "--method", "exhaustive", "--output", "old.json")
    assert code == 2
    assert json.loads(out)["assignment"] == [1, 2]
    reason = "cannot be written: No space left on device; the answers went to stdout instead"
    assert only_line(err) == f"old.json: {reason}"
    assert Path("old.json").read_text() == "old"
    assert sorted(os.listdir()) == ["m.uai", "old.json"]


def test_a_trace_as_lines_and_as_a_picture(problem, tmp_path):
    pytest.importorskip("matplotlib")
    for name in ("trace.jsonl", "trace.png"):
        out = output("solve", problem, "--method", "exact", "--trace", tmp_path / name)
        assert len(out.splitlines()) == 6
    events = [json.loads(line) for line in (tmp_path / "trace.jsonl").read_text().splitlines()]
    assert set(events[0]) == {"seconds", "incumbent", "bound", "states", "by"}
    assert events[-1]["incumbent"] == pytest.approx(json.loads(out.splitlines()[0])["objective"])
    assert (tmp_path / "trace.png").read_bytes().startswith(b"\x89PNG")


# Ctrl-C while rows are being solved, in processes of their own.


@pytest.fixture(scope="module")
def long_problem(tmp_path_factory):
    """Far more rows than any test waits for."""
    folder = tmp_path_factory.mktemp("long") / "problem"
    recipe = Recipe(evidence_fraction=0.3, percentile=10, samples=20, seed=1)
    made = generate(grid(12, 12, seed=1), recipe)
    rows = np.random.default_rng(1).integers(0, 2, (ROWS, len(made.problem.evidence_variables)))
    content = ProblemDirectory(made.problem, made.train, made.test)
    write_directory(replace(content, test=rows), folder)
    return folder


def wait_until(happened):
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def stat(pid):
    """The fields of /proc/PID/stat after the name: state, parent, group, ..."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def cpu_seconds(pid):
    fields = stat(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_until_solving(pid):
    """Until HiGHS is loaded and then has had time for some rows."""
    wait_until(lambda: "highspy" in Path(f"/proc/{pid}/maps").read_text())
    begin = cpu_seconds(pid)
    wait_until(lambda: cpu_seconds(pid) > begin + 1.5)


def workers_of(pid):
    """The children that solve; another one only tracks resources."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    children = [child for task in tasks for child in task.read_text().split()]
    return [c for c in children if b"spawn_main" in Path(f"/proc/{c}/cmdline").read_bytes()]


def alive_in_group(group):
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _, its_group = stat(folder.name)[:3]
        except OSError:  # it has just ended
            continue
        if int(its_group) == group and state != "Z":
            found.append(folder.name)
    return found


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="there is no /proc here")
@pytest.mark.parametrize(
    ("workers", "stop"), [(1, signal.SIGINT), (2, signal.SIGINT), (2, signal.SIGTERM)]
)
def test_ctrl_c_and_sigterm_keep_the_finished_rows(long_problem, tmp_path, workers, stop):
    target = tmp_path / "out.json"
    options = ["--method", "milp", "--workers", str(workers), "--output", str(target), "--quiet"]
    with subprocess.Popen(
        [COMMAND, "solve", str(long_problem), *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            if workers == 1:
                wait_until_solving(process.pid)
            else:
                wait_until(lambda: len(workers_of(process.pid)) == workers)
                for worker in workers_of(process.pid):
                    wait_until_solving(worker)
            if stop == signal.SIGINT:
                os.killpg(process.pid, stop)  # as a terminal does
            else:
                os.kill(process.pid, stop)
            out, err = process.communicate(timeout=60)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    assert (process.returncode, out) == (2, "")
    problem = read_directory(long_problem).problem
    rows = [json.loads(line) for line in target.read_text().splitlines()]
    finished = [row for row in rows if row["status"] in ("optimal", "infeasible")]
    known = [row for row in rows if row["status"] != "unknown"]  # one more, if it had an answer
    assert [row["index"] for row in rows] == list(range(ROWS))
    assert 0 < len(finished) < ROWS
    # What HiGHS had of the row that was interrupted may already be proved.
    said = [f"interrupted after {len(finished) - k} of {ROWS} rows" for k in (0, 1)]
    assert only_line(err) in [f"{count}; results so far were written" for count in said]
    assert len(known) <= len(finished) + 1
    for row in known:
        assert row["objective"] == problem.objective.value(row["assignment"])[0]
    assert all(row["assignment"] is None for row in rows if row not in known)
    wait_until(lambda: not alive_in_group(process.pid))
    assert os.listdir(tmp_path) == ["out.json"]
