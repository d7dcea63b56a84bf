"""`cmpe evaluate`: its numbers against the same numbers computed by enumeration."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from typer.testing import CliRunner

import cmpe
from cmpe import Constraint, NeuralSolver, ProblemDirectory, Recipe, Session
from cmpe.cli.main import COMMANDS, make_app
from cmpe.evaluation import chosen, constants
from cmpe.formats.uai import storable
from cmpe.generation import generate, grid
from cmpe.learning.training.config import preset

app = make_app(COMMANDS)

STAGES = {
    "network": "network",
    "network, all margins": "network x 3",
    "network + repair": "network + repair",
    "network + repair + bound": "network + repair + optimal bound",
}
METRICS = {"rows", "distinct", "distinct_answers", "optimal"} | {
    name + end
    for name in ("regret", "feasible_regret", "gap", "violation", "violation_size",
                 "certified_gap", "seconds")
    for end in ("", "_std")
}  # fmt: skip


def written(folder, percentile):
    """A problem directory of a 4 x 4 grid, and a run that was trained on it."""
    made = generate(storable(grid(4, 4, seed=3)), Recipe(percentile=percentile, samples=200))
    [limit] = made.problem.constraints
    limits = (Constraint(storable(limit.function), limit.at_most),)
    problem = replace(made.problem, constraints=limits, name="grid")
    content = ProblemDirectory(problem, made.train, made.test)
    cmpe.write_directory(content, folder / "problem")
    config = preset(
        "tuned", "ss_cmpe", epochs=12, hidden=(8,), batch_size=32, margins=(-1.0, 0.0, 1.0),
        temperature=0.0, learning_rate=0.01, beta=math.inf, contrast=1.0, passes=1,
    )  # fmt: skip
    cmpe.fit(content.problem, content.train, config, Session(out=folder / "run"))
    return folder / "run", folder / "problem"


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    return written(tmp_path_factory.mktemp("evaluate"), percentile=20)


@pytest.fixture(scope="module")
def report(places):
    told = ["evaluate", *map(str, places), "--format", "json"]
    result = CliRunner().invoke(app, told, catch_exceptions=False)
    assert (result.exit_code, result.stderr, result.stdout.count("\n")) == (0, "", 1)
    return json.loads(result.stdout)


def test_every_field_is_there(report, places):
    shares = ["relaxed_violation", "margin", "binding_share", "overlap_share"]
    assert list(report) == ["run", "problem", *shares, "stages", "constant"]
    assert (report["run"], report["problem"]) == (str(places[0]), "grid")
    assert {name: stage["method"] for name, stage in report["stages"].items()} == STAGES
    for stage in report["stages"].values():
        assert set(stage["all"]) == set(stage["constrained"]) == METRICS
        assert stage["batch_seconds_per_row"] > 0
        assert stage["single_row_seconds"] > 0
        assert 0 < stage["constrained"]["rows"] < stage["all"]["rows"] == 20


def test_the_constant_baseline_is_measured_on_the_same_rows(report, places):
    content = cmpe.read_directory(places[1])
    problem, test = content.problem, content.test
    found = constants(problem, content.train)
    best = cmpe.solve(problem, test, method="exhaustive")
    assert len(report["constant"]["trade_off"]) == len(found) > 1
    for told, each in zip(report["constant"]["trade_off"], found, strict=True):
        answers = each.answers(problem, test)
        assert told["training"] == {"objective": each.objective, "violation": each.violated}
        assert told["all"]["regret"] == pytest.approx((best.objective - answers.objective).mean())
        assert told["all"]["violation"] == (~answers.feasible).mean()
        assert told["all"]["distinct_answers"] == 1
        assert told["constrained"]["rows"] == report["stages"]["network"]["constrained"]["rows"]
    (which,) = [k for k, each in enumerate(found) if each is chosen(found)]
    told = dict(report["constant"])
    del told["trade_off"]
    assert told == report["constant"]["trade_off"][which]


def test_the_shares_are_those_of_the_rows(report, places):
    content = cmpe.read_directory(places[1])
    against = cmpe.reference(content.problem, content.test)
    assert report["binding_share"] == against.constrained.mean()
    known = {tuple(row) for row in content.train.tolist()}
    seen = np.mean([tuple(row) in known for row in content.test.tolist()])
    assert report["overlap_share"] == pytest.approx(seen)


def test_repair_leaves_nothing_violated(report):
    repaired = report["stages"]["network + repair"]
    assert repaired["all"]["violation"] == repaired["constrained"]["violation"] == 0.0
    assert repaired["all"]["violation_size"] is None
    assert report["stages"]["network"]["all"]["violation"] > 0.0  # so there was work to do
    assert repaired["all"]["certified_gap"] is None
    bounded = report["stages"]["network + repair + bound"]["all"]
    assert bounded["certified_gap"] >= bounded["regret"] >= 0.0


def test_the_numbers_are_those_of_an_enumeration(report, places):
    content = cmpe.read_directory(places[1])
    problem, solver = content.problem, NeuralSolver.load(places[0], content.problem)
    assert report["margin"] == solver.calibrated_margin()
    best = cmpe.solve(problem, content.test, method="exhaustive")
    free = cmpe.solve(replace(problem, constraints=()), content.test, method="exhaustive")
    hard = ~problem.is_feasible(free.assignments)
    instances = problem.given(content.test)
    rounded, _ = solver.predictor.predict(instances, report["margin"])
    for which, rows in (("all", np.ones(len(hard), dtype=bool)), ("constrained", hard)):
        told = report["stages"]["network"][which]
        z = rounded[rows]
        regret = best.objective[rows] - problem.objective.value(z)
        over = problem.constraints[0].function.value(z) - problem.constraints[0].at_most
        violated = over > 1e-6 * max(1.0, abs(problem.constraints[0].at_most))
        wanted = {
            "rows": rows.sum(),
            "distinct": len(np.unique(content.test[rows], axis=0)),
            "optimal": 1.0,
            "regret": regret.mean(),
            "regret_std": regret.std(),
            "feasible_regret": regret[~violated].mean(),
            "gap": (regret / (problem.shift - best.objective[rows])).mean(),
            "violation": violated.mean(),
            "violation_size": over[violated].mean(),
        }
        assert {name: told[name] for name in wanted} == pytest.approx(wanted, abs=1e-9)


def test_relaxed_violations_are_those_of_an_expectation(report, places):
    """A table's multilinear extension is its expectation under independent variables."""
    content = cmpe.read_directory(places[1])
    problem, solver = content.problem, NeuralSolver.load(places[0], content.problem)
    instances = problem.given(content.test)
    points, _ = solver.predictor.relaxed(instances, report["margin"])
    values = np.array(list(product((0, 1), repeat=points.shape[1])))
    [limit] = problem.constraints
    count = 0
    for k, point in enumerate(points.astype(float)):
        here = problem.given(content.test[k : k + 1].repeat(len(values), axis=0))
        chance = np.where(values == 1, point, 1.0 - point).prod(axis=1)
        mean = chance @ limit.function.value(here.complete(values))
        count += mean - limit.at_most > limit.tolerance
    assert report["relaxed_violation"] == pytest.approx(count / len(points))
    assert 0 < count < len(points)


