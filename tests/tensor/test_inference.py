import itertools
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from scipy.special import logsumexp

from cmpe import Constraint, LogLinearModel, Problem
from cmpe.bounds.kernels import dual as dual_kernels
from cmpe.bounds.lagrangian import Batch, lagrangian_dual
from cmpe.errors import MethodError, ModelError, TooLarge
from cmpe.generation import grid
from cmpe.tensor import inference
from cmpe.tensor.inference import LANES
from tests.problems import Shape, random_problem, seeds, worked_example

BACKENDS = ("cpu", "torch")
backends = pytest.mark.parametrize("backend", BACKENDS)


def completions(instances, row):
    """Every assignment that agrees with one row of evidence."""
    problem = instances.problem
    ranges = [range(k) for k in problem.objective.cardinalities]
    for variable, value in zip(problem.evidence_variables, instances.evidence[row], strict=True):
        ranges[variable] = range(value, value + 1)
    return np.array(list(itertools.product(*ranges)))


def enumerated(instances, which):
    """(assignments, values) of every row."""
    function = instances.problem.functions[which]
    every = [completions(instances, row) for row in range(len(instances))]
    return [(rows, function.value(rows)) for rows in every]


def close(found, expected, tolerance=1e-9):
    return not np.isnan(found).any() and np.allclose(found, expected, rtol=0, atol=tolerance)


def log_sum(values):
    return logsumexp(values) if np.isfinite(values).any() else -np.inf


def each_function(seed):
    problem, evidence = random_problem(seed)
    instances = problem.given(evidence)
    return instances, range(len(problem.functions))


@backends
@pytest.mark.parametrize(("extreme", "best"), [("maximum", np.max), ("minimum", np.min)])
@given(seed=seeds)
def test_an_extreme_is_that_of_all_completions(seed, backend, extreme, best):
    instances, functions = each_function(seed)
    for which in functions:
        found = getattr(inference, extreme)(instances, which, backend=backend)
        assert close(found.values, [best(v) for _, v in enumerated(instances, which)])
        assert close(instances.problem.functions[which].value(found.assignments), found.values)
        observed = list(instances.problem.evidence_variables)
        assert (found.assignments[:, observed] == instances.evidence).all()


@backends
@given(seed=seeds)
def test_the_partition_function_sums_over_all_completions(seed, backend):
    instances, functions = each_function(seed)
    for which in functions:
        found = inference.log_partition(instances, which, backend=backend)
        assert close(found, [log_sum(v) for _, v in enumerated(instances, which)])


@backends
@given(seed=seeds)
def test_max_marginals_are_maxima_given_each_value(seed, backend):
    instances, functions = each_function(seed)
    for which in functions:
        found = inference.max_marginals(instances, which, backend=backend)
        assert found.variables == instances.conditioning.free
        assert found.values.shape == (len(instances), found.starts[-1])
        for variable in found.variables:
            for a in range(instances.problem.objective.cardinalities[variable]):
                expected = [v[z[:, variable] == a].max() for z, v in enumerated(instances, which)]
                assert close(found.of(variable)[:, a], expected)


@given(seed=seeds)
def test_probabilities_of_evidence_sum_to_one(seed):
    problem, _ = random_problem(seed)
    cards = [problem.objective.cardinalities[v] for v in problem.evidence_variables]
    every = list(itertools.product(*map(range, cards)))
    rows = np.array(every, dtype=int).reshape(len(every), len(cards))
    instances = problem.given(rows)
    possible = np.isfinite(inference.maximum(instances).values).any()
    for backend in BACKENDS:
        if possible:
            found = inference.log_probability_of_evidence(instances, backend=backend)
            assert np.exp(found).sum() == pytest.approx(1.0, abs=1e-9)
        else:
            with pytest.raises(ModelError, match="possible assignment"):
                inference.log_probability_of_evidence(instances, backend=backend)


