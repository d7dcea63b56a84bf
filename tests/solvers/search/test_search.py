"""Large-neighbourhood search: passes are exact, answers sound, runs reproducible."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings

import cmpe
from cmpe import Constraint, LogLinearModel, Problem, Running, Status, solve
from cmpe.bounds.lagrangian import lagrangian_dual
from cmpe.errors import Interrupted, MethodError
from cmpe.generation import grid
from cmpe.solvers import search as neighbourhoods
from cmpe.solvers.search import Budget, Search, search
from cmpe.solvers.search.pool import MemberKind, subgraphs
from tests.problems import (
    Shape,
    ask,
    assert_no_worse,
    random_problem,
    random_start,
    seeds,
    worked_example,
)

WIDE = Shape(variables=12, values=2, arity=2, factors=30, constraints=3)
MULTI = Shape(variables=6, values=5, arity=4, factors=10, constraints=2)
FINITE = Shape(variables=7, values=4, arity=4, factors=10, constraints=2, zeros=False)
SHAPES = [Shape(), WIDE, MULTI]
QUICK = Search(passes=60)


def many_rows(side=7, rows=70):
    objective = grid(side, side, seed=4)
    rng = np.random.default_rng(0)
    function = objective.perturb(0.1, 1)
    limit = float(np.quantile(function.value(rng.integers(0, 2, (500, side * side))), 0.9))
    observed = tuple(range(0, side * side, 5))
    evidence = rng.integers(0, 2, (rows, len(observed)))
    return Problem(objective, (Constraint(function, limit),), observed), evidence


@pytest.fixture
def narrow(monkeypatch):
    """A pool of members that freeze something even in small problems."""
    kinds = (MemberKind(1.0, 0, 4), MemberKind(2.0, 0, 8), MemberKind(2.0, 4, 8))
    monkeypatch.setattr(neighbourhoods, "KINDS", kinds)


def member_variables(pool, m):
    low, high = pool.pool.members[m, :2]
    return pool.pool.buckets[low:high, 0]


@settings(max_examples=60)
@given(seeds)
def test_a_pass_is_an_exact_optimum_given_the_rest(seed):
    """h - sum mu_j t_j over the member's variables, against enumeration."""
    problem, evidence = random_problem(seed, FINITE)
    instances = problem.given(evidence)
    free = list(instances.conditioning.free)
    if not free:
        return
    rng = np.random.default_rng(seed)
    start = random_start(problem, len(evidence), seed)
    start[:, list(problem.evidence_variables)] = evidence
    whole = neighbourhoods._Search(instances, start.copy(), 0)
    whole.pool = subgraphs(
        instances.conditioning, (MemberKind(2.0, 0, 3), MemberKind(3.0, 4, 3)), seed % 7
    )
    block = neighbourhoods._Block(whole, instances, start, whole.random[: len(start)])
    block.begin(start, "random")
    state, mu = block._state, rng.uniform(0, 2, len(problem.constraints))
    fixed, m = whole.fixed, int(rng.integers(len(whole.pool.pool.members)))
    state.multipliers[:] = mu[:, np.newaxis]
    one = np.array([m]), np.zeros(1), np.zeros(1)
    block._kernels.run(
        whole.pool.pool, whole.pool.layout, fixed.graph, fixed.rules, fixed.scales, *one, 1,
        state, block._room,
    )  # fmt: skip
    after = instances.complete(state.z[:, : len(start)].T)
    moved = [free[v] for v in member_variables(whole.pool, m)]
    others = [v for v in range(problem.variables) if v not in moved]
    np.testing.assert_array_equal(after[:, others], start[:, others])

    def worth(rows):
        return problem.objective.value(rows) - problem.constraint_values(rows) @ mu

    cards = [problem.objective.cardinalities[v] for v in moved]
    choices = np.array(list(itertools.product(*map(range, cards))))
    for before, found in zip(start, after, strict=True):
        rows = np.repeat(before[np.newaxis], len(choices), axis=0)
        rows[:, moved] = choices
        assert worth(found[np.newaxis])[0] >= worth(rows).max() - 1e-4
    totals = np.column_stack([problem.objective.value(after), problem.constraint_values(after)])
    np.testing.assert_allclose(state.totals[:, : len(start)].T, totals, atol=1e-4)


