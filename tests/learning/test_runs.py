"""Run directories: round trip, and one line for everything that is wrong with one."""

from __future__ import annotations

import contextlib
import json
import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from cmpe.errors import FormatError, InputError
from cmpe.formats.directory import ProblemDirectory, read_directory, write_directory
from cmpe.learning.runs import (
    Calibration,
    Trained,
    is_run,
    locked,
    read_checkpoint,
    read_log,
    read_trained,
    worst_rate,
    write_checkpoint,
    write_log,
    write_trained,
)
from cmpe.learning.solver import NeuralSolver
from cmpe.learning.training.fitting import Session, fit
from tests.learning.cases import GRID, quick, small_grid, untrained
from tests.refusals import fill_disk, refused
from tests.test_locks import as_on_windows

ONE = small_grid()


def some_run():
    parameters = {"weight0": torch.randn((1, 3, 2)), "bias0": torch.zeros((1, 2))}
    calibration = (Calibration(0.0, None, 10, 1.0), Calibration(1.5, 0.25, 10, 0.1))
    config = quick(beta=math.inf, margins=(0.0, 1.5))
    return Trained(config, "abc", parameters, calibration, epochs=3, name="näme")


def test_a_run_survives_the_round_trip(tmp_path):
    run = some_run()
    write_trained(run, tmp_path / "deep" / "run")
    found = read_trained(tmp_path / "deep" / "run")
    assert found.config == run.config
    assert (found.digest, found.calibration, found.epochs, found.name) == (
        "abc", run.calibration, 3, "näme"
    )  # fmt: skip
    assert all(torch.equal(found.parameters[k], v) for k, v in run.parameters.items())
    assert sorted(p.name for p in (tmp_path / "deep" / "run").iterdir()) == [
        "config.json", "weights.safetensors"
    ]  # fmt: skip


def test_the_config_describes_itself(tmp_path):
    write_trained(some_run(), tmp_path)
    found = json.loads((tmp_path / "config.json").read_text())
    assert found["format_version"] == 1
    assert found["kind"] == "cmpe neural solver"
    assert found["problem_sha256"] == "abc"
    assert found["training"]["beta"] is None  # JSON knows no infinity


def test_runs_are_told_from_problem_directories(tmp_path):
    assert not is_run(tmp_path)
    write_trained(some_run(), tmp_path)
    assert is_run(tmp_path)
    (tmp_path / "problem.json").write_text("{}")
    assert not is_run(tmp_path)


@pytest.fixture
def folder(tmp_path):
    fit(ONE.problem, ONE.train, quick(epochs=1), Session(out=tmp_path))
    NeuralSolver.load(tmp_path, ONE.problem)
    return tmp_path


def run_refused(folder, match, kind=FormatError):
    """Loading and solving ends in one line of the family of input errors."""
    assert issubclass(kind, InputError)
    load = NeuralSolver.load
    refused(lambda: load(folder, ONE.problem).solve(ONE.problem, ONE.test), match, kind)


def change(folder, **changes):
    found = json.loads((folder / "config.json").read_text())
    for name, value in changes.items():
        if value is KeyError:
            del found[name]
        else:
            found[name] = value
    (folder / "config.json").write_text(json.dumps(found))


@pytest.mark.parametrize("version", [0, 2, "1", None])
def test_another_format_version_is_refused(version, folder):
    change(folder, format_version=version)
    run_refused(folder, r"config\.json: field 'format_version': expected 1, found")


@pytest.mark.parametrize("name", ["config.json", "weights.safetensors"])
def test_missing_files_are_named(name, folder):
    (folder / name).unlink()
    run_refused(folder, f"{name}: cannot be read: No such file", InputError)


def test_a_missing_folder_is_named(tmp_path):
    run_refused(tmp_path / "nowhere", "nowhere.*cannot be read", InputError)


@pytest.mark.parametrize("keep", [0, 4, 20, 200, -1, -30])
def test_truncated_weights_are_refused(keep, folder):
    change(folder, weights_sha256=KeyError)
    file = folder / "weights.safetensors"
    file.write_bytes(file.read_bytes()[:keep])
    run_refused(folder, r"weights\.safetensors: the file: expected safetensors")