def grid_problem(side=8, rows=3 * LANES + 7, share=0.5, seed=5):
    """A noisy grid pair with random evidence; q is a typical value of t."""
    rng = np.random.default_rng(seed)
    objective = grid(side, side, seed=seed)
    function = objective.perturb(0.1, seed)
    observed = rng.choice(side * side, int(share * side * side), replace=False)
    sample = rng.integers(0, 2, (101, side * side))
    problem = Problem(
        objective, (Constraint(function, float(np.median(function.value(sample)))),), observed
    )
    return problem, rng.integers(0, 2, (rows, len(observed)))


@pytest.mark.parametrize("rows", [0, 1, LANES, LANES + 1, 3 * LANES + 7])
def test_back_ends_agree_on_a_batch_of_grids(rows):
    problem, evidence = grid_problem(rows=rows)
    instances = problem.given(evidence)
    for which in (0, 1):
        for call in (inference.maximum, inference.minimum):
            ours, theirs = (call(instances, which, backend=b) for b in BACKENDS)
            assert close(ours.values, theirs.values)
            assert ours.values.shape == (rows,)
            assert (ours.assignments == theirs.assignments).all()
        for call in (inference.log_partition, inference.log_probability_of_evidence):
            ours, theirs = (call(instances, which, backend=b) for b in BACKENDS)
            assert close(ours, theirs)
        ours, theirs = (inference.max_marginals(instances, which, backend=b) for b in BACKENDS)
        assert close(ours.values, theirs.values)


def test_every_max_marginal_contains_the_maximum():
    problem, evidence = grid_problem()
    instances = problem.given(evidence)
    best = inference.maximum(instances).values
    marginals = inference.max_marginals(instances)
    for variable in marginals.variables:
        assert close(marginals.of(variable).max(axis=1), best)


def test_blocks_of_lanes_do_not_mix(monkeypatch):
    problem, evidence = grid_problem()
    instances = problem.given(evidence)
    expected = inference.log_partition(instances)
    monkeypatch.setattr(inference, "LANES", 3)
    assert close(inference.log_partition(instances), expected)
    alone = [inference.log_partition(problem.given(row))[0] for row in evidence[:5]]
    assert close(alone, expected[:5])


def test_tensors_in_several_chunks_agree(monkeypatch):
    from cmpe.tensor import dual as inference_dual
    from cmpe.tensor import plan as inference_torch

    problem, evidence = grid_problem()
    instances = problem.given(evidence)
    whole = inference.maximum(instances, backend="torch")
    dual = inference_dual.minimise_dual(problem, evidence)
    monkeypatch.setattr(inference_torch.torch_plan(problem, "cpu", "float64"), "most_rows", 50)
    parts = inference.maximum(instances, backend="torch")
    assert (whole.assignments == parts.assignments).all()
    for ours, theirs in zip(dual, inference_dual.minimise_dual(problem, evidence), strict=True):
        assert close(ours, theirs)


def test_single_precision_is_close():
    problem, evidence = grid_problem()
    instances = problem.given(evidence)
    exact = inference.maximum(instances)
    rough = inference.maximum(instances, backend="torch", dtype="float32")
    assert close(rough.values, exact.values, 1e-3)


