"""Networks of the user's: what they read and give, training, files, and what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

import cmpe
from cmpe.errors import EvidenceError, InputError, MethodError, ModelError
from cmpe.learning.networks.modules import module_inputs, sizes_of
from cmpe.learning.training.data import prepare
from tests.cli.commands import run
from tests.learning.cases import quick, small_grid

MINE = """
import torch
from torch import nn

class Odd(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.first, self.last = nn.Linear(inputs, 16), nn.Linear(16, outputs)

    def forward(self, x):
        return self.last(torch.sin(self.first(x)))

def number(*sizes):
    return 3
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A package of the user's in the folder that one is in."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine_of_test.py").write_text(MINE)
    monkeypatch.setitem(sys.modules, "mine_of_test", None)
    monkeypatch.delitem(sys.modules, "mine_of_test")
    return tmp_path


def mixed():
    """Evidence and answers of two and of three values."""
    cards = [2, 3, 2, 3]
    rng = np.random.default_rng(0)
    pairs = [(0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    tables = [(p, rng.normal(size=[cards[v] for v in p])) for p in pairs]
    h = cmpe.LogLinearModel.from_tables(cards, tables)
    return cmpe.Problem(h, [cmpe.count({2: 1, 3: 2}) <= 1], [0, 1])


def layers(inputs, outputs):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(inputs, 16), nn.ReLU(), nn.Linear(16, outputs))


def test_inputs_are_0_and_1_or_one_hot():
    problem = mixed()
    assert sizes_of(problem) == (4, 4)
    found = module_inputs(problem, np.array([[1, 2], [0, 0]]))
    assert found.tolist() == [[1, 0, 0, 1], [0, 1, 0, 0]]


def test_logits_choose_the_answer_of_each_variable():
    problem, rows = mixed(), np.zeros((20, 2), dtype=int)
    fixed = nn.Linear(4, 4)
    with torch.no_grad():
        fixed.weight.zero_()
        fixed.bias.copy_(torch.tensor([-1.0, 0.0, 0.5, 2.0]))
    solver = cmpe.fit(problem, rows, quick("mse", epochs=1, learning_rate=1e-9), network=fixed)
    alone = solver.with_stages(repair=False, certificate="none").predict(rows[:1])
    assert alone.assignments.tolist() == [[0, 0, 0, 2]]
    points, prices = solver.predictor.relaxed(problem.given(rows[:1]))
    p = torch.softmax(torch.tensor([0.0, 0.5, 2.0]), 0)
    expected = [torch.sigmoid(torch.tensor(-1.0)), p[1], p[2]]
    np.testing.assert_allclose(points[0], expected, atol=1e-5)
    assert prices is None


@pytest.mark.parametrize("loss", ["ss_cmpe", "ss_cmpe_pen", "mse", "distill", "ssl_pen", "pdl"])
def test_every_loss_trains_a_module_and_leaves_the_users_as_it_is(loss):
    made = small_grid()
    network = nn.Sequential(layers(5, 8), nn.BatchNorm1d(8), nn.Dropout(0.1), nn.Linear(8, 4))
    before = {name: value.clone() for name, value in network.state_dict().items()}
    solver = cmpe.fit(made.problem, made.train, quick(loss), network=network)
    assert solver.predict(made.test).feasible.all()
    assert all(torch.equal(before[n], v) for n, v in network.state_dict().items())
    moved = solver.trained.parameters["0.0.weight"][0]
    assert not torch.equal(moved, before["0.0.weight"])


def test_presets_lose_what_a_module_cannot_read():
    made = small_grid()
    config = cmpe.preset("stable", epochs=2)
    solver = cmpe.fit(made.problem, made.train, config, network=layers(5, 4))
    assert solver.trained.config.margins == (0.0,)
    assert solver.trained.config.module


def test_a_run_is_the_same_after_loading_and_in_another_process(tmp_path):
    made = small_grid()
    cmpe.write_directory(cmpe.ProblemDirectory(made.problem, made.train, made.test), tmp_path / "p")
    problem = cmpe.read_directory(tmp_path / "p").problem
    network = nn.Sequential(layers(5, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 4))
    out = tmp_path / "run"
    solver = cmpe.fit(problem, made.train, quick(), cmpe.Session(out), network=network)
    wanted, _ = solver.predictor.relaxed(problem.given(made.test))
    again = cmpe.NeuralSolver.load(out, problem)
    np.testing.assert_array_equal(again.predictor.relaxed(problem.given(made.test))[0], wanted)
    program = (
        "import sys, numpy as np, cmpe\n"
        "content = cmpe.read_directory('p')\n"
        "solver = cmpe.NeuralSolver.load('run', content.problem)\n"
        "given = content.problem.given(content.test)\n"
        "np.save('points.npy', solver.predictor.relaxed(given)[0])\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True, env={**os.environ})
    np.testing.assert_array_equal(np.load(tmp_path / "points.npy"), wanted)
    assert b"pickle" not in (out / "config.json").read_bytes()


def test_an_interrupted_run_resumes_to_the_same_weights(tmp_path):
    made = small_grid()
    network = nn.Sequential(layers(5, 8), nn.BatchNorm1d(8), nn.Linear(8, 4))
    whole = cmpe.fit(made.problem, made.train, quick(epochs=4), network=network)
    out = tmp_path / "run"
    cmpe.fit(made.problem, made.train, quick(epochs=2), cmpe.Session(out), network=network)
    session = cmpe.Session(out, resume=True)
    resumed = cmpe.fit(made.problem, made.train, quick(epochs=4), session, network=network)
    for name, value in whole.trained.parameters.items():
        torch.testing.assert_close(resumed.trained.parameters[name], value, rtol=0, atol=0)


def test_other_layers_need_an_import_path_or_the_module_again(mine):
    made, out = small_grid(), mine / "run"
    session = cmpe.Session(out)
    path = "mine_of_test:Odd"
    solver = cmpe.fit(made.problem, made.train, quick(), session, network=path)
    assert json.loads((out / "config.json").read_text())["module"] == {"factory": path}
    wanted = solver.predictor.relaxed(made.problem.given(made.test))[0]
    again = cmpe.NeuralSolver.load(out, made.problem)
    found = again.predictor.relaxed(made.problem.given(made.test))[0]
    np.testing.assert_array_equal(found, wanted)
    module = solver.trained.module.module
    cmpe.fit(made.problem, made.train, quick(), session, network=module)
    with pytest.raises(ModelError, match=r"give it again: NeuralSolver\.load"):
        cmpe.NeuralSolver.load(out, made.problem)
    given = cmpe.NeuralSolver.load(out, made.problem, network=module)
    assert given.predict(made.test).feasible.all()


@pytest.mark.parametrize(
    ("network", "error", "said"),
    [
        (3, ModelError, "must be a torch module or an import path"),
        ("nothing", InputError, "an import path is package.module:name"),
        ("mine_of_test:nobody", InputError, "no attribute 'nobody'"),
        ("mine_of_test:number", ModelError, "expected a torch module, found int"),
        ("mine_of_test:MISSING.x", InputError, "an import path is"),
        (nn.Linear(5, 3), MethodError, "must give 4 logits a row"),
    ],
)
def test_refusals(network, error, said, mine):
    made = small_grid()
    with pytest.raises(error, match=said):
        cmpe.fit(made.problem, made.train, quick(), network=network)


def test_a_config_of_a_module_has_one_margin():
    with pytest.raises(MethodError, match="reads no margin"):
        cmpe.TrainingConfig(module=True, margins=(0.0, 1.0))
    made = small_grid()
    with pytest.raises(MethodError, match="give fit the network"):
        cmpe.fit(made.problem, made.train, quick().of_module())


def test_rules_of_many_variables_are_refused_with_a_remedy():
    h = cmpe.LogLinearModel.from_tables([2] * 12, [((0, 1), np.eye(2))])
    problem = cmpe.Problem(h, [cmpe.exactly_one(dict.fromkeys(range(12), 1))], [0])
    with pytest.raises(MethodError, match=r"cmpe.count\(\{...\}\) == 1"):
        cmpe.fit(problem, [[0], [1]], quick())


class Dose(nn.Module):
    """How good an answer is depends on two numbers of the row."""

    def forward(self, z):
        gain = torch.stack([z[:, 0] - 0.5, z[:, 1] - 0.5, z[:, 0] - z[:, 1]], 1)
        return 10.0 * (z[:, 2:] * gain).sum(1)


def test_objectives_read_numbers_of_rows():
    names = ["age", "dose", "a", "b", "c"]
    h = cmpe.NeuralFunction(Dose(), (2,) * 5, largest=20.0, names=names)
    asked = [cmpe.implies({"a": 1}, {"b": 0}), cmpe.count({"a": 1, "b": 1, "c": 1}) <= 2]
    problem = cmpe.Problem(h, asked, names[:2], continuous=names[:2])
    rows = np.random.default_rng(0).random((300, 2))
    config = quick(epochs=40, learning_rate=0.01, beta=1.0, contrast=3.0)
    with pytest.warns(UserWarning, match="there is no bound for a layer Dose"):
        solver = cmpe.fit(problem, rows, config, network=layers(2, 3))
    test = np.random.default_rng(1).random((100, 2))
    best = cmpe.solve(problem, test, method="exhaustive")
    found = solver.with_stages(repair=False, certificate="none").predict(test)
    assert found.feasible.mean() > 0.8
    assert len(np.unique(found.assignments[:, 2:], axis=0)) > 2
    repaired = solver.predict(test)
    assert repaired.feasible.all()
    assert (best.objective - repaired.objective).mean() < 0.1


def torch_objective(names):
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(len(names), 12), nn.ReLU(), nn.Linear(12, 1))
    with torch.no_grad():
        for weight in net.parameters():
            weight.mul_(3.0)
    return cmpe.NeuralFunction(net, (2,) * len(names), names=names)


def test_ss_cmpe_with_a_torch_objective_and_two_symbolic_constraints(tmp_path):
    """Trained, repaired, certified; saved, loaded elsewhere, used from the command line."""
    names = [f"x{i}" for i in range(9)]
    asked = [
        cmpe.count(dict.fromkeys(names[3:], 1), name="few") <= 3,
        cmpe.implies({"x3": 1}, {"x4": 1, "x5": 0}),
        cmpe.exactly_one({"x6": 1, "x7": 1}),
    ]
    problem = cmpe.Problem(torch_objective(names), asked, names[:3])
    rows = np.random.default_rng(0).integers(0, 2, (150, 3))
    config = cmpe.preset("stable", epochs=8, validation_share=0.2)
    data = prepare(problem.given(rows), config.of_module())
    assert np.isfinite(data.p_upper / data.q_lower).all()
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 6))
    cmpe.write_directory(cmpe.ProblemDirectory(problem, rows, rows[:8]), tmp_path / "p")
    problem = cmpe.read_directory(tmp_path / "p").problem
    session = cmpe.Session(tmp_path / "run")
    solver = cmpe.fit(problem, rows, config, session, network=network)
    log = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert all(np.isfinite(record["alpha"]) for record in log)
    assert log[-1]["alpha_known"] == pytest.approx(1.0)
    found = solver.predict(rows[:8])
    best = cmpe.solve(problem, rows[:8], method="exhaustive")
    assert found.feasible.all()
    assert (found.objective <= best.objective + 1e-9).all()
    assert (best.objective <= found.bound + 1e-9).all()
    assert np.isfinite(found.bound).all()
    exact = cmpe.solve(problem, rows[:2], method="milp")
    np.testing.assert_allclose(exact.objective, best.objective[:2], atol=1e-6)
    code, out, _ = run("solve", "p", "--method", "run", cwd=tmp_path)
    assert code == 0
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["assignment"] for line in lines] == found.assignments.tolist()
    assert [line["bound"] for line in lines] == found.bound.tolist()


