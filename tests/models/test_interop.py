"""interop: the other packages' own joint values against LogLinearModel.value."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from functools import reduce

import numpy as np
import pytest

from cmpe.errors import MissingExtra, ModelError
from cmpe.models.loglinear import Factor, LogLinearModel

# SWIG's types warn when pyAgrum (or one of its lazy parts) is imported: as an error it is a crash.
pytestmark = pytest.mark.filterwarnings(
    "ignore:builtin type [Ss]wig.* has no __module__ attribute:DeprecationWarning"
)

from_pgmpy, to_pgmpy = LogLinearModel.from_pgmpy, LogLinearModel.to_pgmpy
from_pyagrum = LogLinearModel.from_pyagrum

SEEDS = range(5)
NAMES = ("e", "a", "d", "b", "c")
CARDS = {"a": 2, "b": 3, "c": 4, "d": 2, "e": 3}
PARENTS = {"a": (), "b": ("a",), "d": (), "c": ("d", "a", "b"), "e": ("b", "c", "d", "a")}
SCOPES = (("c", "a"), ("a", "c", "d"), ("a", "c"), ("b",), ("b", "a"), ("d",))


@pytest.fixture(scope="module")
def models():
    return pytest.importorskip("pgmpy.models")


@pytest.fixture(scope="module")
def discrete():
    return pytest.importorskip("pgmpy.factors.discrete")


@pytest.fixture(scope="module")
def gum():
    return pytest.importorskip("pyagrum")


def _assignments(model):
    return np.array(list(itertools.product(*map(range, model.cardinalities))), dtype=np.int64)


def _log(value):
    return math.log(value) if value > 0 else -math.inf


def _same(model, joint):
    """Compare exp-free: `joint` gives the other package's value of one row."""
    rows = _assignments(model)
    expected = [_log(joint(row)) for row in rows]
    np.testing.assert_allclose(model.value(rows), expected, rtol=0, atol=1e-12)


def _potentials(generator, shape):
    values = generator.uniform(0.01, 3.0, shape)
    values[generator.random(shape) < 0.15] = 0.0
    return values


def _conditional(generator, shape):
    """A table whose first axis sums to 1, with zeros where others remain."""
    values = generator.uniform(0.05, 1.0, shape)
    values[0] = np.where(generator.random(shape[1:]) < 0.3, 0.0, values[0])
    return values / values.sum(axis=0)


def _factor(discrete, scope, values, state_names=None):
    return discrete.DiscreteFactor(list(scope), values.shape, values, state_names or {})


def _markov(models, nodes, factors):
    network = models.DiscreteMarkovNetwork()
    network.add_nodes_from(nodes)
    for factor in factors:
        network.add_edges_from(itertools.combinations(factor.variables, 2))
    network.add_factors(*factors)
    return network


def _random_markov(models, discrete, seed):
    generator = np.random.default_rng(seed)
    tables = [_potentials(generator, [CARDS[v] for v in scope]) for scope in SCOPES]
    factors = [_factor(discrete, *pair) for pair in zip(SCOPES, tables, strict=True)]
    # e belongs to a component of its own.
    alone = _factor(discrete, ("e",), generator.uniform(0.5, 1.0, CARDS["e"]))
    return _markov(models, NAMES, [*factors, alone])


def _by_state_name(network, tables, row):
    """pgmpy's value of one row, each table looked up by the names of the states."""
    states = {n: network.states[n][int(k)] for n, k in zip(network.nodes(), row, strict=True)}
    values = [t.get_value(**{v: states[v] for v in t.variables}) for t in tables]
    return math.prod(float(value) for value in values)