@settings(max_examples=60)
@given(seeds)
def test_members_respect_their_width(seed):
    problem, _ = random_problem(seed, Shape(variables=9, arity=3, factors=14))
    structure = problem.conditioning
    kinds = (MemberKind(2.0, 0, 3), MemberKind(4.0, 5, 3))
    pool = subgraphs(structure, kinds, seed % 5)
    buckets = pool.pool.buckets
    for kind, group in zip(kinds, pool.groups, strict=True):
        for m in group:
            low, high = pool.pool.members[m, :2]
            assert (buckets[low:high, 5] <= 2**kind.bits + 1e-9).all()  # message sizes
            assert len(set(buckets[low:high, 0])) == high - low
            if kind.vertices:
                assert high - low <= kind.vertices
    assert subgraphs(structure, kinds, seed % 5) is pool


def test_a_narrow_graph_is_one_member():
    problem = Problem(grid(3, 20), ())
    pool = subgraphs(problem.conditioning, (MemberKind(4.0, 0, 10),))
    assert len(pool.pool.members) == 1
    assert len(member_variables(pool, 0)) == 60


def test_hubs_and_variables_of_very_many_values():
    """They are in no member of the whole graph; moves of `local` still reach them."""
    rng = np.random.default_rng(0)
    cards = (300, *[2] * 300)
    tables = [((0, v), rng.normal(size=(300, 2))) for v in range(1, 301)]
    problem = Problem(LogLinearModel.from_tables(cards, tables), ())
    pool = subgraphs(problem.conditioning, neighbourhoods.KINDS)
    held = {v for m in range(len(pool.pool.members)) for v in member_variables(pool, m)}
    assert 0 not in held
    assert len(held) == 300
    found = ask(Search(passes=20), problem)
    assert found.feasible.all()
    hub = found.assignments[0, 0]
    best = sum(table[hub].max() for _, table in tables)
    np.testing.assert_allclose(found.objective, best)


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=60)
@given(seeds)
def test_sound_against_enumeration(shape, seed):
    problem, evidence = random_problem(seed, shape)
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    found = ask(QUICK, problem, evidence)
    assert not (found.feasible & (truth.status == Status.INFEASIBLE)).any()
    good = found.feasible
    assert (found.objective[good] <= truth.objective[good] + 1e-9).all()
    assert (found.bound >= np.where(truth.feasible, truth.objective, -np.inf) - 1e-6).all()
    assert set(found.method) <= {"search"}
    observed = list(problem.evidence_variables)
    np.testing.assert_array_equal(found.assignments[:, observed], evidence)


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("shape", SHAPES)
def test_finds_what_exists(shape):
    """Measured with members that freeze variables: every feasible row, 99.5 % or more optimal."""
    feasible = answered = best = 0
    for seed in range(150):
        problem, evidence = random_problem(seed, shape)
        truth = cmpe.solve(problem, evidence, method="exhaustive")
        found = ask(Search(passes=100), problem, evidence)
        feasible += truth.feasible.sum()
        answered += found.feasible.sum()
        best += (found.objective >= truth.objective - 1e-6)[found.feasible].sum()
    assert answered >= 0.99 * feasible
    assert best >= 0.98 * answered


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=50)
@given(seeds)
def test_never_worse_than_a_feasible_start(shape, seed):
    problem, evidence = random_problem(seed, shape)
    start = random_start(problem, len(evidence), seed)
    start[:, list(problem.evidence_variables)] = evidence
    rows = search(problem.given(evidence), start.copy(), budget=Budget(passes=5))
    solved = ask(Search(passes=5), problem, evidence, running=Running(start=start.copy()))
    assert_no_worse(problem, start, rows, solved.assignments)


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=30)
@given(seeds)
def test_any_multipliers_are_sound(shape, seed):
    problem, evidence = random_problem(seed, shape)
    instances = problem.given(evidence)
    start = random_start(problem, len(evidence), seed)
    start[:, list(problem.evidence_variables)] = instances.evidence
    prices = np.random.default_rng(seed).exponential(2.0, (len(start), len(problem.constraints)))
    rows = search(instances, start.copy(), multipliers=prices, budget=Budget(passes=5))
    assert_no_worse(problem, start, rows)


