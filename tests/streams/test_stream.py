import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from cmpe.errors import BackendError, InputError
from cmpe.execution.local import InProcess, LocalProcesses
from cmpe.streams.pieces import MemorySource, source_of
from cmpe.streams.stream import answer_stream
from tests.streams.work import SumJob, lines_in, named_problem, question

PROBLEM = named_problem()
ROWS = np.array([[k % 2, k % 3] for k in range(23)])
SOURCE = MemorySource(ROWS, [["rows", 23, "x"]])
SUMS = [{"index": i, "sum": int(row.sum())} for i, row in enumerate(ROWS)]


def answered(path, work=InProcess, source=SOURCE, job=None, **options):
    return answer_stream(source, job or SumJob(PROBLEM), (path, question()), work, **options)


def test_all_rows_are_answered_in_parts_with_progress(tmp_path):
    seen = []
    out = answered(tmp_path / "out", report=lambda done, total: seen.append((done, total)))
    assert lines_in(tmp_path / "out") == SUMS
    assert (out.rows, len(out.done), out.tally) == (23, 6, {"fine": 23})
    assert seen[0] == (4, 23)
    assert seen[-1] == (23, 23)


def test_several_processes_write_the_same_and_survive_a_death(tmp_path):
    job = SumJob(PROBLEM, dies_at=8, flag=str(tmp_path / "died"))
    answered(tmp_path / "two", lambda: LocalProcesses(2), job=job)
    assert (tmp_path / "died").exists()
    assert lines_in(tmp_path / "two") == SUMS


def test_no_part_is_answered_twice(tmp_path):
    answered(tmp_path / "out")
    os.unlink(tmp_path / "out" / "part-00000002.jsonl")
    (tmp_path / "out" / "manifest.json").write_text(
        (tmp_path / "out" / "manifest.json").read_text().replace("true", "false")
    )
    before = {f.name: f.stat().st_mtime_ns for f in (tmp_path / "out").glob("part-*")}
    answered(tmp_path / "out", resume=True)
    after = {f.name: f.stat().st_mtime_ns for f in (tmp_path / "out").glob("part-*")}
    assert {name: after[name] for name in before} == before
    assert lines_in(tmp_path / "out") == SUMS

    def never():
        raise AssertionError("a finished folder needs no executor")

    assert answered(tmp_path / "out", never, resume=True).rows == 23


def test_a_source_of_unknown_length(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text("".join(f"{a},{b}\n" for a, b in ROWS.tolist()))
    seen = []
    out = answered(
        tmp_path / "out", source=source_of(file, PROBLEM), report=lambda *p: seen.append(p)
    )
    assert out.rows == 23
    assert seen[-1] == (23, 23)
    assert lines_in(tmp_path / "out") == SUMS


def test_a_bad_row_stops_the_run_and_the_rest_is_kept(tmp_path):
    rows = ROWS.copy()
    rows[21, 1] = 7
    with pytest.raises(InputError, match=r"row 1, .* found 7"):
        answered(tmp_path / "out", source=MemorySource(rows, []))
    assert lines_in(tmp_path / "out") == SUMS[:20]


class _Broken:
    """An executor whose tasks all fail."""

    capacity = 1

    def share(self, value):
        return value

    def submit(self, name, work, *arguments):
        self.name = name

    def next(self):
        from cmpe.execution.base import TaskOutcome

        return TaskOutcome(self.name, error="lost")

    def close(self):
        pass


def test_what_is_not_the_fault_of_the_input(tmp_path):
    with pytest.raises(BackendError, match="lost"):
        answered(tmp_path / "out", _Broken)


def test_ctrl_c_says_how_to_go_on(tmp_path):
    def stop(done, total):
        if done == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="interrupted after 8 rows; add --resume to go on"):
        answered(tmp_path / "out", report=stop)
    answered(tmp_path / "out", resume=True)
    assert lines_in(tmp_path / "out") == SUMS


SCRIPT = """
from pathlib import Path
from cmpe.execution.local import InProcess, LocalProcesses
from tests.streams.test_stream import SOURCE, PROBLEM
from tests.streams.work import SumJob, question
from cmpe.streams.stream import answer_stream
if __name__ == "__main__":
    work = InProcess if {workers} == 1 else lambda: LocalProcesses({workers})
    answer_stream(SOURCE, SumJob(PROBLEM, slow=0.1), (Path({path!r}), question()), work)
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_kill_9_and_resume(tmp_path, workers):
    """The whole group is killed when two parts are there; what comes after completes the folder."""
    folder = tmp_path / "out"
    script = tmp_path / "run.py"
    script.write_text(SCRIPT.format(workers=workers, path=str(folder)))
    paths = os.pathsep.join(p for p in (os.getcwd(), *sys.path) if p)
    process = subprocess.Popen(
        [sys.executable, str(script)],
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    try:
        end = time.monotonic() + 120
        while len(list(folder.glob("part-*"))) < 2 and time.monotonic() < end:
            time.sleep(0.02)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert 2 <= len(list(folder.glob("part-*"))) < 6
    answered(folder, resume=True)
    answered(tmp_path / "whole")
    for file in sorted((tmp_path / "whole").iterdir()):
        if file.name != "journal.jsonl":
            assert (folder / file.name).read_bytes() == file.read_bytes()
