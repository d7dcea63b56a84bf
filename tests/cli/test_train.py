"""`cmpe train`, and `cmpe solve` with what it trained."""

from __future__ import annotations

import json
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from cmpe import Constraint, ProblemDirectory, Recipe, read_directory, write_directory
from cmpe.formats.results import read_mpe
from cmpe.formats.uai import storable
from cmpe.generation import generate, grid
from cmpe.learning.runs import read_trained
from cmpe.learning.solver import NeuralSolver
from cmpe.learning.training.config import preset
from cmpe.learning.training.stacking import PAPER_GRID
from tests.refusals import only_line

COMMAND = str(Path(sys.executable).with_name("cmpe"))
SMALL = ["--set", "hidden=[8]", "--set", "batch_size=32", "--set", "margins=[0,1]"]
QUICK = [*SMALL, "--epochs", "3"]
FILES = {"checkpoint.pt", "config.json", "curve.png", "log.jsonl"}
FILES |= {"price.json", "weights.safetensors"}
FIELDS = ["index", "status", "objective", "bound", "gap", "feasible", "constraints"]
FIELDS += ["assignment", "method", "seconds"]


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    made = generate(storable(grid(4, 4, seed=1)), Recipe(percentile=30, samples=80), name="grid")
    [limit] = made.problem.constraints
    whole = replace(
        made.problem, constraints=(Constraint(storable(limit.function), limit.at_most),)
    )
    path = tmp_path_factory.mktemp("learning") / "problem"
    write_directory(ProblemDirectory(whole, made.train, made.test), path)
    return path


@pytest.fixture
def run(call, problem, tmp_path):
    code, _, err = call("train", problem, "--out", tmp_path / "run", *QUICK)
    assert (code, err) == (0, "")
    return tmp_path / "run"


def logged(run):
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


def weights(run):
    return (run / "weights.safetensors").read_bytes()


def test_a_run_directory_and_a_line_are_written(call, problem, tmp_path):
    pytest.importorskip("matplotlib")
    out = tmp_path / "new" / "run"
    code, said, err = call("train", problem, "--out", out, *QUICK)
    assert (code, err) == (0, "")
    assert re.fullmatch(
        rf"{re.escape(str(out))}: mlp trained with distill, 3 epochs, [\d.]+ s; network alone on "
        r"72 validation rows at margin \S+: regret \S+ nats, \S+% violated\n"
        r"3200 rows drawn and labelled in .* with repair and bound; .*exact.*; .*search.*\n",
        said,
    )
    assert set(os.listdir(out)) == FILES
    assert [record["epoch"] for record in logged(out)] == [1, 2, 3]
    assert (out / "curve.png").read_bytes().startswith(b"\x89PNG")
    trained = read_trained(out)
    told = {"epochs": 3, "hidden": (8,), "batch_size": 32, "margins": (0.0, 1.0)}
    assert trained.config == preset("tuned", problem=read_directory(problem).problem, **told)
    assert (trained.epochs, trained.finished, trained.name) == (3, True, "grid")
    assert list(problem.glob("labels-*.npz"))  # for the next run


def test_a_finished_run_is_not_replaced_without_a_word(call, problem, run):
    before = weights(run)
    told = ("train", problem, "--out", run, *QUICK, "--seed", 1)
    code, _, err = call(*told)
    assert (code, err.count("\n")) == (2, 1)
    assert "holds a finished run; add --force to replace it, --resume to train on, or" in err
    assert weights(run) == before
    assert call(*told, "--force")[0] == 0
    assert weights(run) != before


def test_one_seed_gives_the_same_weights_another_does_not(call, problem, run, tmp_path):
    for name, seed in (("same", 0), ("other", 1)):
        assert call("train", problem, "--out", tmp_path / name, *QUICK, "--seed", seed)[0] == 0
    assert weights(tmp_path / "same") == weights(run)
    assert weights(tmp_path / "other") != weights(run)