def test_the_right_multipliers_save_passes():
    problem, evidence = many_rows(side=12, rows=16)
    instances = problem.given(evidence)
    prices = lagrangian_dual(instances).multipliers
    few = Budget(passes=4)
    blind, priced = (
        problem.objective.value(search(instances, multipliers=m, budget=few)).mean()
        for m in (None, prices)
    )
    assert priced > blind


def test_wide_rows_come_close_to_the_optimum():
    """Width 10, members of 2^5 and 2^8: the mean regret measured is 0.02 nats."""
    problem, evidence = many_rows(side=12, rows=16)
    truth = cmpe.solve(problem, evidence, method="exact")
    found = ask(Search(passes=200), problem, evidence)
    assert found.feasible.all()
    assert (truth.objective - found.objective).mean() <= 0.3
    worse = ask(Search(passes=2), problem, evidence)
    assert worse.objective.mean() < found.objective.mean()


def test_threads_and_batches_change_nothing():
    problem, evidence = many_rows()
    one = ask(QUICK, problem, evidence, seed=5)
    four = ask(Search(passes=60), problem, evidence, seed=5, running=Running(threads=4))
    np.testing.assert_array_equal(one.assignments, four.assignments)
    assert (one.seconds > 0).all()
    head = ask(QUICK, problem, evidence[:7], seed=5)
    np.testing.assert_array_equal(head.assignments, one.assignments[:7])
    instances = problem.given(evidence)
    few = Budget(passes=3)
    whole = search(instances, random_start(problem, len(evidence), 1), budget=few)
    again = search(instances, random_start(problem, len(evidence), 1), budget=few, threads=3)
    np.testing.assert_array_equal(whole, again)


def test_seeds_matter():
    problem, evidence = many_rows(side=12, rows=3)
    little = Search(passes=1)
    answers = [ask(little, problem, evidence, seed=s).assignments.tobytes() for s in range(8)]
    assert len(set(answers)) > 1


def test_a_time_limit_is_spent_and_gives_an_answer():
    problem, evidence = many_rows(rows=3)
    for limit in (1e-4, 0.02):
        found = ask(Search(), problem, evidence, time_limit=limit)
        assert found.feasible.all()


def test_no_passes_is_repair_and_polish():
    problem, evidence = many_rows(rows=4)
    assert problem.is_feasible(search(problem.given(evidence), budget=Budget(passes=0))).all()


def test_nothing_free_and_no_rows():
    problem = worked_example().observing((0, 1, 2, 3))
    answer = ask(QUICK, problem, [[1, 1, 0, 1], [1, 1, 0, 0]])
    assert answer.assignments.tolist() == [[1, 1, 0, 1], [1, 1, 0, 0]]
    assert answer.status.tolist() == [Status.OPTIMAL, Status.INFEASIBLE]
    assert len(solve(worked_example(), np.zeros((0, 2), dtype=int, method=QUICK))) == 0


def test_the_worked_example():
    answer = cmpe.solve(worked_example(), {0: 1, 1: 1}, method="search")
    assert answer.assignments.tolist() == [[1, 1, 0, 1]]
    assert answer.objective.tolist() == [11]


def test_inputs_are_left_alone():
    problem, evidence = many_rows(rows=5)
    start = random_start(problem, 5, 3)
    copy = start.copy()
    search(problem.given(evidence), start, budget=Budget(passes=3))
    np.testing.assert_array_equal(start, copy)