def test_a_table_shows_the_same_numbers(call, report, places):
    code, out, err = call("evaluate", *places)
    assert (code, err) == (0, "")
    title, header, *lines = out.splitlines()
    assert lines[2 * len(STAGES)].startswith("A regret below 0: violated answers are better than")
    constant = report["constant"]["all"]
    assert lines[-2] == (
        f"The constraint binds on {100 * report['binding_share']:.1f} % of the rows; "
        f"{100 * report['overlap_share']:.1f} % of them are training rows."
    )
    assert lines[-1].startswith(
        f"One constant answer to all rows: {constant['regret']:.3f} nats / "
        f"{100 * constant['violation']:.1f} % violated; the trade-off of constants: "
    )
    del lines[2 * len(STAGES) :]
    assert title.startswith(f"{places[0]} on grid: margin {report['margin']:g}, relaxed outputs")
    assert header.split()[:4] == ["rows", "distinct", "regret", "gap"]
    assert len(lines) == 2 * len(STAGES)
    for (name, stage), first, second in zip(
        report["stages"].items(), lines[::2], lines[1::2], strict=True
    ):
        assert first.startswith(name)
        assert second.startswith("  constrained rows")
        for line, metrics in ((first, stage["all"]), (second, stage["constrained"])):
            found = re.split(r" {2,}", line[26:].strip())
            assert found[:2] == [str(metrics["rows"]), str(metrics["distinct"])]
            assert found[2] == f"{metrics['regret']:.3f}"
            assert found[4] == f"{metrics['violation']:.4f}"
            assert found[6] == str(metrics["distinct_answers"])