def test_loss_preset_and_settings_reach_the_run(call, problem, tmp_path):
    settings = {"hidden": [6, 5], "learning_rate": 0.01, "skip": True, "label_method": "milp"}
    pairs = [w for k, v in settings.items() for w in ("--set", f"{k}={_as_typed(v)}")]
    told = ["--loss", "mse_pen", "--preset", "paper", "--epochs", 2, "--seed", 4]
    code, out, err = call("train", problem, "--out", tmp_path / "run", *told, *pairs)
    assert (code, err) == (0, "")
    assert "mlp trained with mse_pen, 2 epochs" in out
    settings["hidden"] = (6, 5)
    assert read_trained(tmp_path / "run").config == preset(
        "paper", "mse_pen", epochs=2, seed=4, **settings
    )
    assert load_file(tmp_path / "run" / "weights.safetensors")["weight1"].shape == (1, 6, 5)


def test_stable_is_a_preset_and_alpha_and_temperature_are_options(call, problem, tmp_path):
    told = ["--preset", "stable", "--loss", "pdl", "--epochs", 1, "--set", "hidden=[4]"]
    assert call("train", problem, "--out", tmp_path / "a", *told)[0] == 0
    trained = read_trained(tmp_path / "a")
    assert trained.config == preset("stable", "pdl", epochs=1, hidden=(4,))
    assert {0.0, 2.0, 4.0, 8.0} <= {c.margin for c in trained.calibration}
    told = ["--preset", "paper", "--alpha", "precomputed", "--temperature", 1.5, "--epochs", 1]
    assert call("train", problem, "--out", tmp_path / "b", *told, "--set", "hidden=[4]")[0] == 0
    assert read_trained(tmp_path / "b").config == preset(
        "paper", alpha="precomputed", temperature=1.5, epochs=1, hidden=(4,)
    )


@pytest.mark.parametrize(("loss", "names"), [("ss_cmpe", ["beta"]), ("ssl_pen", ["rho"])])
def test_cross_validation_chooses_from_the_papers_grid(call, problem, tmp_path, loss, names):
    out = tmp_path / "run"
    told = ["--preset", "paper", "--loss", loss, "--cross-validate", "--folds", 2, "--epochs", 2]
    told += ["--set", "hidden=[4]"]
    code, said, err = call("train", problem, "--out", out, *told)
    assert (code, err) == (0, "")
    count = np.prod([len(PAPER_GRID[name]) for name in names])
    assert said.startswith(f"2 folds, {count} settings, ")
    kept = json.loads((out / "cross_validation.json").read_text())
    assert kept["trials"][0]["setting"] == kept["setting"]
    for name in names:
        assert sorted(t["setting"][name] for t in kept["trials"]) == list(PAPER_GRID[name])
    config = preset("paper", loss, epochs=2, hidden=(4,), **kept["setting"])
    assert read_trained(out).config == config
    more = [3 if word == 2 else word for word in told]  # the choice is read, not made again
    code, said, err = call("train", problem, "--out", out, *more, "--resume")
    assert (code, err) == (0, "")
    assert said.startswith(f"{out}: mlp trained with {loss}, 3 epochs")
    assert json.loads((out / "cross_validation.json").read_text()) == kept


def test_without_a_preset_cross_validation_begins_from_stable(call, problem, tmp_path):
    told = ["--cross-validate", "--folds", 2, "--epochs", 1, "--set", "hidden=[4]"]
    assert call("train", problem, "--out", tmp_path / "run", *told)[0] == 0
    config = read_trained(tmp_path / "run").config
    assert config == preset("stable", epochs=1, hidden=(4,), beta=config.beta)


def _as_typed(value):
    return value if isinstance(value, str) else json.dumps(value)