class TestFromPgmpyMarkov:
    @pytest.mark.parametrize("seed", SEEDS)
    def test_joint(self, models, discrete, seed):
        network = _random_markov(models, discrete, seed)
        assert network.check_model()
        model = from_pgmpy(network)
        joint = reduce(lambda left, right: left * right, network.factors)
        assert model.names == NAMES
        assert model.cardinalities == tuple(CARDS[name] for name in NAMES)
        assert len(model.factors) == len(network.factors)
        assert not model.is_finite
        _same(model, lambda row: joint.get_value(**dict(zip(NAMES, map(int, row), strict=True))))

    @pytest.mark.parametrize("seed", SEEDS)
    def test_permuted_state_names(self, models, discrete, seed):
        generator = np.random.default_rng(seed)
        labels = {name: [f"{name}{k}" for k in range(card)] for name, card in CARDS.items()}

        def shuffled(scope):
            return {v: [str(s) for s in generator.permutation(labels[v])] for v in scope}

        network = _markov(
            models,
            NAMES,
            [
                _factor(discrete, s, _potentials(generator, [CARDS[v] for v in s]), shuffled(s))
                for s in (*SCOPES, ("e",))
            ],
        )
        _same(from_pgmpy(network), lambda row: _by_state_name(network, network.factors, row))

    def test_permuted_integer_states(self, models, discrete):
        network = _markov(
            models,
            ["x"],
            [
                _factor(discrete, ["x"], np.array([1.0, 2.0, 3.0]), {"x": [2, 0, 1]}),
                _factor(discrete, ["x"], np.array([1.0, 10.0, 100.0])),
            ],
        )
        model = from_pgmpy(network)
        np.testing.assert_allclose(np.exp(model.value([[0], [1], [2]])), [2.0, 30.0, 100.0])

    @pytest.mark.parametrize("named_first", [True, False])
    def test_unnamed_states_follow_the_named_ones(self, models, discrete, named_first):
        factors = [
            _factor(discrete, ["x"], np.array([1.0, 2.0]), {"x": ["no", "yes"]}),
            _factor(discrete, ["x"], np.array([3.0, 5.0])),
        ]
        network = _markov(models, ["x"], factors if named_first else factors[::-1])
        np.testing.assert_allclose(np.exp(from_pgmpy(network).value([[0], [1]])), [3.0, 10.0])

    def test_isolated_node_whose_states_are_named_elsewhere(self, models, discrete):
        states = {"x": ["no", "yes"], "alone": ["low", "mid", "high"]}
        network = _markov(
            models, ["alone", "x"], [_factor(discrete, ["x"], np.array([1.0, 2.0]), states)]
        )
        model = from_pgmpy(network)
        assert model.cardinalities == (3, 2)
        np.testing.assert_allclose(model.value([[0, 1], [2, 1]]), [math.log(2.0)] * 2)

    def test_partly_named_states(self, models, discrete):
        table = np.array([[1.0, 2.0], [3.0, 4.0]])
        network = _markov(
            models, ["x", "y"], [_factor(discrete, ["x", "y"], table, {"x": ["no", "yes"]})]
        )
        np.testing.assert_array_equal(from_pgmpy(network).factors[0].log_table, np.log(table))

    def test_nodes_that_are_not_strings(self, models, discrete):
        network = _markov(models, [7, 0], [_factor(discrete, [0, 7], np.ones((2, 3)))])
        model = from_pgmpy(network)
        assert model.names == ("7", "0")
        assert model.factors[0].scope == (1, 0)

    def test_torch_backend(self, models, discrete):
        config = pytest.importorskip("pgmpy").config
        config.set_backend("torch", device="cpu")
        try:
            network = _markov(
                models, ["x"], [discrete.DiscreteFactor(["x"], [2], np.array([0.5, 0.0]))]
            )
            model = from_pgmpy(network)
        finally:
            config.set_backend("numpy")
        np.testing.assert_array_equal(model.value([[0], [1]]), [math.log(0.5), -math.inf])