def test_only_the_first_rows(call, places):
    code, out, _ = call("evaluate", *places, "--rows", 3, "--format", "json", "--threads", 2)
    assert code == 0
    assert {stage["all"]["rows"] for stage in json.loads(out)["stages"].values()} == {3}


@pytest.mark.parametrize("kind", ["npy", "parquet"])
def test_rows_of_a_file_or_folder_in_blocks(kind, call, report, places, tmp_path):
    """The test rows from a file, or from a folder of Parquet: all figures but times are the same,
    and how many are distinct is not known."""
    content = cmpe.read_directory(places[1])
    path = tmp_path / ("rows.npy" if kind == "npy" else "rows")
    if kind == "npy":
        np.save(path, content.test)
    else:
        pandas = pytest.importorskip("pandas")
        path.mkdir()
        names = [str(v) for v in content.problem.evidence_variables]
        for k in (0, 1):
            part = pandas.DataFrame(content.test[10 * k : 10 * k + 10], columns=names)
            part.to_parquet(path / f"{k}.parquet")
    told = ("--evidence", path, "--block", 7, "--format", "json")
    code, out, err = call("evaluate", *places, *told)
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["relaxed_violation"] == pytest.approx(report["relaxed_violation"])
    for name, stage in report["stages"].items():
        for which in ("all", "constrained"):
            wanted = {k: v for k, v in stage[which].items() if not k.startswith("seconds")}
            here = {k: found["stages"][name][which][k] for k in wanted}
            assert here == pytest.approx({**wanted, "distinct": None, "distinct_answers": None})
    for name in ("binding_share", "overlap_share"):
        assert found[name] == pytest.approx(report[name])
    for which in ("regret", "violation"):
        assert found["constant"]["all"][which] == pytest.approx(report["constant"]["all"][which])
    code, out, _ = call("evaluate", *places, "--rows", 9, *told[:-2])
    assert code == 0
    assert out.splitlines()[2].split()[1:3] == ["9", "-"]


def test_without_constrained_rows_the_report_is_json_too(call, tmp_path):
    code, out, _ = call("evaluate", *written(tmp_path, percentile=100), "--format", "json")
    assert code == 0
    found = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert found["stages"]["network"]["constrained"]["rows"] == 0


def test_what_is_not_a_run_is_named(call, places, tmp_path):
    for words, message in (
        ([tmp_path, places[1]], f"{tmp_path}/config.json: cannot be read: No such file"),
        (
            [places[0], tmp_path],
            f"{tmp_path}: expected a problem directory, found no problem.json in it",
        ),
        ([*places, "--rows", "0"], "Invalid value for '--rows'"),
        ([*places, "--format", "uai"], "Invalid value for '--format'"),
    ):
        code, out, err = call("evaluate", *words)
        assert (code, out) == (2, "")
        assert re.fullmatch(rf"error: {re.escape(message)}[^\n]*\n", err), err


@pytest.mark.filterwarnings("ignore::cmpe.learning.amortised.solver.QuestionWarning")
def test_a_network_for_any_question_is_measured_too(places, tmp_path):
    """The same stages but for margins, which it has none of."""
    _, problem = places
    out = tmp_path / "any"
    args = ["train", str(problem), "--out", str(out), "--any-evidence", "--any-q", "--rows", "50"]
    trained = CliRunner().invoke(app, [*args, "--set", "generations=2"])
    assert trained.exit_code == 0, trained.output
    done = CliRunner().invoke(
        app, ["evaluate", str(out), str(problem), "--rows", "8", "--format", "json"]
    )
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert set(found["stages"]) == set(STAGES) - {"network, all margins"}
    assert found["margin"] == 0.0
    assert 0.0 <= found["relaxed_violation"] <= 1.0
    assert found["stages"]["network + repair"]["all"]["violation"] == 0.0
