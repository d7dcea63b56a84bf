"""Bad input, a full disk, a missing extra, Ctrl-C: one line, exit code 2, and nothing lost."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cmpe.formats.directory import ProblemDirectory, read_directory, write_directory
from cmpe.formats.uai import write_uai
from cmpe.generation import Recipe, generate, grid
from cmpe.solvers import METHODS
from tests.refusals import only_line

COMMAND = str(Path(sys.executable).with_name("cmpe"))
MODEL = "MARKOV 2 2 3 2 1 0 2 0 1 2 1 2 6 1 2 3 4 5 6"
ROWS = 3000


@pytest.fixture
def call(call, tmp_path, monkeypatch):
    """The same in `tmp_path`, beside a model."""
    monkeypatch.chdir(tmp_path)
    Path("m.uai").write_text(MODEL)
    return call


def as_process(*arguments, **options):
    """With output buffered, so that the end of the process must flush it."""
    return subprocess.run(
        [COMMAND, *map(str, arguments)],
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        **options,
    )


FILES = {
    "cut.uai": (MODEL[:-4], "line 1, word 15: expected 6 x a table entry, found only 4 more words"),
    "text.uai": (MODEL.replace("6 1 2", "6 1 two"), "word 16: expected a table entry, found 'two'"),
    "size.uai": (MODEL.replace(" 6 1", " 5 1"), "expected the table size 6 of factor 1, found 5"),
    "huge.uai": ("MARKOV 999999999 2 2", "expected 999999999 x a cardinality, found only 2 more"),
    "minus.uai": (MODEL[:-1] + "-6", "expected a finite potential of at least 0, found '-6'"),
    "nan.uai": (MODEL[:-1] + "nan", "expected a finite potential of at least 0, found 'nan'"),
    "twice.uai": (MODEL.replace("2 0 1 2 1", "2 1 1 2 1"), "expected distinct variables in factor"),
    "none.uai": (None, "cannot be read: No such file or directory"),
    "m.uai.gz": ("no gzip", "expected a whole .gz file, found"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_bad_model(refused, name):
    content, message = FILES[name]
    if content is not None:
        Path(name).write_text(content)
    for arguments in (
        ["solve", "--objective", name, "--output", "out.json"],
        ["solve", "--objective", "m.uai", "--constraint", name, "--at-most", 1],
        ["info", name],
        ["convert", name, "out.LG"],
        ["convert", name, "out.cfn"],
        ["generate", name, "--out", "new"],
    ):
        line = refused(*arguments)
        assert line.startswith(f"{name}: ")
        assert message in line


EVIDENCE = {
    "range.evid": ("1 1 3", "line 1: expected a value of variable 1 below 3, found 3"),
    "variable.evid": ("1 2 0", "line 1: expected variables below 2, found 2"),
    "both.evid": ("2\n0\n2 1 0 1 2\n", "line 3: expected one value of variable 1, found 0 and 2"),
    "cut.evid": ("2 0 1 1", "line 1: expected 2 pairs of variable and value after the count"),
    "text.csv": ("0,one", "line 1: expected whole numbers or -1, found 'one'"),
    "range.csv": ("0,2\n0,3", "row 1, variable 1: evidence must be from 0 to 2, found 3"),
    "wide.csv": ("0,1,0", "every row: expected 0 columns or 2 columns, found 3"),
    "text.npy": ("0 1", "expected a .npy array, found"),
    "other.txt": ("0 1", "expected a file ending in .evid, .npy or .csv"),
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


SOLVE = ["solve", "--objective", "m.uai"]
USAGE = [
    (["nonsense"], "No such command 'nonsense'"),
    (["solve", "--nonsense"], "No such option: --nonsense"),
    (["solve"], "give either a problem directory or --objective FILE.uai"),
    (["solve", "d", "--objective", "m.uai"], "give either a problem directory or --objective"),
    (["solve", "d", "--at-most", "1"], "--constraint and --at-most go with --objective"),
    (["solve", "nowhere"], "nowhere/problem.json: cannot be read: No such file or directory"),
    (["solve", "m.uai"], "m.uai/problem.json: cannot be read: Not a directory"),
    ([*SOLVE, "--constraint", "m.uai"], "every --constraint needs one --at-most: found 1 and 0"),
    ([*SOLVE, "--constraint", "m.uai", "--at-most", "nan"], "at_most must be a finite number"),
    ([*SOLVE, "--constraint", "m.uai", "--at-most", "x"], "Invalid value for '--at-most'"),
    ([*SOLVE, "--constraint", "t.uai", "--at-most", "1"], "t.uai: expected the variables and card"),
    ([*SOLVE, "--method", "magic"], f"a method is one of {', '.join(METHODS)}; found 'magic'"),
    ([*SOLVE, "--format", "xml"], "Invalid value for '--format'"),
    ([*SOLVE, "--time-limit", "0"], "a time limit must be above 0 seconds, found 0.0"),
    ([*SOLVE, "--time-limit", "nan"], "a time limit must be above 0 seconds, found nan"),
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
    (["bound", "nowhere"], "nowhere/problem.json: cannot be read: No such file or directory"),
    (["info"], "Missing argument"),
    (
        ["convert", "m.uai", "m.txt"],
        "m.txt: expected a suffix of .uai, .LG, .json, .npz, .cfn or .evid",
    ),
    (
        ["convert", "m.uai", "m"],
        "m: expected a suffix of .uai, .LG, .json, .npz, .cfn or .evid",
    ),
    (["convert", "m.uai", "o.cfn", "--row", "0"], "--row goes with a problem directory"),
    (["convert", "m.uai", "o.json"], "a learned model is a Chow-Liu tree or a cutset network"),
    (["convert", "m.uai", "o.evid"], "o.evid: evidence is in a problem directory, found m.uai"),
    (["info", "m.txt"], "m.txt: expected a model file ending in .uai, .LG, .json or .npz (also"),
    (["convert", ".", "o.uai"], "o.uai: a problem directory holds several models"),
    (["convert", "big.LG", "o.uai"], "factor 0: the logarithm 800.0 has no float64 potential"),
    (["generate", "m.uai"], "Missing option '--out'"),
    (["generate", "m.uai", "--out", "m.uai"], "m.uai: cannot be written: File exists"),
    (["generate", "m.uai", "--out", "o", "--evidence-fraction", "2"], "must be from 0 to 1, found"),
    (["generate", "m.uai", "--out", "o", "--noise-variance", "-1"], "must be at least 0, found -1"),
    (["generate", "m.uai", "--out", "o", "--percentile", "0"], "must be from 1 to 100, found 0"),
    (["generate", "m.uai", "--out", "o", "--samples", "1"], "samples must be at least 2, found 1"),
    (["generate", "m.uai", "--out", "o", "--seed", "-1"], "seed must be at least 0, found -1"),
]


@pytest.mark.parametrize(("arguments", "message"), USAGE)
def test_bad_arguments(refused, arguments, message):
    Path("t.uai").write_text("MARKOV 2 2 2 0")
    Path("m.txt").write_text("MARKOV 2 2 2 0")
    Path("big.LG").write_text("MARKOV 1 1 1 1 0 1 800")
    Path("s.MPE").write_text("MPE\n2 0 3\n")
    Path("s2.MPE").write_text("MPE\n2\n2 0 2\n2 0 1\n")
    assert message in refused(*arguments)


def test_a_row_beyond_the_test_rows(refused):
    made = generate(grid(2, 2), Recipe(samples=20))
    write_directory(ProblemDirectory(made.problem, made.train, made.test), "p")
    line = refused("convert", "p", "o.cfn", "--row", "2")
    assert line == "--row must be below 2 (the test rows), found 2"


@pytest.mark.parametrize(
    ("package", "method", "extra"),
    [("pytoulbar2", "toulbar2", "toulbar2"), ("pyscipopt", "milp:scip", "scip"),
     ("gurobipy", "milp:gurobi", "gurobi")],
)  # fmt: skip
def test_a_missing_extra_is_named(refused, monkeypatch, package, method, extra):
    monkeypatch.setitem(sys.modules, package, None)
    line = refused(*SOLVE, "--method", method)
    assert f"pip install 'cmpe[{extra}]'" in line


def test_too_large_is_said_before_memory_is_taken(refused):
    write_uai(grid(5, 6), "grid.uai")
    line = refused("solve", "--objective", "grid.uai", "--method", "exhaustive")
    assert "exhaustive enumerates at most 4194304 assignments a row" in line


def test_out_of_memory(refused, monkeypatch):
    def exhausted(*_, **__):
        raise MemoryError("Unable to allocate 8 TiB")

    monkeypatch.setattr("cmpe.solvers.dispatch.solve", exhausted)
    assert refused(*SOLVE) == "out of memory: Unable to allocate 8 TiB"


def test_processes_say_it_in_one_line_too(tmp_path):
    (tmp_path / "cut.uai").write_text(MODEL[:-4])
    for arguments, message in (
        (["info", "cut.uai"], r"error: cut\.uai: line 1, word 15: expected 6 x a table entry, .*"),
        (["solve", "--objective", "cut.uai", "--method", "magic"], "error: a method is one of .*"),
        (["solve", "--seed", "x"], "error: Invalid value for '--seed': .*"),
    ):
        done = as_process(*arguments, cwd=tmp_path, stdout=subprocess.PIPE)
        assert (done.returncode, done.stdout) == (2, "")
        assert re.fullmatch(f"{message}\n", done.stderr)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_behind_stdout(tmp_path):
    (tmp_path / "m.uai").write_text(MODEL)
    with open("/dev/full", "w") as full:
        for arguments in ([*SOLVE, "--method", "exhaustive"], ["info", "m.uai"]):
            done = as_process(*arguments, cwd=tmp_path, stdout=full)
            assert done.returncode == 2
            assert done.stderr == "error: output: No space left on device\n"


@pytest.fixture
def full_disk(monkeypatch):
    def fsync(_handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fsync)


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_does_not_lose_the_answers(call):
    Path("old.json").write_text("old")
    code, out, err = call(*SOLVE, "--method", "exhaustive", "--output", "old.json")
    assert code == 2
    assert json.loads(out)["assignment"] == [1, 2]
    reason = "cannot be written: No space left on device; the answers went to stdout instead"
    assert only_line(err) == f"old.json: {reason}"
    assert Path("old.json").read_text() == "old"
    assert sorted(os.listdir()) == ["m.uai", "old.json"]


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_leaves_nothing_half_written(refused):
    for arguments in (["convert", "m.uai", "o.LG.gz"], ["generate", "m.uai", "--out", "new"]):
        assert refused(*arguments).endswith("cannot be written: No space left on device")


def test_the_name_of_a_problem_is_only_a_name(call):
    made = generate(grid(2, 2), Recipe(samples=20), name="[/red] ] modèle")
    write_directory(ProblemDirectory(made.problem, made.train, made.test), "p")
    code, out, err = call("solve", "p", "--method", "exhaustive", "--format", "table")
    assert (code, err) == (0, "")
    assert out.startswith("[/red] ] modèle")
    assert call("convert", "p", "o.cfn") == (0, "", "")


def test_ctrl_c_before_anything_is_solved(refused, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("cmpe.formats.uai.read_uai", interrupted)
    assert refused(*SOLVE, "--output", "out.json") == "interrupted"


def test_ctrl_c_lost_in_a_callback_is_sent_again(refused, monkeypatch):
    def loading(*_):
        """Be interrupted where Python cannot raise, as while compiled code is loaded."""
        callback = ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(signal.SIGINT))
        callback()
        time.sleep(10)

    monkeypatch.setattr("cmpe.formats.uai.read_uai", loading)
    assert refused("info", "m.uai") == "interrupted"


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
@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_keeps_the_finished_rows(long_problem, tmp_path, workers):
    target = tmp_path / "out.json"
    options = ["--method", "milp", "--workers", str(workers), "--output", str(target)]
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
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does
            out, err = process.communicate(timeout=60)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    assert (process.returncode, out) == (2, "")
    problem = read_directory(long_problem).problem
    rows = [json.loads(line) for line in target.read_text().splitlines()]
    finished = [row for row in rows if row["status"] != "unknown"]
    assert [row["index"] for row in rows] == list(range(ROWS))
    assert 0 < len(finished) < ROWS
    count = f"interrupted after {len(finished)} of {ROWS} rows"
    assert only_line(err) == f"{count}; the finished rows were written"
    for row in finished:
        assert row["objective"] == problem.objective.value(row["assignment"])[0]
    assert all(row["assignment"] is None for row in rows if row not in finished)
    wait_until(lambda: not alive_in_group(process.pid))
    assert os.listdir(tmp_path) == ["out.json"]