def test_bad_input_is_refused():
    with pytest.raises(MethodError, match="shape"):
        ask(Search(), worked_example(), [[1, 1]], running=Running(start=[[0, 0]]))
    with pytest.raises(MethodError, match="time limit"):
        ask(Search(), worked_example(), [[1, 1]], time_limit=-1.0)
    with pytest.raises(MethodError, match="begins with"):
        search(worked_example().given([[1, 1]]), begin="middle")
    with pytest.raises(MethodError, match="passes"):
        ask(Search(passes=-1), worked_example(), [[1, 1]])
    for wrong in ([[1.0, 1.0]], [[-1.0]], [[np.nan]]):
        with pytest.raises(MethodError, match="multipliers"):
            search(worked_example().given([[1, 1]]), multipliers=wrong)


def test_interruption_keeps_what_is_finished():
    problem, evidence = many_rows()

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(Interrupted) as caught:
        ask(Search(passes=3), problem, evidence, running=Running(progress=stop))
    done = caught.value.finished
    assert 0 < done < len(evidence)
    assert caught.value.solutions.feasible[:done].all()
    assert set(caught.value.solutions.status[done:]) <= {Status.FEASIBLE, Status.UNKNOWN}


def test_exact_begins_wide_rows_with_the_search(monkeypatch):
    """Rows too wide to eliminate: the incumbent is kept, however little time is left."""
    from cmpe.solvers import exact

    monkeypatch.setattr(exact, "MOST_BYTES", 0)
    problem, evidence = many_rows(rows=2)
    answer = cmpe.solve(problem, evidence, method="exact", time_limit=0.05)
    assert all(method.startswith("search+reduction") for method in answer.method)
    assert answer.feasible.all()


@pytest.mark.parametrize("begin", neighbourhoods.BEGINNINGS)
@settings(max_examples=25)
@given(seeds)
def test_every_beginning_is_sound(begin, seed):
    problem, evidence = random_problem(seed, MULTI)
    truth = cmpe.solve(problem, evidence, method="exhaustive")
    rows = search(problem.given(evidence), budget=Budget(passes=1), begin=begin)
    feasible = problem.is_feasible(rows)
    assert (feasible <= truth.feasible).all()
    values = problem.objective.value(rows)
    assert (values[feasible] <= truth.objective[feasible] + 1e-9).all()


def begun(begin, problem, evidence):
    """Where the lanes of a block stand before the first pass."""
    instances = problem.given(evidence)
    rows = np.full((len(evidence), problem.variables), -1, dtype=np.int32)
    whole = neighbourhoods._Search(instances, rows, 0)
    block = neighbourhoods._Block(whole, instances, rows, whole.random)
    block.begin(rows, begin)
    return instances.complete(block._state.z[:, : len(evidence)].T)


def test_messages_are_exact_on_trees():
    """On a chain without constraints, max-product finds the optimum."""
    problem = Problem(grid(1, 30, values=3, seed=2), (), (0, 7))
    evidence = np.array([[0, 1], [2, 2], [1, 0]])
    truth = cmpe.solve(problem, evidence, method="exact")
    np.testing.assert_array_equal(begun("messages", problem, evidence), truth.assignments)


def test_icm_stops_where_no_move_raises_h():
    problem, evidence = many_rows(rows=5)
    rows = begun("icm", problem, evidence)
    best = problem.objective.value(rows)
    for v in problem.conditioning.free:
        other = rows.copy()
        other[:, v] = 1 - other[:, v]
        assert (problem.objective.value(other) <= best + 1e-9).all()


def test_better_beginnings_are_better():
    """Without constraints: single moves beat a random assignment, messages beat single moves."""
    problem, evidence = many_rows(side=12, rows=16)
    free = Problem(problem.objective, (), problem.evidence_variables)
    values = [
        problem.objective.value(begun(begin, free, evidence)).mean()
        for begin in neighbourhoods.BEGINNINGS
    ]
    assert values[0] < values[1] < values[2]