class TestFromPgmpyBayesian:
    @pytest.mark.parametrize("seed", SEEDS)
    def test_joint(self, models, discrete, seed):
        network = _random_bayesian(models, discrete, np.random.default_rng(seed))
        assert network.check_model()
        model = from_pgmpy(network)
        assert model.names == NAMES
        assert model.cardinalities == tuple(CARDS[name] for name in NAMES)
        rows = _assignments(model)
        assert np.exp(model.value(rows)).sum() == pytest.approx(1.0)
        for row in rows:
            states = {n: network.states[n][k] for n, k in zip(NAMES, row, strict=True)}
            expected = _log(network.get_state_probability(states))
            assert model.value(row)[0] == pytest.approx(expected, rel=0, abs=1e-12)

    @pytest.mark.parametrize("seed", SEEDS)
    def test_permuted_state_names(self, models, discrete, seed):
        generator = np.random.default_rng(seed)
        network = _random_bayesian(models, discrete, generator, permute=True)
        _same(from_pgmpy(network), lambda row: _by_state_name(network, network.cpds, row))


def _random_bayesian(models, discrete, generator, permute=False):
    network = models.DiscreteBayesianNetwork()
    network.add_nodes_from(NAMES)
    for child, parents in PARENTS.items():
        network.add_edges_from((parent, child) for parent in parents)
    for child, parents in PARENTS.items():
        table = _conditional(generator, [CARDS[v] for v in (child, *parents)])
        states = {v: [f"{v}{k}" for k in range(CARDS[v])] for v in (child, *parents)}
        if permute:
            states = {v: [str(s) for s in generator.permutation(s)] for v, s in states.items()}
        cpd = discrete.TabularCPD(
            child,
            CARDS[child],
            table.reshape(CARDS[child], -1),
            evidence=list(parents) or None,
            evidence_card=[CARDS[p] for p in parents] or None,
            state_names=states,
        )
        network.add_cpds(cpd)
    return network


class TestFromPgmpyErrors:
    @pytest.mark.parametrize("bad", [-0.5, math.nan, math.inf])
    def test_bad_potential(self, models, discrete, bad):
        network = _markov(models, ["x"], [_factor(discrete, ["x"], np.array([1.0, bad]))])
        message = rf"factor over \(x\): potentials must be finite and at least 0, found {bad}"
        with pytest.raises(ModelError, match=message):
            from_pgmpy(network)

    def test_unknown_cardinality(self, models, discrete):
        network = _markov(models, ["x", "y"], [_factor(discrete, ["x"], np.ones(2))])
        with pytest.raises(ModelError, match="node 'y' is in no factor: its cardinality is unk"):
            from_pgmpy(network)

    def test_two_cardinalities(self, models, discrete):
        factors = [_factor(discrete, ["x"], np.ones(2)), _factor(discrete, ["x"], np.ones(3))]
        with pytest.raises(ModelError, match="node 'x' needs one cardinality, found 2 and 3"):
            from_pgmpy(_markov(models, ["x"], factors))

    def test_different_states(self, models, discrete):
        factors = [
            _factor(discrete, ["x"], np.ones(2), {"x": ["no", "yes"]}),
            _factor(discrete, ["x"], np.ones(2), {"x": ["off", "on"]}),
        ]
        message = r"states of 'x' must be \['off', 'on'\], found \['no', 'yes'\]"
        with pytest.raises(ModelError, match=message):
            from_pgmpy(_markov(models, ["x"], factors))

    def test_unnamed_states_beside_two_orders(self, models, discrete):
        factors = [
            _factor(discrete, ["x"], np.ones(2), {"x": ["no", "yes"]}),
            _factor(discrete, ["x"], np.ones(2), {"x": ["yes", "no"]}),
            _factor(discrete, ["x"], np.ones(2)),
        ]
        with pytest.raises(ModelError, match="node 'x': some factors name its states in different"):
            from_pgmpy(_markov(models, ["x"], factors))

    def test_too_many_state_names(self, models, discrete):
        factor = _factor(discrete, ["x"], np.ones(2), {"x": ["a", "b", "c"]})
        with pytest.raises(ModelError, match=r"over \(x\): 'x' needs 2 state names, found 3"):
            from_pgmpy(_markov(models, ["x"], [factor]))

    def test_factor_over_a_removed_node(self, models, discrete):
        network = _markov(models, ["x", "y"], [_factor(discrete, ["x", "y"], np.ones((2, 2)))])
        network.remove_node("y")
        with pytest.raises(ModelError, match=r"factor over \(x, y\): 'y' is no node"):
            from_pgmpy(network)

    def test_node_without_cpd(self, models, discrete):
        network = models.DiscreteBayesianNetwork([("x", "y")])
        network.add_cpds(discrete.TabularCPD("x", 2, [[0.5], [0.5]]))
        with pytest.raises(ModelError, match="every node needs a CPD, found none for 'y'"):
            from_pgmpy(network)

    def test_factor_that_is_no_table(self, models):
        network = models.DiscreteMarkovNetwork()
        network.factors.append(3)
        with pytest.raises(ModelError, match=r"a pgmpy DiscreteFactor .*found builtins.int"):
            from_pgmpy(network)

    def test_wrong_type(self, models):
        message = "expected a pgmpy DiscreteMarkovNetwork or DiscreteBayesianNetwork, found"
        with pytest.raises(ModelError, match=f"{message} builtins.dict"):
            from_pgmpy({})
        with pytest.raises(ModelError, match=f"{message} pgmpy.*FactorGraph"):
            LogLinearModel.from_pgmpy(models.FactorGraph())