def test_the_worked_example():
    instances = worked_example().given([[1, 1], [0, 1]])
    best = inference.maximum(instances)
    assert best.values[0] == 16
    assert best.assignments[0].tolist() == [1, 1, 0, 0]
    assert inference.minimum(instances, 1).values[1] == inference.minimum(
        instances, 1, backend="torch"
    ).values[1]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "jax"}, "cpu, torch"),
        ({"backend": "torch", "dtype": "float16"}, "float64, float32"),
        ({"device": "cuda"}, "use backend='torch'"),
        ({"dtype": "float32"}, "use backend='torch'"),
        ({"which": 2}, "at most 1"),
        ({"which": -1}, "at most 1"),
        ({"backend": "torch", "device": "abacus"}, "abacus"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(MethodError, match=message):
        inference.maximum(worked_example().given([1, 1]), **options)


@backends
def test_memory_is_refused_before_it_is_taken(backend):
    pairs = itertools.combinations(range(45), 2)
    clique = LogLinearModel.from_tables([2] * 45, [(pair, np.zeros((2, 2))) for pair in pairs])
    instances = Problem(clique).given()
    with pytest.raises(TooLarge, match="GiB"):
        inference.maximum(instances, backend=backend)


def test_a_marginal_of_an_observed_variable_is_refused():
    marginals = inference.max_marginals(worked_example().given([1, 1]))
    with pytest.raises(ModelError, match="free"):
        marginals.of(0)


def test_torch_is_imported_only_when_asked_for():
    code = "import sys, cmpe.tensor.inference; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# The dual of one constraint.

ONE = Shape(constraints=1)


def one_constraint(seed):
    problem, evidence = random_problem(seed, ONE)
    if not problem.constraints:
        function = LogLinearModel(problem.objective.cardinalities)
        problem = Problem(problem.objective, (Constraint(function, 0.0),),
                          problem.evidence_variables)  # fmt: skip
    return problem, evidence


def compiled_dual(problem, evidence):
    """(mu, upper, lower, kind) of `dual_kernels.minimise_dual`, all rows in one block."""
    batch = Batch(problem.given(evidence))
    plan, lanes = batch.plan, batch.evidence.shape[1]
    h, t = np.zeros((plan.entries, lanes)), np.zeros((1, plan.entries, lanes))
    dual_kernels.load_block(
        plan, batch.offsets, batch.gathers, batch.evidence, np.arange(lanes), batch.limits,
        batch.finite, h, t,
    )  # fmt: skip
    values, carried = np.zeros((2, plan.total, lanes))
    mu, upper, lower = np.zeros((3, lanes))
    kind, ends = np.zeros(lanes, dtype=np.int64), np.zeros((2, lanes))
    dual_kernels.minimise_dual(
        plan, h, t[0], batch.limits[0], values, carried, mu, upper, lower, kind, ends
    )
    return mu, upper, lower, kind


@given(seed=seeds)
def test_both_duals_agree_and_bound_every_feasible_assignment(seed):
    from cmpe.tensor.dual import minimise_dual

    problem, evidence = one_constraint(seed)
    found = minimise_dual(problem, evidence)
    _, upper, _, kind = compiled_dual(problem, evidence)
    assert close(found.upper, upper)
    assert (found.kind == kind).all()
    assert (found.mu >= 0).all()
    instances = problem.given(evidence)
    assert close(found.upper, lagrangian_dual(instances).bound)
    for row, (assignments, values) in enumerate(enumerated(instances, 0)):
        feasible = values[problem.is_feasible(assignments)]
        best = feasible.max() if len(feasible) else -np.inf
        assert found.upper[row] >= best
        assert found.lower[row] <= best + 1e-9
        if found.kind[row] == dual_kernels.INFEASIBLE:
            assert best == -np.inf
        if found.kind[row] == dual_kernels.FREE:
            assert best == pytest.approx(values.max())


@pytest.mark.parametrize("share", [0.3, 0.6])
def test_both_duals_agree_on_a_batch_of_grids(share):
    from cmpe.tensor.dual import minimise_dual

    problem, evidence = grid_problem(share=share)
    found = minimise_dual(problem, evidence)
    mu, upper, lower, kind = compiled_dual(problem, evidence)
    assert (kind == dual_kernels.BOUND).any()
    assert close(found.upper, upper)
    assert close(found.lower, lower)
    assert close(found.mu, mu)  # noise makes the minimiser unique
    assert (found.kind == kind).all()


def test_a_dual_in_single_precision_stops_and_is_close():
    from cmpe.tensor.dual import minimise_dual

    problem, evidence = grid_problem()
    rough, exact = (minimise_dual(problem, evidence, dtype=d) for d in ("float32", "float64"))
    assert close(rough.upper, exact.upper, 1e-2)


def test_a_dual_of_no_rows_is_empty():
    from cmpe.tensor.dual import minimise_dual

    problem, evidence = grid_problem(rows=0)
    assert [len(part) for part in minimise_dual(problem, evidence)] == [0] * 4


@pytest.mark.parametrize("count", [0, 2])
def test_a_dual_needs_one_constraint(count):
    from cmpe.tensor.dual import minimise_dual

    problem = worked_example()
    several = Problem(problem.objective, problem.constraints * count, (0, 1))
    with pytest.raises(MethodError, match=f"exactly one constraint, found {count}"):
        minimise_dual(several, [1, 1])
