"""The fair study: disjoint rows, choices by validation rows, a run that resumes, its tables."""

import itertools
import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from study.fair import arms, cells, command, figures, page, timing
from study.fair.arms import ARMS, choose
from study.fair.cells import CELLS, LONG_CELLS, MARGINS, Cell, KeptCell, distinct_rows
from study.paper.command import main as paper

ROOT = Path(__file__).resolve().parents[2]
TINY = """
import os, signal, sys
for name in ("highspy", "typer", "rich"):  # prepare, train and time do without them
    sys.modules[name] = None
from study.fair import arms, cells, command
cells.CELLS = (cells.Cell("tiny", "grid:4", 30, train=60),)
cells.SAMPLES, arms.EPOCHS, arms.SEEDS = 200, 2, (0, 1)
arms.ARMS = (arms.ARMS[0], arms.ARMS[-1])
"""
KILLED = (
    TINY
    + """
answers = arms._answers
def dying(cell, trainer, member, device):
    if trainer.configs[0].loss != "ss_cmpe":  # in the middle of the second piece
        os.kill(os.getpid(), signal.SIGKILL)
    return answers(cell, trainer, member, device)
arms._answers = dying
command.main(["--out", sys.argv[1], "--steps", "prepare", "train"])
"""
)


def test_rows_of_a_cell_do_not_overlap():
    rows = np.random.default_rng(0).integers(0, 2, (500, 6)).astype(np.int32)
    parts = distinct_rows(rows, CELLS[0])
    seen = [row.tobytes() for part in parts for row in part]
    assert len(seen) == len(set(seen)) == len(np.unique(rows, axis=0))


def test_the_choice_is_the_least_regret_among_safe_members():
    members = [(0.0, 0.1), (0.0, 1.0), (2.0, 0.1)]
    regret = np.array([[1.0, 3.0, 5.0], [2.0, 4.0, 6.0], [3.0, 5.0, 7.0]])
    violation = np.array([[0.5, 0.01, 0.2], [0.5, 0.0, 0.1], [0.5, 0.0, 0.05]])
    cold, warm = choose(members, regret, violation)
    assert (cold.value, cold.margin) == (1.0, 0.0)
    assert (warm.value, warm.margin) == (0.1, MARGINS[2])


def test_every_arm_has_as_many_settings():
    assert {len(arm.values) for arm in ARMS} == {4}


@pytest.fixture
def tiny(monkeypatch):
    """One small cell, two arms and two epochs, as in the script."""
    shrink(monkeypatch)