def _random_model(seed, names=()):
    generator = np.random.default_rng(seed)
    cards = tuple(int(k) for k in generator.integers(1, 4, 6))
    factors = [Factor((), np.array(generator.normal())), Factor((), np.array(generator.normal()))]
    for _ in range(6):
        # Variable 5 stays in no factor.
        scope = tuple(int(v) for v in generator.permutation(5)[: generator.integers(1, 4)])
        table = generator.normal(0.0, 20.0, [cards[v] for v in scope])
        table[generator.random(table.shape) < 0.1] = -np.inf
        factors.append(Factor(scope, table))
    return LogLinearModel(cards, tuple(factors), names)


@pytest.mark.usefixtures("models")
class TestToPgmpy:
    @pytest.mark.parametrize("seed", range(10))
    @pytest.mark.parametrize("names", [(), ("u", "v", "w", "x", "y", "z")])
    def test_round_trip(self, seed, names):
        model = _random_model(seed, names)
        network = model.to_pgmpy()
        assert network.check_model()
        again = LogLinearModel.from_pgmpy(network)
        rows = _assignments(model)
        assert again.cardinalities == model.cardinalities
        assert again.names == (names or ("0", "1", "2", "3", "4", "5"))
        np.testing.assert_allclose(again.value(rows), model.value(rows), rtol=0, atol=1e-12)

    @pytest.mark.parametrize("seed", range(3))
    def test_pgmpy_joint(self, seed):
        model = _random_model(seed)
        network = to_pgmpy(model)
        joint = reduce(lambda left, right: left * right, network.factors)
        _same(model, lambda row: joint.get_value(**{str(v): int(k) for v, k in enumerate(row)}))

    def test_one_factor_each(self):
        model = LogLinearModel.from_tables([2, 3], [((1, 0), np.zeros((3, 2))), ((), 0.5)])
        assert [f.variables for f in to_pgmpy(model).factors] == [["1", "0"], ["0"]]

    @pytest.mark.parametrize("constant", [-0.75, -math.inf])
    def test_only_a_constant(self, constant):
        model = LogLinearModel.from_tables([3, 2], [((), constant)])
        again = from_pgmpy(to_pgmpy(model))
        assert again.cardinalities == (3, 2)
        np.testing.assert_allclose(again.value(_assignments(again)), constant)

    def test_nothing(self):
        assert from_pgmpy(to_pgmpy(LogLinearModel(()))) == LogLinearModel(())

    def test_constant_without_variables(self):
        with pytest.raises(ModelError, match="constant without variables"):
            to_pgmpy(LogLinearModel.from_tables([], [((), 1.0)]))

    @pytest.mark.parametrize("entry", [800.0, -740.0, -1000.0])
    def test_exp_out_of_range(self, entry):
        model = LogLinearModel.from_tables([2], [((0,), [0.0, entry])])
        message = rf"over \(0\): exp of every finite .* a normal float64, found entry {entry}"
        with pytest.raises(ModelError, match=message):
            to_pgmpy(model)

    def test_pgmpy_set_to_a_narrower_type(self):
        config = pytest.importorskip("pgmpy").config
        config.set_dtype("float32")
        try:
            with pytest.raises(ModelError, match=r"normal float32, found entry -90\.0"):
                to_pgmpy(LogLinearModel.from_tables([2], [((0,), [0.0, -90.0])]))
        finally:
            config.set_dtype()

    def test_repeated_names(self):
        with pytest.raises(ModelError, match="names must be distinct, found 'x' twice"):
            to_pgmpy(LogLinearModel((2, 2, 2), (), ("x", "y", "x")))