def priced(seed=3):
    """A value that reads two numbers of each row, and rules; features of 60 rows of any size."""
    torch.manual_seed(seed)
    value = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1))
    names = ["a", "b", "c", "d"]
    h = cmpe.NeuralFunction(value, (2,) * 4, names=names, features=2)
    asked = [cmpe.implies({"a": 1}, {"b": 0}), cmpe.count(dict.fromkeys(names, 1), name="few") <= 2]
    return cmpe.Problem(h, asked), 10.0 * np.random.default_rng(seed).normal(size=(60, 2))


def test_functions_read_features_of_rows_that_are_no_variables():
    problem, x = priced()
    z = np.indices((2,) * 4).reshape(4, -1).T
    z = z[((z[:, 0] == 0) | (z[:, 1] == 0)) & (z.sum(axis=1) <= 2)]
    both = np.concatenate([np.tile(z, (len(x), 1)), np.repeat(x, len(z), axis=0)], axis=1)
    module = problem.objective.module
    values = module(torch.tensor(both).float()).detach().numpy().reshape(len(x), len(z))
    found = cmpe.solve(problem, inputs=x, method="exhaustive")
    assert found.assignments.shape == (60, 4)
    np.testing.assert_allclose(found.objective, values.max(axis=1), rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(found["a"], z[values.argmax(axis=1), 0])
    proved = cmpe.solve(problem, inputs=x[:5], method="milp")
    assert proved.proved.all()
    np.testing.assert_allclose(proved.objective, found.objective[:5], atol=1e-6)
    local = cmpe.solve(problem, None, inputs=x, method="local", workers=2)
    assert local.feasible.all()
    assert (local.objective <= found.objective + 1e-9).all()


def test_constraints_may_read_features():
    problem, x = priced()
    t = cmpe.NeuralFunction(nn.Linear(6, 1), (2,) * 4, names=problem.domain.names, features=2)
    limited = cmpe.Problem(problem.objective, [cmpe.Constraint(t, 0.5)])
    found = cmpe.solve(limited, inputs=x, method="exhaustive")
    done = np.flatnonzero(found.feasible)
    assert 0 < len(done) < len(x)
    both = np.concatenate([found.assignments[done], x[done]], axis=1)
    values = t.module(torch.tensor(both).float()).detach().numpy()[:, 0]
    np.testing.assert_allclose(found.constraint_values[done, 0], values, atol=1e-4)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_network_and_an_objective_read_the_inputs_of_rows(device):
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    problem, x = priced()
    config = quick(epochs=30, learning_rate=0.01, beta=1.0, contrast=3.0)
    session = cmpe.Session(device=device)
    solver = cmpe.fit(problem, None, config, session, network=layers(2, 4), inputs=x)
    alone = solver.with_stages(repair=False, certificate="none").predict(None, inputs=x)
    assert len(np.unique(alone.assignments, axis=0)) > 1
    found, best = (cmpe.solve(problem, inputs=x, method=how) for how in (solver, "exhaustive"))
    assert found.feasible.all()
    assert (found.objective <= best.objective + 1e-9).all()
    assert (best.objective <= found.bound + 1e-9).all()
    assert np.isfinite(found.bound).all()
    np.testing.assert_array_equal(found.assignments, solver.predict(None, inputs=x).assignments)
    turned = solver.predict(None, inputs=x[::-1])
    np.testing.assert_array_equal(found.assignments, turned.assignments[::-1])


def test_a_network_reads_images_beside_an_exact_problem():
    """The images say what the evidence does; bounds and labels are those of the tables."""
    made = small_grid()
    image = made.train.reshape(-1, 1, 1, 5) * 100.0 - 50.0
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(1, 8, (1, 5)), nn.Flatten(), nn.ReLU(), nn.Linear(8, 4))
    solver = cmpe.fit(made.problem, made.train, quick("mse"), network=network, inputs=image)
    test = made.test.reshape(-1, 1, 1, 5) * 100.0 - 50.0
    found = solver.predict(made.test, inputs=test)
    best = cmpe.solve(made.problem, made.test)
    assert found.feasible.all()
    assert (best.objective <= found.bound + 1e-9).all()
    with pytest.raises(EvidenceError, match="trained on, 1, 1, 5 for each row; found none"):
        solver.predict(made.test)
    with pytest.raises(EvidenceError, match="trained on, 1, 1, 5 for each row; found 5"):
        solver.predict(made.test, inputs=made.test)
    limited = cmpe.solve(
        made.problem, made.test, method=solver, inputs=test, limits=made.problem.limits
    )
    assert limited.objective.tolist() == found.objective.tolist()