def shrink(patch):
    for module in (cells, page):
        patch.setattr(module, "CELLS", (Cell("tiny", "grid:4", 30, train=60),))
    patch.setattr(cells, "SAMPLES", 200)
    for name, value in {"EPOCHS": 2, "SEEDS": (0, 1), "ARMS": (ARMS[0], ARMS[-1])}.items():
        patch.setattr(arms, name, value)
    patch.setattr(timing, "LEAST", 0.0)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a study that nothing has interrupted."""
    out = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        shrink(patch)
        assert command.main(["--out", str(out), "--workers", "1"]) == 0
    return out


def kept_files(out):
    """What a study has kept but its times, by name."""
    return {
        path.relative_to(out): path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.suffix in (".json", ".npz") and path.name != "times.json"
    }


@pytest.mark.usefixtures("tiny")
def test_a_killed_run_resumes_to_the_same_cells(whole, tmp_path, capsys):
    script = [sys.executable, "-c", KILLED, str(tmp_path)]
    done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    begun = kept_files(tmp_path)
    assert Path("tiny/ss_cmpe-refined-alpha.npz") in begun
    assert Path("tiny/mae_pen.npz") not in begun

    assert paper(["--scale", "fair", "--out", str(tmp_path)]) == 0
    assert "tiny, ss_cmpe" not in capsys.readouterr().out
    assert begun.items() <= kept_files(tmp_path).items()
    assert kept_files(tmp_path) == kept_files(whole)


@pytest.mark.usefixtures("tiny")
def test_figures_are_those_of_enumeration(whole):
    cell = KeptCell(whole / "tiny")
    record = json.loads((cell.folder / "figures.json").read_text())
    problem, test = cell.problem, cell.test
    every = np.array(list(itertools.product((0, 1), repeat=len(problem.free))))
    judge = figures.Judge(cell)
    whole_rows = np.stack([judge.filled(values) for values in every])  # (answers, rows, n)
    h = problem.objective.value(whole_rows.reshape(-1, problem.variables))
    ok = problem.is_feasible(whole_rows.reshape(-1, problem.variables))
    h, ok = h.reshape(len(every), len(test)), ok.reshape(len(every), len(test))
    best = np.where(ok, h, -np.inf).max(axis=0)
    assert (best > -np.inf).all()
    binds = ~ok[h.argmax(axis=0), np.arange(len(test))]
    assert record["facts"]["binds"] == pytest.approx(binds.mean())
    assert record["facts"]["seen"] == 0.0

    def measured(free):  # (rows, free variables)
        at = free @ (1 << np.arange(len(problem.free))[::-1]), np.arange(len(test))
        regret = (best - h[at])[ok[at]]
        return regret.mean() if len(regret) else None, 1.0 - ok[at].mean(), ok[at], best - h[at]

    rows, lost = np.ones(len(test), bool), {}
    for (run, answers), shown in zip(arms.kept_runs(cell), record["arms"], strict=True):
        assert run["arm"] == shown["arm"]
        for i in range(len(MARGINS)):
            each = [measured(seed[i]) for seed in answers]
            assert shown["curve"][i]["violated"] == pytest.approx(np.mean([e[1] for e in each]))
        chosen = MARGINS.index(run["margin"])
        regret, violated, feasible, gaps = measured(answers[0, chosen])
        assert shown["seeds"][0]["violated"] == pytest.approx(violated)
        assert shown["seeds"][0]["regret"] == (regret if regret is None else approx(regret))
        if run["arm"].startswith("ss_cmpe"):
            rows &= feasible
            lost[f"{run['arm']}, T {run['temperature']:g}"] = gaps
    assert record["common"]["rows"] == rows.sum()
    for name, gaps in lost.items():
        expected = approx(gaps[rows].mean()) if rows.any() else None
        assert record["common"]["regret"][name] == expected


def approx(value):
    return pytest.approx(value, abs=1e-5)


@pytest.mark.usefixtures("tiny")
def test_times_stand_beside_the_answers_that_took_them(whole):
    record = page.gathered(whole)[0]
    raw = json.loads((whole / "tiny" / "figures.json").read_text())
    points, network = record["times"]["points"], record["times"]["network"]
    assert set(points) == {"constant", *page.TIMED, *page.SEARCHED}
    assert all(point["us"] >= 0.0 for point in points.values())
    run = page.run_of(raw, network["arm"], network["temperature"])
    assert points["network"]["violated"] == pytest.approx(run["seeds"][0]["violated"], rel=1e-3)
    assert points["exact"]["regret"] == points["exact"]["violated"] == 0.0
    assert "fair-time" in (whole / "tables.md").read_text()
    del record["times"]
    without = page.tables([record])
    assert "fair-time" not in without
    marks = "<!-- fair-time -->\nbefore\n<!-- end -->\n<!-- fair -->\n\n<!-- end -->\n"
    assert page.filled(marks, [record]).startswith("<!-- fair-time -->\nbefore\n<!-- end -->")
    assert "tiny" in page.filled(marks, [record])


def test_options_of_the_study_that_scale_fair_lacks_are_refused(tmp_path, capsys):
    assert paper(["--scale", "fair", "--out", str(tmp_path), "--dry-run"]) == 2
    assert "python -m study fair" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command.main(["--out", str(tmp_path), "--cells", "nothing"])
    assert "found nothing" in capsys.readouterr().err


@pytest.mark.usefixtures("tiny")
def test_several_processes_train_a_part_each(tmp_path, monkeypatch):
    begun, codes = [], iter((0, 0, 0, 1))

    class Process:
        def __init__(self, words):
            begun.append(words)

        def wait(self):
            return next(codes)

    monkeypatch.setattr(command.subprocess, "Popen", Process)
    words = ["--out", str(tmp_path), "--steps", "train", "--workers", "2", "--cells", "tiny"]
    assert command.main(words) == 0
    assert [line[-2:] for line in begun] == [["--part", "0/2"], ["--part", "1/2"]]
    assert all("--cells tiny" in " ".join(line) for line in begun)
    with pytest.raises(SystemExit, match="call again"):
        command.main(words)


def test_rivals_and_comparisons_at_equal_violations():
    constants = [
        {"trained": t, "regret": r, "violated": v}
        for t, r, v in ((0.002, 9.0, 0.012), (0.01, 8.0, 0.009), (0.3, 3.0, 0.31))
    ]
    record = {"constants": constants}
    assert page.constant_of(record)["regret"] == 8.0
    assert page.constant_of(record, 0.0)["regret"] == 9.0
    assert page.constant_of(record, 0.5)["regret"] == 3.0
    assert page.rival_of(record, 0.0) == page.rival_of(record, 0.2) == 8.0
    assert page.rival_of(record, 0.31) == 3.0
    curve = [{"regret": r, "violated": v} for r, v in ((1.0, 0.2), (4.0, 0.01), (6.0, 0.0))]
    assert page.equal_of(record, {"curve": curve}) == 4.0
    assert page.equal_of(record, {"curve": curve[:1]}) is None


def test_the_tables_of_the_page_are_those_of_the_kept_cells():
    records = page.kept()
    known = {cell.name for cell in (*CELLS, *LONG_CELLS)}
    assert {record["cell"] for record in records} <= known
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.filled(text, records) == text
