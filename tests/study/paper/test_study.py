"""The study of the paper: keys, the store, running on after a stop, results, packing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import cmpe
from cmpe.errors import CmpeError, FormatError
from cmpe.execution.local import InProcess
from cmpe.learning.training.config import TrainingConfig, preset
from study.paper import gpu
from study.paper.artifacts import rows_of
from study.paper.command import main
from study.paper.description import STUDY, read_study, study_of
from study.paper.packing import import_results, pack
from study.paper.plan import plan_of, told_config
from study.paper.results import Origin, results_hash, write_results
from study.paper.runner import missing, run
from study.paper.store import Artifact, Store, Task, arrays_file, canonical
from study.paper.wide import wide_results
from tests.problems import random_problem
from tests.study.paper.studies import TINY, Counting, tiny

NOWHERE = Path("/nonexistent")
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def plan():
    return plan_of(tiny(), NOWHERE)


@pytest.fixture(scope="module")
def store(plan, tmp_path_factory):
    """The whole tiny study, done."""
    made = Store(tmp_path_factory.mktemp("study") / "store")
    report = run(plan, made, InProcess())
    assert not report.failed
    return made


def left(study, store):
    """The stages that a changed study still has to run."""
    return Counter(t.stage for t in missing(plan_of(study, NOWHERE).tasks.values(), store))


def test_a_key_is_decided_by_everything_and_by_nothing_else():
    task = Task("solve", 1, {"b": 1, "a": [1.5, None]}, {"problem": "p"})
    assert task.key == Task("solve", 1, {"a": [1.5, None], "b": 1}, {"problem": "p"}).key
    others = [
        replace(task, stage="train"), replace(task, version=2),
        replace(task, settings={"b": 2, "a": [1.5, None]}), replace(task, inputs={"problem": "o"}),
    ]  # fmt: skip
    assert len({t.key for t in (task, *others)}) == 5
    with pytest.raises(ValueError, match="Out of range"):
        canonical({"a": float("nan")})


def test_a_config_is_told_by_what_is_not_usual():
    for config in (preset("paper", "pdl", epochs=3), preset("tuned", seed=2)):
        told = told_config(config)
        assert TrainingConfig.from_json(told) == config
        assert "floor" not in told


def test_an_artifact_is_there_whole_or_not_at_all(tmp_path):
    store, task = Store(tmp_path), Task("solve", 1, {})
    with pytest.raises(FileNotFoundError):
        store.write(task, Artifact({"a": b"1", "no/such/folder": b"2"}))
    assert not store.has(task)
    assert not list(tmp_path.glob(".writing.*"))
    store.write(task, Artifact({"a": b"1"}, {"seconds": 2.0}))
    store.write(task, Artifact({"a": b"other"}))
    assert store.read(task) == Artifact({"a": b"1"}, {"seconds": 2.0}, task.key)
    (tmp_path / ".writing.abc").mkdir()
    store.clean()
    assert [t.key for t in store.tasks()] == [task.key]
    assert not (tmp_path / ".writing.abc").exists()
    (store.place(task) / "a").write_bytes(b"2")
    with pytest.raises(FormatError, match="sha256"):
        store.read(task)


def test_arrays_make_the_same_bytes_at_any_time():
    first = arrays_file(a=np.arange(3), b=np.eye(2))
    time.sleep(0.01)
    assert arrays_file(a=np.arange(3), b=np.eye(2)) == first


@pytest.mark.parametrize("most", [0, 1, 4, 9])
def test_stopped_anywhere_nothing_is_done_twice(plan, store, tmp_path, most):
    again, first, second = Store(tmp_path), Counting(most), Counting()
    with pytest.raises(KeyboardInterrupt):
        run(plan, again, first)
    run(plan, again, second)
    assert sorted(first.ran + second.ran) == sorted(plan.tasks)
    tasks = plan.tasks.values()
    assert results_hash(again, tasks) == results_hash(store, tasks)
    third = Counting()
    assert not run(plan, again, third).done
    assert not third.ran


def test_a_killed_process_loses_only_what_it_was_doing(plan, store, tmp_path):
    description = tmp_path / "study.toml"
    description.write_text(as_toml(TINY), encoding="utf-8")
    told = ["paper", "run", "--study", str(description), "--scale", "tiny", "--out", str(tmp_path)]
    command = [sys.executable, "-m", "study", *told, "--data", str(NOWHERE)]
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    process = subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": paths}, stdout=subprocess.DEVNULL, cwd=ROOT
    )
    kept = Store(tmp_path / "store")
    while process.poll() is None and len(list(kept.tasks())) < 5:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = {t.key for t in kept.tasks()}
    assert len(before) >= 5
    kept.clean()
    counting = Counting()
    run(plan, kept, counting)
    assert not before & set(counting.ran)
    tasks = plan.tasks.values()
    assert results_hash(kept, tasks) == results_hash(store, tasks)


def as_toml(content):
    """Just enough TOML for a study."""
    lines = []
    for section, told in content.items():
        if section == "recipe":
            lines += ["[recipe]", *(f"{k} = {value_of(v)}" for k, v in told.items())]
            continue
        for name, fields in told.items():
            lines.append(f'[{section}."{name}"]')
            lines += [f"{k} = {value_of(v)}" for k, v in fields.items()]
    return "\n".join(lines)


def value_of(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {value_of(v)}" for k, v in value.items()) + " }"
    return json.dumps(value)


def test_only_what_depends_on_a_change_is_redone(store):
    scale = TINY["scales"]["tiny"]
    assert not left(tiny(), store)
    more = {**scale["changes"], "tuned": {**scale["changes"]["tuned"], "epochs": 3}}
    assert left(tiny(changes=more), store) == {"train": 2, "solve": 4, "evaluate": 6}
    selection = {**scale["selection"], "rho": [0.2]}
    changed = {"cross_validation": 1, "train": 2, "evaluate": 2}
    assert left(tiny(selection=selection), store) == changed
    assert left(tiny(selection={**scale["selection"], "shorter": {"mse": 2}}), store) == {}
    selection = {**scale["selection"], "shorter": {"ss_cmpe_pen": 2}}
    assert left(tiny(selection=selection), store) == changed
    assert left(tiny(seeds=[0, 1, 2]), store) == {"train": 3, "solve": 2, "evaluate": 5}
    assert left(tiny(budgets=[1.0, 5.0, 6.0]), store) == {"solve": 1, "evaluate": 1}
    added = left(tiny(percentiles=[30, 90]), store)
    assert "generate" not in added
    assert added["labels"] == 1
    assert left(tiny(samples=61), store)["generate"] == 1


def test_stages_can_be_left_out_with_all_that_needs_them(plan, tmp_path):
    store = Store(tmp_path)
    report = run(plan, store, InProcess(), without=["train"])
    assert report.counts()["evaluate"] == 5  # exact, lagrangian, the constant, two budgets
    assert {t.stage for t in missing(plan.tasks.values(), store)} == {"train", "solve", "evaluate"}


def test_results_are_complete(plan, store, tmp_path):
    paper = tmp_path / "paper.csv"
    paper.write_text(
        "table,dataset,q,method,metric,mean,std\n"
        "x,grid,30,ilp,objective,10,\nx,grid,30,pdl,gap,0.5,0.1\nx,grid,30,mse,gap,0.2,0.1\n",
        encoding="utf-8",
    )
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "adversarial.jsonl").write_text("{}\n", encoding="utf-8")
    origin = Origin(tiny(), paper, tmp_path / "run", ("make paper",))
    cells = write_results(plan, store, tmp_path, origin, {})
    assert len(cells) == 4 + 5 * 2
    by = {(c["method"], c["seed"]): c for c in cells}
    assert all(c["status"] == "measured" for c in cells)
    exact, tuned, highs = by["exact", 0], by["tuned", 1], by["milp:highs", 0]
    assert exact["every"]["regret"] == 0.0
    assert exact["every"]["optimal"] == 1.0
    assert by["constant", 0]["every"]["distinct_answers"] == 1
    rows = rows_of(store.read(plan.generated["grid"]), 30)
    seen = {row.tobytes() for row in rows.train}
    assert exact["overlap"] == pytest.approx(np.mean([r.tobytes() in seen for r in rows.test]))
    assert highs["budget"] == 5.0
    assert highs["every"]["rows"] == 2
    assert highs["every"]["regret"] == pytest.approx(0.0, abs=1e-6)
    moved, repaired = (by[f"tuned+{how}", 1]["every"] for how in ("moves", "repair"))
    assert moved["violation"] == repaired["violation"] == 0.0
    assert moved["certified_gap"] >= moved["regret"] - 1e-6  # the bound of `certify`
    assert repaired["regret"] <= moved["regret"] + 1e-9
    assert tuned["every"]["certified_gap"] is None  # a network alone has none
    assert tuned["device"] == "cpu"
    assert tuned["train_seconds"] > 0
    assert 0.0 <= tuned["relaxed_violation"] <= 1.0
    assert set(by["ss_cmpe_pen", 0]["settings"]) == {"beta", "rho", "margin"}
    for name in ("curves", "times", "datasets", "paper", "adversarial"):
        assert (tmp_path / f"{name}.jsonl").stat().st_size
    curve = [json.loads(x) for x in (tmp_path / "curves.jsonl").read_text().splitlines()]
    assert {c["epoch"] for c in curve} == {1, 2}
    provenance = json.loads((tmp_path / "provenance.json").read_text())
    assert provenance["stand_ins"] == ["grid"]
    assert provenance["seeds"] == [0, 1]
    assert set(provenance["hashes"]) == {t.stage for t in plan.tasks.values()}


def test_a_method_that_fails_is_missing_with_its_reason(tmp_path):
    content = {**TINY, "methods": {**TINY["methods"], "odd": {"solver": "no such method"}}}
    study = study_of(content, "tiny")
    study = replace(study, methods=tuple(m for m in study.methods if m.solver))
    plan, store = plan_of(study, NOWHERE), Store(tmp_path / "store")
    report = run(plan, store, InProcess())
    cells = write_results(plan, store, tmp_path, Origin(study, NOWHERE), report.failed)
    status = {c["method"]: c["status"] for c in cells}
    assert status.pop("odd") == "missing"
    assert set(status.values()) == {"measured"}
    assert "a method is one of" in next(c["reason"] for c in cells if c["method"] == "odd")


def test_packed_tasks_train_to_the_same_results_elsewhere(plan, store, tmp_path):
    away = Store(tmp_path / "away")
    with pytest.raises(CmpeError, match="run --stages"):
        list(pack(plan, away, tmp_path / "packs"))
    run(plan, away, InProcess(), stages=["labels", "bounds"])
    (file,) = pack(plan, away, tmp_path / "packs")
    told = [str(file), "--out", str(tmp_path / "out"), "--device", "cpu", "--percentiles", "30"]
    assert gpu.main([*told, "--losses", "ss_cmpe_pen", "--seeds", "1"]) == 0
    assert import_results(away, tmp_path / "out" / "results-0.zip") == 2  # a choice, a network
    (file,) = pack(plan, away, tmp_path / "packs")
    assert gpu.main([*told, "--seeds", "1", "--together", "2"]) == 0
    assert import_results(away, tmp_path / "out" / "results-0.zip") == 2
    (file,) = pack(plan, away, tmp_path / "packs")
    assert gpu.main([*told, "--out", str(tmp_path / "rest")]) == 0
    assert import_results(away, tmp_path / "rest" / "results-0.zip") == 3
    done = [t for t in plan.tasks.values() if t.stage in ("cross_validation", "train")]
    assert results_hash(away, done) == results_hash(store, done)


def test_a_stack_of_seeds_is_split_into_its_tasks(plan, store, tmp_path):
    away = Store(tmp_path / "away")
    run(plan, away, InProcess(), stages=["labels", "bounds"])
    (file,) = pack(plan, away, tmp_path / "packs")
    told = [str(file), "--out", str(tmp_path / "out"), "--device", "cpu", "--percentiles", "30"]
    assert gpu.main(told) == 0
    assert import_results(away, tmp_path / "out" / "results-0.zip") == 7
    for task in plan.tasks.values():
        if task.stage == "train":
            mine, theirs = (s.read(task).json("curve.json") for s in (away, store))
            losses = [[record["loss"] for record in curve] for curve in (mine, theirs)]
            np.testing.assert_allclose(*losses, rtol=1e-3)


def test_conditioning_without_a_compiler_is_the_same():
    for seed in range(5):
        problem, rows = random_problem(seed)
        structure = problem.conditioning
        evidence = problem.given(rows).evidence
        for which in range(len(problem.functions)):
            wanted = structure.tables(which, evidence)
            found = np.ones(wanted.T.shape)
            gpu.condition(evidence.T, structure.gathers[which], found)
            np.testing.assert_allclose(found.T, wanted)


def test_a_problem_travels_unchanged(plan, store):
    made = cmpe.generate(cmpe.generation.grid(4, 4, seed=1), cmpe.Recipe(percentile=30, samples=60))
    rows = rows_of(store.read(plan.generated["grid"]), 30)
    assert rows.problem.limits == made.problem.limits
    np.testing.assert_array_equal(rows.test, made.test)
    ones = np.ones((1, 16))
    for mine, theirs in zip(rows.problem.functions, made.problem.functions, strict=True):
        np.testing.assert_array_equal(mine.value(ones), theirs.value(ones))


@pytest.mark.parametrize("scale", ["smoke", "small", "brief", "full"])
def test_every_scale_of_the_description_makes_a_plan(scale):
    study = read_study(STUDY, scale)
    plan = plan_of(study, NOWHERE)
    methods = {c.method for c in plan.cells}
    assert methods == {m.name for m in study.methods}
    networks = sum(bool(m.network or m.repair) for m in study.methods)
    cells = [c for c in plan.cells if c.network is not None]
    level = study.scale
    assert len(cells) == networks * len(level.datasets) * len(level.percentiles) * len(level.seeds)


def test_the_command_says_what_it_would_do_and_what_is_wrong(tmp_path, capsys):
    told = ["--out", str(tmp_path), "--data", str(NOWHERE)]
    assert main(["run", *told, "--dry-run"]) == 0
    assert "evaluate" in capsys.readouterr().out
    assert not (tmp_path / "cells.jsonl").exists()
    assert main(["run", *told, "--scale", "huge"]) == 2
    assert "a scale is one of smoke" in capsys.readouterr().err
    assert main(["import", *told, str(tmp_path / "no.zip")]) == 2
    (tmp_path / "bad.toml").write_text("a = ", encoding="utf-8")
    assert main(["run", *told, "--study", str(tmp_path / "bad.toml")]) == 2
    assert capsys.readouterr().err.count("error: ") == 2


def test_one_command_trains_on_another_device(plan, store, tmp_path, capsys):
    description = tmp_path / "study.toml"
    description.write_text(as_toml(TINY), encoding="utf-8")
    told = ["--study", str(description), "--scale", "tiny", "--out", str(tmp_path)]
    told += ["--data", str(NOWHERE), "--paper", str(NOWHERE)]
    assert main(["run", *told, "--device", "cpu:0"]) == 0
    assert (tmp_path / "trained" / "results-0.zip").exists()
    there = Store(tmp_path / "store")
    tasks = [t for t in plan.tasks.values() if t.stage not in ("train", "evaluate")]
    alone = [t for t in tasks if "network" not in t.inputs]
    assert results_hash(there, alone) == results_hash(store, alone)
    capsys.readouterr()
    assert main(["run", *told, "--dry-run", "--verbose"]) == 0
    assert "run " not in capsys.readouterr().out.replace("to run", "")


@pytest.mark.parametrize(
    ("section", "name", "told", "match"),
    [
        ("methods", "mse", {"network": "paper", "solver": "exact"}, "exactly one of"),
        ("methods", "mse", {"netwerk": "paper"}, "no field 'netwerk'"),
        ("datasets", "grid", {}, "group"),
    ],
)
def test_a_wrong_description_is_refused(section, name, told, match):
    content = {**TINY, section: {**TINY[section], name: told}}
    with pytest.raises(CmpeError, match=match):
        study_of(content, "tiny")


def test_networks_that_were_not_trained_are_missing_and_seeds_without_any_are_left_out(
    tmp_path, plan
):
    none = Store(tmp_path / "store")
    origin = Origin(tiny(), NOWHERE, untrained="no time was left")
    cells = write_results(plan, none, tmp_path, origin, {})
    assert {c["seed"] for c in cells} == {0}
    assert all(c["status"] == "missing" for c in cells)
    reasons = {c["method"]: c["reason"] for c in cells}
    assert reasons["tuned+repair"] == reasons["mse"] == "no time was left"
    assert reasons["exact"] == "not run yet"


def test_wide_problems_come_from_kept_results(tmp_path):
    learned = {"family": "a_q80_x", "start": "network", "stage": "search", "train_s": 9.0,
               "rows": 4, "regret": 0.5, "error": 0.1, "violated": 1}  # fmt: skip
    lines = [{"benchmark": "wide_learned"}]
    lines += [{**learned, "ms": ms, "used_us": 1000 * ms} for ms in (1.0, 3.0)]
    lines.append({**learned, "ms": 0.1, "used_us": 900.0})  # no answer within twice its budget
    lines.append({**learned, "start": "icm", "stage": "moves", "ms": 0.0, "used_us": 5.0})
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "wide_learned.jsonl").write_text(text, encoding="utf-8")
    solver = {"family": "b", "method": "toulbar2", "rows": 2, "proved": 0, "used_ms": 9000.0}
    others = [{**solver, "regret": None, "violated": 2}]
    others.append({**solver, "method": "milp:highs", "regret": -1e-10, "violated": 0, "proved": 2})
    rival = {**solver, "family": "c", "violated": 0}
    for name, regret, used in (("", 3.0, 5.0), (":vac", 2.0, 9.0), (":vns", 2.0, 8.0)):
        others.append({**rival, "method": f"toulbar2{name}", "regret": regret, "used_ms": used})
    text = "".join(json.dumps(line) + "\n" for line in others)
    (tmp_path / "wide_others.jsonl").write_text(text, encoding="utf-8")
    cells, times = wide_results(tmp_path)
    quoted = next(c for c in cells if c["dataset"] == "c")  # the best, then the quicker
    assert (quoted["method"], quoted["every"]["regret"]) == ("toulbar2", 2.0)
    assert quoted["every"]["seconds"] == pytest.approx(8e-3)
    by = {c["method"]: c for c in cells if c["dataset"] != "c"}
    assert set(by) == {"network+search", "toulbar2", "milp:highs"}
    network = by["network+search"]
    assert (network["q"], network["dataset"], network["group"]) == (80, "a_q80_x", "wide")
    assert network["every"]["seconds"] == pytest.approx(1e-3)
    assert network["every"]["violation"] == 0.25
    assert network["every"]["regret_std"] == pytest.approx(0.2)  # of rows, not of their mean
    assert by["milp:highs"]["every"]["regret"] == 0.0
    assert (by["milp:highs"]["q"], by["milp:highs"]["every"]["proved"]) == (30, 1.0)
    assert by["toulbar2"]["every"]["regret"] is None
    assert by["toulbar2"]["reason"] == "no feasible answer was found"
    assert [(t["method"], t["seconds"]) for t in times] == [
        ("network+search", pytest.approx(1e-3)),
        ("network+search", pytest.approx(3e-3)),
        ("milp:highs", 9.0),
        ("toulbar2", pytest.approx(8e-3)),
    ]