@pytest.mark.parametrize("text", ["", "{", "[]", "nonsense", '{"format_version": 1}'])
def test_a_config_that_is_no_config_is_refused(text, folder):
    (folder / "config.json").write_text(text)
    run_refused(folder, r"config\.json")


@pytest.mark.parametrize(
    "changes",
    [
        {"training": KeyError},
        {"training": None},
        {"training": []},
        {"training": "mlp"},
        {"training": {"epochs": "many"}},
        {"training": {"hidden": 5}},
        {"training": {"hidden": ["a"]}},
        {"calibration": None},
        {"calibration": [3]},
        {"calibration": [{"margin": 0.0}]},
        {"epochs": "x"},
        {"epochs": None},
        {"problem_sha256": KeyError},
        {"problem_sha256": None},
        {"epochs": math.inf},
        {"epochs": 1e400},
        {"epochs": -1},
        {"finished": "yes"},
        {"training": {"epochs": math.inf}},
        {"training": {"epochs": math.nan}},
        {"training": {"learning_rate": 10**400}},
        {"training": {"batch_size": -(10**400)}},
        {"calibration": [{"margin": "0", "regret": 1.0, "rows": 3, "violation": 0.5}]},
        {"calibration": [{"margin": 0, "regret": {}, "rows": 3, "violation": 0.5}]},
        {"calibration": [{"margin": 0, "regret": 1.0, "rows": math.inf, "violation": 0.5}]},
    ],
)
def test_odd_fields_are_refused(changes, folder):
    change(folder, **changes)
    run_refused(folder, ".", InputError)


def test_unknown_training_fields_are_refused(folder):
    training = json.loads((folder / "config.json").read_text())["training"]
    change(folder, training={**training, "colour": 1})
    run_refused(folder, "no field 'colour'", InputError)


def test_weights_of_another_network_are_refused(folder):
    training = json.loads((folder / "config.json").read_text())["training"]
    change(folder, training={**training, "hidden": [9]})
    run_refused(folder, r"the weights do not fit the network of config\.json", InputError)


def test_missing_and_extra_weights_are_refused(folder):
    change(folder, weights_sha256=KeyError)  # as runs of older versions
    file = folder / "weights.safetensors"
    whole = load_file(file)
    fewer = {k: v for k, v in whole.items() if k != "bias0"}
    for parameters in (fewer, {**whole, "more": torch.zeros(1)}):
        save_file(parameters, file)
        run_refused(folder, "the weights do not fit", InputError)


def test_weights_of_another_kind_of_number_are_read(folder):
    change(folder, weights_sha256=KeyError)
    before = NeuralSolver.load(folder, ONE.problem).solve(ONE.problem, ONE.test)
    file = folder / "weights.safetensors"
    whole = load_file(file)
    save_file({k: v.double() for k, v in whole.items()}, file)
    after = NeuralSolver.load(folder, ONE.problem).solve(ONE.problem, ONE.test)
    np.testing.assert_array_equal(after.assignments, before.assignments)


def test_the_config_knows_its_weights(folder):
    """Weights of another run, which fit the same network, are not taken for those of this one."""
    file = folder / "weights.safetensors"
    save_file({k: v + 1 for k, v in load_file(file).items()}, file)
    run_refused(folder, r"sha256: expected the weights of config\.json beside it, found others")


def test_a_full_disk_leaves_the_old_run(folder, monkeypatch):
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    trained = read_trained(folder)
    other = replace(trained, parameters={k: v + 1 for k, v in trained.parameters.items()})
    fill_disk(monkeypatch)
    refused(lambda: write_trained(other, folder), "No space left on device")
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


