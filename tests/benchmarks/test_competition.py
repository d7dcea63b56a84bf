"""Scores, constrained versions and pictures of the competition benchmark."""

import json

import numpy as np
import pytest

import cmpe
from benchmarks import competition
from cmpe.formats.directory import read_directory
from cmpe.generation import grid


@pytest.fixture
def folder(tmp_path):
    cmpe.write_uai(grid(4, 4, seed=1), tmp_path / "small_1.uai")
    (tmp_path / "values.csv").write_text("instance,auto,auto_wall_s\nsmall_1,5.0,9000.0\n")
    return tmp_path


def test_scores_are_shares_of_the_best_known():
    assert competition.score(None, 5.0) == 0.0
    assert competition.score(-11.0, -10.0) == pytest.approx(90.0)
    runs = [{"value": 4.0}, {"value": None}, {"value": 8.0}]
    assert [r["known"] for r in competition.scored(runs, 6.0)] == [8.0] * 3
    assert [r["score"] for r in competition.scored(runs, 6.0)] == [50.0, 0.0, 100.0]


def test_instances_and_their_constrained_versions(folder):
    (instance,) = competition.instances_of(folder)
    assert (instance.name, instance.evidence, instance.known) == ("small_1", None, 5.0)
    made = competition.constrained(instance, 30, folder / "problems", 0)
    again = competition.constrained(instance, 30, folder / "problems", 0)
    assert made == again
    found = read_directory(made.model)
    assert len(found.problem.evidence_variables) == 2
    assert len(found.problem.constraints) == 1


def test_a_constraint_binds_where_the_best_answer_breaks_it():
    model = cmpe.LogLinearModel.from_tables([2, 2], [((0,), [0.0, 1.0]), ((1,), [0.0, 2.0])])
    for limit, expected in ((0.5, True), (5.0, False)):
        problem = cmpe.Problem(model, [cmpe.Constraint(model, at_most=limit)])
        assert competition.binds(problem, None) is expected


def test_a_run_measures_itself(folder, monkeypatch):
    monkeypatch.setattr(competition, "load", lambda *_: None)
    (instance,) = competition.instances_of(folder)
    told = {"model": str(instance.model), "evidence": None, "method": "exact"}
    found = competition.one({**told, "limit_s": 5.0, "seed": 0, "clock": "wall"})
    assert found["status"] == "optimal"
    assert found["value"] == pytest.approx(found["bound"], abs=1e-4)
    assert competition.cpu_seconds() > 0.0


# The interrupt may arrive inside a callback of the interpreter, which drops it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_rival_is_stopped_by_its_cpu_seconds(monkeypatch):
    slow = cmpe.Problem(grid(20, 20, seed=1))
    told = {"limit_s": 0.5, "method": "search", "seed": 0, "stretch": 4.0}
    found = competition.watched(slow, None, told)  # four times as long by the wall clock
    assert found.feasible[0]


def test_regret_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    run = {"instance": "a", "method": "auto", "known": 3.0}
    records = [{**run, "limit_s": s, "value": v} for s, v in ((1.0, 1.0), (5.0, 3.0), (9.0, None))]
    competition.draw_regret(records, tmp_path / "figures" / "a.svg")
    assert "regret" in (tmp_path / "figures" / "a.svg").read_text()


def test_families_have_mean_scores():
    records = [
        {"instance": f"grid{n}", "method": "auto", "status": "optimal", "score": s}
        for n, s in ((1, 80.0), (2, 100.0))
    ]
    rows = competition.by_family(records)
    assert [(r["family"], r["score"]) for r in rows] == [("all", 90.0), ("grid", 90.0)]
    assert json.dumps(rows)
    assert np.isfinite([r["score"] for r in rows]).all()
