"""What the benchmarks for a GPU share: packed problems, the clock, modes, bare machines."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cmpe
from benchmarks import device_frame
from cmpe.generation import grid

ROOT = Path(__file__).resolve().parents[2]
# Each benchmark as a file beside its neighbours, without what a bare machine lacks, up to the
# point where it reads its pack.
BARE = """
import runpy, sys
from pathlib import Path

for name in ("numba", "safetensors", "highspy"):
    sys.modules[name] = None
for name in ("dual", "wide", "learned"):
    file = Path("benchmarks", f"{name}_gpu.py").resolve()
    sys.path[0] = str(file.parent)
    for known in [m for m in sys.modules if m.split(".")[0] == "benchmarks"]:
        del sys.modules[known]
    parts = runpy.run_path(str(file))
    from study.bare import without_numba, without_safetensors
    missing = without_numba()
    without_safetensors()
    assert missing == (name == "dual")  # the first one stands in for all
    absent = Path("absent.pkl")
    try:
        next(iter(parts["measure"](absent)))
    except FileNotFoundError as error:
        assert error.filename == str(absent), error
        print(name)
"""


def test_problems_are_packed_with_as_many_rows_as_asked_for(tmp_path):
    recipe = cmpe.Recipe(samples=20, percentile=30)
    made = cmpe.generate(grid(3, 3, seed=1), recipe, name="tiny")
    cmpe.write_directory(made, tmp_path / "problem")
    device_frame.pack_problems(
        tmp_path / "packs", [tmp_path / "problem"], 50, lambda problem, rows: (len(rows), "more")
    )
    problem, rows, *more = pickle.loads((tmp_path / "packs" / "tiny.pkl").read_bytes())
    assert more == [50, "more"]
    np.testing.assert_array_equal(rows[:20], np.concatenate([made.test, made.train]))
    np.testing.assert_array_equal(rows[20:40], rows[:20])
    assert "conditioning" not in problem.__dict__
    np.testing.assert_array_equal(
        cmpe.solve(problem, rows[:2]).objective, cmpe.solve(made.problem, rows[:2]).objective
    )


def test_the_first_calls_are_not_timed():
    calls = []
    answer, seconds = device_frame.median_seconds(lambda: calls.append(1) or len(calls), 4, 3)
    assert answer == len(calls) == 7
    assert seconds >= 0.0


@pytest.mark.parametrize("mode", ["prepare", "time"])
def test_modes(monkeypatch, tmp_path, mode):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a device")
    first = tmp_path / "first"
    monkeypatch.setattr(sys, "argv", ["file.py", mode, str(first), "a", "b"])
    called = []
    device_frame.run_modes(
        lambda out, paths: called.append(("prepare", out, paths)),
        lambda path: [{"path": str(path)}, {"more": 1}],
    )
    if mode == "time":
        header, *records = map(json.loads, first.read_text().splitlines())
        assert header == {"machine": "a device", "versions": {"torch": torch.__version__}}
        assert records == [{"path": "a"}, {"more": 1}, {"path": "b"}, {"more": 1}]
    else:
        assert called == [(mode, first, [Path("a"), Path("b")])]


def test_benchmarks_run_as_files_on_a_bare_machine():
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, "-c", BARE],
        cwd=ROOT,
        env={"PYTHONPATH": "src", "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["dual", "wide", "learned"], done.stderr