def test_a_run_on_inputs_is_used_from_the_command_line(mine):
    problem, x = priced()
    cmpe.write_directory(
        cmpe.ProblemDirectory(problem, np.zeros((60, 0)), np.zeros((9, 0))), mine / "p"
    )
    np.save(mine / "train.npy", x)
    np.save(mine / "test.npy", x[:9])
    trained = ("train", "p", "--network", "mine_of_test:Odd", "--inputs", "train.npy")
    code, _, err = run(*trained, "--epochs", "2", "--out", "run", cwd=mine)
    assert code == 0, err
    found = {}
    for method in ("run", "exhaustive"):
        code, out, err = run("solve", "p", "--method", method, "--inputs", "test.npy", cwd=mine)
        assert code == 0, err
        found[method] = [json.loads(line) for line in out.splitlines()]
    best = [line["objective"] for line in found["exhaustive"]]
    np.testing.assert_allclose(
        best, cmpe.solve(problem, inputs=x[:9], method="exhaustive").objective
    )
    read = cmpe.read_directory(mine / "p").problem
    again = cmpe.NeuralSolver.load(mine / "run", read).predict(None, inputs=x[:9])
    assert [line["assignment"] for line in found["run"]] == again.assignments.tolist()
    code, _, err = run("solve", "p", "--method", "run", cwd=mine)
    assert code == 2
    assert "trained on, 2 for each row; found none" in err


@pytest.mark.parametrize(
    ("inputs", "error", "said"),
    [
        (np.zeros((3, 2)), EvidenceError, "must have 60 rows"),
        (np.zeros(60), EvidenceError, r"shape \(rows, ...\)"),
        (np.full((60, 2), np.nan), EvidenceError, "must be finite"),
        (np.zeros((60, 3)), ModelError, "reads 2 features of each row"),
        (None, ModelError, "reads 2 features of each row: give them as inputs"),
    ],
)
def test_wrong_inputs(inputs, error, said):
    problem, _ = priced()
    seen = cmpe.Problem(problem.objective, problem.constraints, ["a"])
    with pytest.raises(error, match=said):
        cmpe.solve(seen, np.zeros((60, 1), dtype=int), inputs=inputs, method="local")


def test_inputs_need_a_network():
    problem, x = priced()
    with pytest.raises(MethodError, match="inputs go with a network of yours"):
        cmpe.fit(problem, None, quick(), inputs=x)