def test_a_finished_run_goes_on_with_more_epochs(call, problem, tmp_path):
    told = ["--preset", "paper", "--set", "hidden=[8]"]  # and nothing depends on the last epoch:
    told += ["--set", "temperature=0"]
    assert call("train", problem, "--out", tmp_path / "a", *told, "--epochs", 2)[0] == 0
    assert call("train", problem, "--out", tmp_path / "b", *told, "--epochs", 4)[0] == 0
    assert weights(tmp_path / "a") != weights(tmp_path / "b")
    code, out, err = call("train", problem, "--out", tmp_path / "a", *told, "--epochs", 4,
                          "--resume")  # fmt: skip
    assert (code, err) == (0, "")
    assert "4 epochs" in out
    assert weights(tmp_path / "a") == weights(tmp_path / "b")
    assert [record["epoch"] for record in logged(tmp_path / "a")] == [1, 2, 3, 4]


def test_ctrl_c_leaves_a_run_that_can_be_used_and_resumed(call, refused, problem, tmp_path):
    out = tmp_path / "run"
    told = ["train", str(problem), "--out", str(out), *SMALL]
    with subprocess.Popen(
        [COMMAND, *told, "--epochs", "1000000"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            _wait_until(lambda: (out / "log.jsonl").exists() or process.poll() is not None)
            process.send_signal(signal.SIGINT)
            said, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, said) == (2, "")
    done = len(logged(out))
    assert only_line(err) == (
        f"stopped after {done} epochs; {out} holds what there is, --resume continues"
    )
    kept = read_trained(out)
    assert (kept.epochs, kept.finished) == (done, False)
    assert call("solve", problem, "--method", out)[0] == 0
    line = refused(*told, "--epochs", done + 2)
    assert line == (
        f"{out}: holds an unfinished run; add --resume to go on, --force to begin again, or "
        "choose another --out"
    )
    assert read_trained(out).epochs == done
    code, said, err = call(*told, "--epochs", done + 2, "--resume")
    assert (code, err) == (0, "")
    assert f" {done + 2} epochs, " in said
    assert len(logged(out)) == done + 2
    assert read_trained(out).finished


def _wait_until(true):
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


NAMES = "--set needs NAME=VALUE with NAME one of allowed_violation, alpha, batch_size, "
BAD = [
    (["--loss", "magic"], "a loss is one of mse, mae, mse_pen, mae_pen, ssl_pen, pdl, ss_cmpe, "),
    (["--preset", "magic"], "Invalid value for '--preset'"),
    (["--device", "tpu"], "--device must be cpu or cuda, found 'tpu'"),
    (["--epochs", "0"], "Invalid value for '--epochs'"),
    (["--seed", "-1"], "Invalid value for '--seed'"),
    (["--set", "colour=1"], NAMES),
    (["--set", "epochs"], NAMES),
    (["--set", "seed=1"], NAMES),  # has an option of its own
    (["--set", "learning_rate=-1"], "learning_rate must be at least 0.0, found -1"),
    (["--set", "learning_rate=NaN"], "learning_rate must be at least 0.0, found nan"),
    (["--set", "margins=[1]"], "margins must be finite and contain 0, found (1.0,)"),
    (["--set", "hidden=[0]"], "hidden layers must be at least 1 wide, found (0,)"),
    (["--set", "cooling=0"], "cooling must be above 0 and at most 1"),
    (["--set", "label_method=magic"], "a method is one of auto, exact, "),
    (["--resume"], "nothing to resume: no checkpoint.pt there"),
    (["--alpha", "tight"], "alpha is one of paper, precomputed, fixed; found 'tight'"),
    (["--cross-validate", "--loss", "mse"], "the paper's grid has nothing to choose for mse; "),
    (["--cross-validate", "--preset", "tuned"], "has nothing to choose for distill; "),
]


@pytest.mark.parametrize(("words", "message"), BAD)
def test_bad_settings_are_one_line(refused, problem, tmp_path, words, message):
    assert message in refused("train", problem, "--out", tmp_path / "run", *words)
    assert not (tmp_path / "run" / "config.json").exists()


@pytest.mark.parametrize(
    "pair", ["epochs=many", "hidden=8", 'hidden=[8,"a"]', "floor=x",
             "epochs=1.5", "skip=maybe"],
)  # fmt: skip
def test_values_of_another_kind_are_one_line(refused, problem, tmp_path, pair):
    line = refused("train", problem, "--out", tmp_path / "run", *QUICK, "--set", pair)
    assert pair.partition("=")[0] in line


def test_without_a_gpu_cuda_is_refused(refused, problem, tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    line = refused("train", problem, "--out", tmp_path / "run", "--device", "cuda")
    assert line == "--device cuda: torch finds no GPU here; use cpu"


def test_a_broken_problem_directory_is_named(refused, problem, tmp_path):
    out = ["--out", tmp_path / "run"]
    line = refused("train", tmp_path / "nowhere", *out)
    assert line.endswith("nowhere: expected a problem directory, found nothing")
    broken = tmp_path / "broken"
    broken.mkdir()
    for file in problem.iterdir():
        (broken / file.name).write_bytes(file.read_bytes())
    with open(broken / "train.npy", "ab") as stream:
        stream.write(b"x")
    assert refused("train", broken, *out).startswith(f"{broken}/train.npy: ")
    assert not (tmp_path / "run").exists()


def test_out_must_be_a_place_for_a_run(refused, problem, run, tmp_path):
    line = refused("train", problem, "--out", problem, *QUICK)
    assert line == f"{problem}: is a problem directory; choose another one for the run"
    (tmp_path / "file").write_text("")
    line = refused("train", problem, "--out", tmp_path / "file", *QUICK)
    assert line == f"{tmp_path / 'file'}: expected a directory, found a file"
    assert "Missing option '--out'" in refused("train", problem)
    line = refused("train", problem, "--out", run, *QUICK, "--resume", "--set", "rho=2")
    assert line == f"{run}: the checkpoint is of another config, rho"
    (run / "config.json").write_text("{}")
    assert "field 'format_version'" in refused("train", problem, "--out", run, *QUICK)


def test_a_run_answers_like_any_method(call, problem, run, tmp_path):
    code, out, err = call("solve", problem, "--method", run)
    assert (code, err) == (0, "")
    content = read_directory(problem)
    rows = [json.loads(line) for line in out.splitlines()]
    assert [list(row) for row in rows] == [FIELDS] * len(content.test)
    for i, row in enumerate(rows):
        z = np.array([row["assignment"]])
        assert row["index"] == i
        assert row["status"] in ("optimal", "feasible")
        assert row["feasible"] is bool(content.problem.is_feasible(z)[0]) is True
        assert row["method"] == "network + repair + optimal bound"
        assert row["objective"] == content.problem.objective.value(z)[0]
        assert row["gap"] == row["bound"] - row["objective"] >= 0
        [constraint] = row["constraints"]
        assert constraint["at_most"] == content.problem.constraints[0].at_most
        assert constraint["value"] == content.problem.constraint_values(z)[0, 0]
        assert z[0, list(content.problem.evidence_variables)].tolist() == content.test[i].tolist()
    target = tmp_path / "answers.MPE"
    assert call("solve", problem, "--method", run, "--format", "uai", "--output", target)[0] == 0
    assert read_mpe(target, 16).tolist() == [row["assignment"] for row in rows]
    code, out, _ = call("solve", problem, "--method", run, "--format", "table")
    assert (code, f"{len(rows)} rows: " in out) == (0, True)


def test_a_run_refuses_another_problem(refused, problem, run, tmp_path):
    content = read_directory(problem)
    [limit] = content.problem.constraints
    other = replace(content.problem, constraints=(replace(limit, at_most=limit.at_most + 1.0),))
    write_directory(replace(content, problem=other), tmp_path / "other")
    for words in (["solve", tmp_path / "other", "--method", run],
                  ["evaluate", run, tmp_path / "other"]):  # fmt: skip
        line = refused(*words)
        assert line.startswith(f"{run}: trained for another problem (grid): its models, limits ")
    line = refused("solve", problem, "--method", problem)
    assert line.endswith(f"found the directory '{problem}', which holds no run")


def test_a_run_answers_in_parts(call, problem, run, tmp_path):
    folder = tmp_path / "parts"
    asked = ["solve", problem, "--method", run, "--stages", "repair=no"]
    code, out, err = call(*asked, "--output", f"{folder}/")
    assert (code, err) == (0, "")
    assert out.startswith(f"{folder}: 8 rows in 1 parts: ")
    question = json.loads((folder / "manifest.json").read_text())["question"]
    assert re.fullmatch("[0-9a-f]{16}", question["method"])
    assert question["stages"] == "repair=no"
    solver = NeuralSolver.load(run, read_directory(problem).problem)
    sent = pickle.loads(pickle.dumps(solver))  # as processes and clusters get it
    rows = read_directory(problem).test
    found, wanted = (s.solve(s.problem, rows) for s in (sent, solver))
    np.testing.assert_array_equal(found.assignments, wanted.assignments)


# --- any evidence, any q ---

ANY = ["--any-evidence", "--any-q", "--rows", "40", "--set", "generations=2"]


@pytest.fixture(scope="module")
def any_run(problem, tmp_path_factory):
    from cmpe.learning.amortised.config import AmortisedConfig
    from cmpe.learning.amortised.training import fit_amortised

    path = tmp_path_factory.mktemp("any") / "run"
    config = AmortisedConfig(generations=2, rows=40)
    fit_amortised(read_directory(problem).problem, config).save(path)
    return path


def test_one_run_is_trained_for_any_question(call, problem, tmp_path):
    code, out, err = call("train", problem, "--out", tmp_path / "run", *ANY)
    assert (code, err) == (0, "")
    assert "messages for any evidence and any q, 2 generations" in out
    assert "nats above untuned messages after repair" in out
    code, out, err = call("train", problem, "--out", tmp_path / "run", *ANY)
    assert code == 2
    assert "holds a finished run" in only_line(err)
    code, out, _ = call("train", problem, "--out", tmp_path / "q", *ANY[1:])
    assert (code, "for any q, 2" in out) == (0, True)


@pytest.mark.filterwarnings("default::cmpe.learning.amortised.solver.QuestionWarning")
def test_it_answers_any_mask_and_any_limit(call, problem, any_run, tmp_path):
    rows = np.full((2, 16), -1)
    rows[0, ::2], rows[1, :12] = 0, 1
    np.save(tmp_path / "rows.npy", rows)
    asked = ["--evidence", tmp_path / "rows.npy", "--at-most", "1e3", "--format", "json"]
    code, out, err = call("solve", problem, "--method", any_run, *asked)
    assert "warning: q lies outside the range of training in 1 of 1 rows" in err
    answers = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [a["status"] in ("optimal", "feasible") for a in answers] == [True, True]


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["--any-q", "--epochs", "3"], "--set generations=N for --epochs"),
        (["--any-q", "--loss", "mse"], "no other --loss"),
        (["--any-q", "--contrast", "3"], "no --alpha, --contrast"),
        (["--any-q", "--device", "cuda"], "is tuned on the CPU, found device 'cuda'"),
        (["--any-q", "--set", "depth=3"], "NAME one of"),
        (["--any-q", "--set", "questions=3"], "questions must be an object"),
    ],
)
def test_other_settings_are_refused(call, problem, tmp_path, words, match):
    code, _, err = call("train", problem, "--out", tmp_path / "run", *words)
    assert code == 2
    assert match in only_line(err)


def test_the_limits_of_a_directory_are_replaced_in_its_own_sense(call, problem):
    code, out, _ = call(
        "solve", problem, "--at-most", "1e3", "--method", "exact", "--format", "json"
    )
    assert code == 0
    assert all(json.loads(line)["status"] == "optimal" for line in out.splitlines())
    code, _, err = call("solve", problem, "--at-least", "1", "--method", "exact")
    assert code == 2
    assert "replaced by --at-most Q, in this order" in only_line(err)
