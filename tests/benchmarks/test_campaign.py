"""The hostile campaign: a short, seeded part of each kind, and that it notices what is wrong."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks.campaign import __main__ as campaign
from benchmarks.campaign import answers, beyond, processes, readers, relations, rows
from benchmarks.campaign.__main__ import PARTS, Watched, generator, main, unit_of
from benchmarks.campaign.cases import KINDS, Truth, random_case, told, truths
from benchmarks.campaign.journal import Journal, Progress, table
from benchmarks.campaign.mutations import PACK

import cmpe
from cmpe.errors import CmpeError, FormatError
from tests.refusals import refused

ROOT = Path(__file__).resolve().parents[2]
QUICK = 4  # a seed whose scenario runs two short commands


@pytest.mark.parametrize("part", ["answers", "relations", "rows"])
def test_a_few_units_find_nothing(part, monkeypatch):
    monkeypatch.setattr(answers, "SELDOM", {})
    journal = Journal()
    for number in range(4):
        unit_of(part)(generator(1, part, number), journal)
    assert journal.counts["row-by-method checks"] > 50
    assert journal.findings == []


def test_some_mutated_files_of_every_reader_find_nothing(monkeypatch):
    monkeypatch.setattr(readers, "INPUTS", 150)
    monkeypatch.setattr(readers, "BOMBS", 0.0)
    journal = Journal()
    readers.unit(generator(1, "readers", 0), journal)
    assert journal.counts["inputs"] == 150
    assert journal.counts["inputs that were refused"] > 75
    assert journal.findings == []


def test_every_sound_file_is_read(tmp_path):
    """Else mutations of it would test nothing but the first check."""
    known = {sample.reader for sample in readers.samples()}
    assert known >= {"model .uai", "model .npz", "labels", "run", "directory", "report", "images"}
    for number, sample in enumerate(readers.samples()):
        assert readers.outcome(sample, sample.files, tmp_path / str(number), Journal()) is None
        sample.read(tmp_path / str(number))


def test_a_disk_that_cannot_be_written(monkeypatch):
    journal = Journal()
    processes.unit(np.random.default_rng(QUICK), journal, processes.read_only)
    assert journal.counts["promises of processes"] == 3
    assert journal.findings == []


def test_wrong_answers_are_noticed_and_made_small():
    case = random_case(np.random.default_rng(3), "real")
    known = truths(case)
    assert answers.wrong_rows(case, "exact", known) == []
    higher = [replace(truth, strict=truth.strict + 1e9) for truth in known]
    assert any("says optimal" in wrong for _, wrong in answers.wrong_rows(case, "exact", higher))
    lower = answers.wrong_rows(case, "exact", [Truth(-1e9, -1e9, 1.0) for _ in known])
    assert any("above the optimum" in wrong for _, wrong in lower)
    assert len(answers.wrong_bounds(case, "lagrangian", higher)) == len(known)
    assert json.loads(told(case))["rows"] == case.rows.tolist()


def test_problems_without_tables_are_judged():
    rng = np.random.default_rng(0)
    problem = beyond.continuous_problem(rng)
    points = rng.random((50, problem.variables))
    point = points[problem.is_feasible(points)][:1]
    row = point[0, list(problem.evidence_variables)]
    found = {"local": cmpe.Solutions.of(problem, point, bound=[1e9])}
    assert beyond.judged(rng, problem, row, found) == []
    found["milp"] = cmpe.Solutions.of(problem, point, bound=[-1e9])
    assert "milp: bound" in beyond.judged(rng, problem, row, found)[0]
    points = np.rint(rng.random((9, problem.variables)))
    for function in problem.functions:
        np.testing.assert_allclose(beyond.value(function, points), function.value(points))
    flip = beyond.flip_problem(rng)
    points = rng.random((9, flip.variables))
    for function in flip.functions:
        np.testing.assert_allclose(beyond.value(function, points), function.value(points))


def test_wrong_answers_to_rows_with_their_own_numbers_are_noticed():
    for seed in range(100):
        case = rows.random_case(np.random.default_rng(seed))
        if case.problem.constraints and np.isfinite(case.within(1.0)).sum() > 3:
            break
    judges = {
        "answers": lambda case: rows.wrong_answers(case, "exact"),
        "best": rows.wrong_ranks,
        "front": rows.wrong_fronts,
    }
    for judge in judges.values():
        assert list(judge(case)) == []
        assert list(judge(replace(case, h=case.h + 1.0)))
    assert list(rows.wrong_bounds(case, "lagrangian")) == []
    assert list(rows.wrong_bounds(replace(case, h=case.h + 1e3), "lagrangian"))


def test_an_error_of_a_method_is_noticed(monkeypatch):
    def broken(*_, **__):
        raise KeyError("x")

    monkeypatch.setattr(cmpe, "solve", broken)
    journal, case = Journal(), random_case(np.random.default_rng(3), "whole")
    assert "KeyError" in answers.wrong_rows(case, "exact", truths(case))[0][1]
    assert not answers.smallest(case, "exact").problem.constraints
    relations.unit(np.random.default_rng(0), journal)
    assert [finding["kind"] for finding in journal.findings] == ["leak"]


def test_a_changed_answer_is_noticed():
    case = random_case(np.random.default_rng(8), "whole")
    other, _, constant = relations.shifted(np.random.default_rng(0), case)
    journal = Journal()
    relations.compare(journal, case, other, "exact", "shifted", (1.0, constant))
    assert journal.findings == []
    relations.compare(journal, case, other, "exact", "shifted", (1.0, constant + 1.0))
    assert [finding["kind"] for finding in journal.findings] == ["changed"]


def test_a_leak_is_noticed_and_made_small(tmp_path):
    def read(place):
        if b"!" in (place / "f").read_bytes():
            raise IndexError("!")
        raise FormatError("sound")

    sample = readers.Sample("f", {"f": b"0"}, read, ("f",))
    data = b"0123456789!0123456789" * 3
    assert readers.outcome(sample, {"f": b"0"}, tmp_path / "0", Journal()) is None
    assert "IndexError" in readers.outcome(sample, {"f": data}, tmp_path / "1", Journal())
    assert readers.smallest(sample, "f", data, tmp_path) == b"!"


def test_every_kind_of_problem_has_a_truth():
    for number, kind in enumerate(KINDS):
        case = random_case(np.random.default_rng(number), kind)
        assert case.kind == kind
        for row, truth in zip(cmpe.solve(case.problem, case.rows, method="exhaustive").objective,
                              truths(case), strict=True):  # fmt: skip
            scale = 1e-9 * max(1.0, truth.scale)
            is_between = truth.strict - scale <= row <= truth.loose + scale
            assert is_between or (np.isnan(row) and truth.strict == -np.inf)


@pytest.mark.parametrize("name", ["b.uai.gz", "b.evid.gz", "b.csv.gz", "b.data.gz"])
def test_a_megabyte_that_unpacks_to_a_gigabyte(tmp_path, name):
    """0.94 GiB of `11 `, which took 12 GB once."""
    path = tmp_path / name
    path.write_bytes(PACK[".gz"](b"11 " * (1 << 24)) * 20)
    assert path.stat().st_size < 5e6
    problem = cmpe.Problem(cmpe.LogLinearModel((2, 3)), (), (0,))
    read = {".uai.gz": cmpe.read_model, ".data.gz": readers.read_data}.get(
        name[1:], lambda path: cmpe.read_evidence(path, problem)
    )
    tracemalloc.start()
    refused(lambda: read(path), "expected at most 268435456 bytes, found more", CmpeError)
    assert tracemalloc.get_traced_memory()[1] < 1e9
    tracemalloc.stop()


def test_a_campaign_is_summed_up_and_goes_on(tmp_path):
    told = ["--minutes", "0.01", "--seed", "5", "--out", str(tmp_path), "--only", "relations"]
    before = 0
    for _ in range(2):
        assert main([*told, "--jobs", "1"]) == 0
        summary = json.loads((tmp_path / "summary.json").read_text())
        assert summary["next"]["relations"] > before
        assert (summary["seed"], summary["findings"]) == (5, [])
        before = summary["next"]["relations"]
    assert summary["counts"]["row-by-method checks"] > before
    with pytest.raises(SystemExit, match="holds a campaign of seed 5"):
        Progress.read(tmp_path, 6)


def test_a_worker_that_crashes_or_hangs_is_a_finding(tmp_path, monkeypatch):
    progress = Progress(0)
    worker = Watched("answers", 0, 7, 60.0)
    worker.process.kill()
    worker.process.wait()
    assert not worker.heed(progress, tmp_path)
    monkeypatch.setattr(campaign, "SILENCE", 0.0)
    assert not Watched("answers", 0, 8, 60.0).heed(progress, tmp_path)
    assert [(f["kind"], f["unit"]) for f in progress.findings] == [("crash", 7), ("hang", 8)]
    assert progress.next == {"answers": 9}


def test_findings_are_kept_with_what_reproduces_them(tmp_path):
    journal = Journal()
    journal.find("leak", "KeyError", {"a.uai": b"\x00MARKOV"})
    journal.measure("seconds", 2.0)
    progress = Progress(0)
    progress.add("readers", 3, json.loads(json.dumps(journal.to_json())), tmp_path)
    (finding,) = progress.findings
    assert (tmp_path / finding["reproduction"] / "a.uai").read_bytes() == b"\x00MARKOV"
    progress.write(tmp_path, {})
    again = Progress.read(tmp_path, 0)
    assert (again.findings, again.next, again.most) == ([finding], {"readers": 4}, {"seconds": 2.0})
    assert set(PARTS) == {"answers", "certificates", "relations", "readers", "processes", "rows"}
    again.try_again(lambda part, unit: {"findings": [finding]})
    assert again.findings == [finding]
    again.try_again(lambda part, unit: {"findings": []})
    assert (again.findings, again.mended) == ([], [finding])


def test_the_page_shows_the_figures_of_the_run_that_is_kept():
    kept = json.loads((ROOT / "benchmarks" / "results" / "campaign.json").read_text("utf-8"))
    assert table(kept) in (ROOT / "docs" / "reliability.md").read_text("utf-8")
    assert kept["seconds"] >= 1800
    assert kept["counts"]["row-by-method checks"] >= 200_000
    assert kept["counts"]["inputs"] >= 300_000
    assert kept["most"]["gigabytes of a process that reads"] < 3.0