def _variable(gum, name):
    labels = [f"{name}{k}" for k in reversed(range(CARDS[name]))]
    return gum.LabelizedVariable(name, name, labels)


def _filled(tensor, names, table):
    """Write `table` (axes as `names`) entry by entry, with pyAgrum's own indexing by name."""
    for index in np.ndindex(table.shape):
        tensor[dict(zip(names, index, strict=True))] = table[index]


def _random_bayes_net(gum, seed):
    generator = np.random.default_rng(seed)
    network = gum.BayesNet()
    for name in NAMES:
        network.add(_variable(gum, name))
    for child, parents in PARENTS.items():
        for parent in parents:
            network.addArc(parent, child)
        scope = (child, *parents)
        table = _conditional(generator, [CARDS[v] for v in scope])
        _filled(network.cpt(child), scope, table)
    return network


def _random_field(gum, seed):
    generator = np.random.default_rng(seed)
    network = gum.MarkovRandomField()
    for name in (*NAMES, "alone"):
        network.add(_variable(gum, name) if name in CARDS else gum.RangeVariable(name, "", 4, 6))
    for scope in (("c", "a"), ("a", "c", "d"), ("d", "b", "a"), ("b",), ("e",)):
        tensor = network.addFactor(list(scope))
        _filled(tensor, scope, _potentials(generator, [CARDS[v] for v in scope]))
    return network


def _instantiations(gum, network, model):
    """Each row with pyAgrum's instantiation of it, set by the variables' names."""
    for row in _assignments(model):
        inst = gum.Instantiation()
        for name, value in zip(model.names, row, strict=True):
            inst.add(network.variableFromName(name))
            inst.chgVal(name, int(value))
        yield row, inst


def _same_as_bayes_net(gum, network, model):
    rows, instances = zip(*_instantiations(gum, network, model), strict=True)
    expected = [_log(network.jointProbability(inst)) for inst in instances]
    np.testing.assert_allclose(model.value(np.array(rows)), expected, rtol=0, atol=1e-12)