def test_one_trainer_a_directory(tmp_path):
    """The lock of a process that was killed is gone; that of one that lives is not."""
    out = tmp_path / "run"
    script = (
        "import sys, time; from pathlib import Path; from cmpe.learning.runs import locked\n"
        "with locked(Path(sys.argv[1])): print('locked', flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(out)], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "locked\n"
        session = Session(out)
        rows = ONE.train
        message = "another process is training in this directory"
        refused(lambda: fit(ONE.problem, rows, quick(epochs=1), session), message)
        other.kill()
    with locked(out):
        refused(lambda: locked(out).__enter__(), message)
    with locked(out), locked(None):
        assert out.is_dir()
    with contextlib.suppress(KeyError), locked(tmp_path / "new"):
        raise KeyError
    assert not (tmp_path / "new").exists()


def test_one_trainer_a_directory_on_windows(tmp_path, monkeypatch):
    as_on_windows(monkeypatch)
    out = tmp_path / "run"
    with locked(out):
        refused(lambda: locked(out).__enter__(), "another process is training in this directory")


def test_a_run_loads_its_own_problem_from_the_file_that_was_written(tmp_path):
    """Tables that were made by arithmetic are written as the nearest potentials."""
    made = small_grid()
    solver = untrained(made.problem)
    solver.save(tmp_path / "run")
    write_directory(ProblemDirectory(made.problem, made.train, made.test), tmp_path / "problem")
    again = read_directory(tmp_path / "problem").problem
    tables = [f.log_table for f in made.problem.objective.factors]
    assert any(
        not np.array_equal(table, factor.log_table)
        for table, factor in zip(tables, again.objective.factors, strict=True)
    )
    assert NeuralSolver.load(tmp_path / "run", again).solve(again, made.test).feasible.any()


def test_checkpoints_survive_the_round_trip(tmp_path):
    state = {"a": torch.arange(3.0), "b": torch.tensor([[math.nan]])}
    write_checkpoint(tmp_path, state, {"rows": 3, "seconds": 1.5, "config": {"x": [1, None]}})
    found, about = read_checkpoint(tmp_path)
    assert about == {"rows": 3, "seconds": 1.5, "config": {"x": [1, None]}}
    assert all(torch.equal(found[k].nan_to_num(), v.nan_to_num()) for k, v in state.items())
    whole = (tmp_path / "checkpoint.pt").read_bytes()
    for keep in (0, 10, len(whole) // 2, len(whole) - 1):
        (tmp_path / "checkpoint.pt").write_bytes(whole[:keep])
        with pytest.raises(FormatError, match=r"checkpoint\.pt: the file: expected a checkpoint"):
            read_checkpoint(tmp_path)


def calibrated(*entries):
    solver = untrained(GRID.problem)
    known = tuple(Calibration(*entry) for entry in entries)
    return replace(solver, trained=replace(solver.trained, calibration=known))


def test_the_calibrated_margin_has_the_least_regret_of_the_safe_ones():
    solver = calibrated(  # margin, regret, violation on 1,000 validation and on 9,000 rows
        (0.0, 0.1, 1000, 0.20, 9000, 0.15),
        (1.0, 0.5, 1000, 0.005, 9000, 0.005),
        (2.0, 0.4, 1000, 0.0, 9000, 0.001),
        (3.0, 0.6, 1000, 0.0, 9000, 0.0),
        (4.0, 2.0, 1000, 0.0, 9000, 0.0),
    )
    assert solver.calibrated_margin() == 2.0
    assert solver.calibrated_margin(allowed=0.3) == 0.0
    assert solver.calibrated_margin(allowed=0.002) == 2.0  # only all rows can show it
    assert solver.calibrated_margin(allowed=0.001) == 3.0
    assert solver.calibrated_margin(allowed=1e-6) == 4.0  # not shown: least violations, largest
    assert calibrated().calibrated_margin() == 0.0
    assert calibrated((2.0, None, 5, 1.0), (1.0, 3.0, 5, 0.8)).calibrated_margin() == 1.0


def test_few_rows_show_little():
    assert worst_rate(0.0, 10) == pytest.approx(1 - 0.05 ** (1 / 10))
    assert worst_rate(0.0, 1000) < 0.003
    assert worst_rate(1.0, 10) == 1.0
    rates = [worst_rate(v / 100, 100) for v in range(0, 101, 10)]
    assert rates == sorted(rates)
    assert all(w > v / 100 for w, v in zip(rates[:-1], range(0, 100, 10), strict=True))


def test_logs_come_back(tmp_path):
    records = [{"epoch": 1, "loss": 0.5}, {"epoch": 2, "loss": None}]
    write_log(tmp_path, records)
    assert read_log(tmp_path) == records
    for content in (b"{", b"[1]\n", b"\xff\n"):
        (tmp_path / "log.jsonl").write_bytes(content)
        with pytest.raises(FormatError, match=r"log\.jsonl"):
            read_log(tmp_path)