class TestFromPyagrum:
    @pytest.mark.parametrize("seed", SEEDS)
    def test_bayes_net(self, gum, seed):
        network = _random_bayes_net(gum, seed)
        model = LogLinearModel.from_pyagrum(network)
        assert model.names == NAMES
        assert model.cardinalities == tuple(CARDS[name] for name in NAMES)
        _same_as_bayes_net(gum, network, model)

    @pytest.mark.parametrize("seed", SEEDS)
    def test_markov_random_field(self, gum, seed):
        network = _random_field(gum, seed)
        model = from_pyagrum(network)
        assert model.names == (*NAMES, "alone")
        assert model.cardinalities == (*(CARDS[name] for name in NAMES), 3)
        joint = reduce(
            lambda left, right: left * right, [network.factor(s) for s in network.factors()]
        )
        rows, instances = zip(*_instantiations(gum, network, model), strict=True)
        expected = [_log(joint.get(inst)) for inst in instances]
        np.testing.assert_allclose(model.value(np.array(rows)), expected, rtol=0, atol=1e-12)

    def test_equal_cardinalities(self, gum):
        # Every axis of the same length: a wrong order of axes would not show in the shapes.
        network = gum.fastBN("a[2]->d[2];b[2]->d[2];c[2]->d[2];a->c->b")
        _same_as_bayes_net(gum, network, from_pyagrum(network))

    def test_labels_keep_their_order(self, gum):
        network = gum.BayesNet()
        network.add(gum.LabelizedVariable("x", "", ["yes", "no"]))
        network.cpt("x")[{"x": "yes"}] = 0.25
        network.cpt("x")[{"x": "no"}] = 0.75
        np.testing.assert_allclose(np.exp(from_pyagrum(network).value([[0], [1]])), [0.25, 0.75])

    def test_erased_node(self, gum):
        network = gum.fastBN("a[2]->b[3];c[4]")
        network.erase("a")
        model = from_pyagrum(network)
        assert (model.names, model.cardinalities) == (("b", "c"), (3, 4))
        assert np.exp(model.value(_assignments(model))).sum() == pytest.approx(1.0)

    @pytest.mark.parametrize("kind", ["addOR", "addMAX", "addNoisyOR", "addLogit"])
    def test_cpt_without_a_table(self, gum, kind):
        network = gum.BayesNet()
        for name in ("x", "y"):
            network.add(gum.LabelizedVariable(name, "", 2))
            network.generateCPT(name)
        weights = () if kind in ("addOR", "addMAX") else (0.2,)
        getattr(network, kind)(gum.LabelizedVariable("z", "", 2), *weights)
        for name, weight in (("x", 0.3), ("y", 0.6)):
            arc = network.addWeightedArc if weights else network.addArc
            arc(name, "z", *((weight,) if weights else ()))
        _same_as_bayes_net(gum, network, from_pyagrum(network))

    @pytest.mark.parametrize("bad", [-1.0, math.nan])
    def test_bad_potential(self, gum, bad):
        network = gum.MarkovRandomField()
        network.add(gum.LabelizedVariable("x", "", 2))
        network.addFactor(["x"])[{"x": 1}] = bad
        message = rf"factor over \(x\): potentials must be finite and at least 0, found {bad}"
        with pytest.raises(ModelError, match=message):
            from_pyagrum(network)

    def test_wrong_type(self, gum):
        message = "expected a pyAgrum MarkovRandomField or BayesNet, found"
        with pytest.raises(ModelError, match=f"{message} builtins.str"):
            from_pyagrum("network")
        with pytest.raises(ModelError, match=f"{message} pyagrum.*Tensor"):
            from_pyagrum(gum.Tensor())


@pytest.mark.usefixtures("gum")
def test_first_import_of_pyagrum_where_warnings_are_errors():
    code = (
        "import warnings; from cmpe import LogLinearModel; "
        "warnings.simplefilter('error'); LogLinearModel.from_pyagrum(1)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ModelError: expected a pyAgrum" in done.stderr


class TestMissingPackage:
    def test_pgmpy(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "pgmpy", None)
        message = r"pgmpy is not installed; install it with: pip install 'cmpe\[interop\]'"
        with pytest.raises(MissingExtra, match=message):
            LogLinearModel.from_pgmpy(object())
        with pytest.raises(MissingExtra, match=message):
            LogLinearModel((2,)).to_pgmpy()

    def test_pyagrum(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "pyagrum", None)
        with pytest.raises(MissingExtra, match="pyagrum is not installed; install it with: pip"):
            LogLinearModel.from_pyagrum(object())
