"""The one door: evidence in every form, options that reach the engine or are refused."""

import numpy as np
import pytest

import cmpe
from cmpe import METHODS, Problem, Running, Solutions, Status
from cmpe.core.compiler import timing
from cmpe.errors import InputError, Interrupted, MethodError
from cmpe.problem import Form
from cmpe.problem.patterns import Twins
from cmpe.solvers import auto, dispatch, method_named
from cmpe.solvers.base import Engine
from cmpe.solvers.dispatch import engine_of
from cmpe.solvers.exact import complete
from tests.problems import Shape, random_problem, worked_example

ROWS = np.array([[1, 1], [0, 0], [1, 1], [0, 1]])
HERE = [m for m, row in METHODS.items() if row.needs != "gurobi"]


class Recorder:
    """An engine that answers nothing and remembers what it was told."""

    def __init__(self):
        self.calls = []

    def answer(self, instances, limits):
        self.calls.append((instances, limits))
        nothing = np.full((len(instances), instances.problem.variables), -1)
        return Solutions.of(instances.problem, nothing)


class Brought:
    """A user's solver: always the same assignment."""

    def __init__(self, assignment=(1, 1, 0, 1)):
        self.assignment, self.calls = assignment, []

    def solve(self, problem, evidence=None, *, time_limit=None, seed=0):
        self.calls.append((time_limit, seed))
        rows = problem.given(evidence).complete(
            np.tile(np.array(self.assignment)[list(problem.free)], (len(evidence), 1))
        )
        return Solutions.of(problem, rows, method="brought")


def test_every_option_reaches_an_engine():
    engine = Recorder()
    running = Running(workers=2, threads=3, device="cuda", start=np.zeros((4, 4)), progress=print)
    cmpe.solve(
        worked_example(), ROWS, method=engine, time_limit=2.0, gap=0.5, seed=7, running=running
    )
    ((instances, limits),) = engine.calls
    assert len(instances) == 3  # two rows are equal, and so are their starts
    assert (limits.seconds, limits.gap, limits.seed) == (2.0, 0.5, 7)
    assert (limits.workers, limits.threads) == (2, 3)
    assert limits.device == "cuda"
    assert limits.progress is print


def test_equal_rows_reach_it_once():
    engine = Recorder()
    answers = cmpe.solve(worked_example(), ROWS, method=engine)
    assert engine.calls[0][0].evidence.tolist() == [[1, 1], [0, 0], [0, 1]]
    assert len(answers) == 4


@pytest.mark.parametrize("method", HERE)
def test_equal_rows_have_equal_answers(method):
    """Also where nothing is observed, where rows have a start, and where a proof says none."""
    problem, _ = random_problem(159, Shape(variables=7, values=4, constraints=2))
    for asked in (problem.observing(()), worked_example()):
        count = len(asked.evidence_variables)
        rows = np.ones((5, count), dtype=int)
        start = np.zeros((5, asked.variables), dtype=int)
        for running in (Running(), Running(start=start)):
            found = cmpe.solve(asked, rows, method=method, running=running)
            assert (found.assignments == found.assignments[0]).all()
            assert len(found) == 5
    none = Problem(worked_example().objective, [worked_example().constraints[0].function <= -1.0])
    found = cmpe.solve(none, np.zeros((2, 0)), method=method)
    assert (found.assignments[found.status == Status.INFEASIBLE] == -1).all()


@pytest.mark.parametrize("evidence", [None, {}, np.zeros((0, 4), dtype=int), {0: 1, 3: 0}])
def test_evidence_in_other_forms(evidence):
    engine = Recorder()
    answers = cmpe.solve(worked_example().observing(()), evidence, method=engine)
    assert len(answers) == (0 if isinstance(evidence, np.ndarray) else 1)


def test_a_start_follows_its_rows_into_their_groups():
    engine = Recorder()
    rows = [[1, 1, -1, -1], [-1, -1, -1, -1], [1, 1, -1, -1]]
    start = np.array([[1, 1, 0, 1], [0, 0, 1, 1], [1, 1, 1, 1]])
    found = cmpe.solve(worked_example(), rows, method=engine, running=Running(start=start))
    told = {len(part): limits.start.tolist() for part, limits in engine.calls}
    assert told[2] == [start[0].tolist(), start[2].tolist()]
    assert told[1] == [start[1].tolist()]
    assert found.labels[0] == found.labels[2] == "feasible"  # what nobody bettered
    assert found.assignments[0].tolist() == [1, 1, 0, 1]


@pytest.mark.parametrize("method", HERE)
def test_no_answer_is_worse_than_its_start(method):
    for seed in range(10):
        problem, evidence = random_problem(seed)
        truth = cmpe.solve(problem, evidence, method="exhaustive")
        start = np.where(truth.assignments < 0, 0, truth.assignments)
        found = cmpe.solve(problem, evidence, method=method, running=Running(start=start))
        np.testing.assert_allclose(
            found.objective[truth.feasible], truth.objective[truth.feasible], rtol=1e-9
        )


@pytest.mark.parametrize("method", HERE)
def test_workers_and_threads_change_no_answer(method):
    problem = worked_example()
    alone = cmpe.solve(problem, ROWS, method=method, seed=3)
    seen = []
    running = Running(workers=2, threads=2, progress=lambda *now: seen.append(now))
    many = cmpe.solve(problem, ROWS, method=method, seed=3, running=running)
    np.testing.assert_array_equal(many.status, alone.status)
    np.testing.assert_array_equal(many.objective, alone.objective)
    assert seen[-1] == (3, 3)


def test_a_solver_of_ones_own():
    brought = Brought()
    found = cmpe.solve(worked_example(), ROWS, method=brought, time_limit=2.0, seed=3)
    assert set(found.method) == {"brought"}
    assert brought.calls == [(2.0, 3)]
    better = cmpe.solve(
        worked_example(),
        [[1, 1]],
        method=Brought((1, 1, 1, 1)),
        running=Running(start=[[1, 1, 0, 1]]),
    )
    assert better.objective.tolist() == [11.0]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"gap": 0.5}, "gap"),
        ({"running": Running(workers=2)}, "workers"),
        ({"running": Running(threads=2)}, "threads"),
        ({"running": Running(device="cuda")}, "device"),
        ({"running": Running(progress=print)}, "progress"),
    ],
)
def test_what_a_solver_of_ones_own_cannot_be_told_is_refused(options, named):
    with pytest.raises(MethodError, match=rf"found {named}: give it a method `answer"):
        cmpe.solve(worked_example(), ROWS, method=Brought(), **options)


@pytest.mark.parametrize("method", [m for m in METHODS if not METHODS[m].takes_gap])
def test_a_gap_is_refused_by_name(method):
    with pytest.raises(MethodError, match=f"only method auto takes a gap, found '{method}'"):
        cmpe.solve(worked_example(), ROWS, method=method, gap=0.1)


@pytest.mark.parametrize("method", [m for m in METHODS if not METHODS[m].takes_device])
def test_a_device_is_refused_by_name(method):
    with pytest.raises(MethodError, match=f"take a device; found '{method}' with device 'cuda'"):
        cmpe.solve(worked_example(), ROWS, method=method, running=Running(device="cuda"))


def test_a_method_that_is_nothing_of_the_kind():
    with pytest.raises(MethodError, match="a name, an engine or a solver; found int"):
        cmpe.solve(worked_example(), ROWS, method=3)


def test_an_unknown_method_lists_all():
    with pytest.raises(InputError, match=f"{', '.join(METHODS)}; found 'magic'"):
        method_named("magic")


def test_a_start_of_another_length_is_refused():
    with pytest.raises(MethodError, match="a start must have 4 rows, found 1"):
        cmpe.solve(worked_example(), ROWS, running=Running(start=[[0, 0, 0, 0]]))


@pytest.mark.parametrize("method", [m for m in METHODS if Form.OTHER not in METHODS[m].engines])
def test_methods_that_need_tables_say_so(method):
    problem = cmpe.Problem(
        cmpe.LogLinearModel.from_tables([2], [((0,), [0.0, 1.0])]), continuous=(0,)
    )
    with pytest.raises(MethodError, match=f"method {method} needs tables"):
        engine_of(method, problem, cmpe.Limits())


@pytest.mark.parametrize("row", METHODS.values(), ids=METHODS)
def test_every_row_of_the_registry_loads_its_engines(row):
    for form, load in row.engines.items():
        assert isinstance(load(), Engine), (row.name, form)
    assert row.takes == ("any function" if Form.OTHER in row.engines else "tables")


def chain_with_gaps(count=120, length=9):
    """A chain under a limit, and rows of about a hundred patterns of missing values."""
    rng = np.random.default_rng(0)
    h, t = (
        cmpe.LogLinearModel.from_tables(
            [3] * length, [((v, v + 1), rng.normal(size=(3, 3))) for v in range(length - 1)]
        )
        for _ in range(2)
    )
    rows = rng.integers(0, 3, (count, length))
    rows[rng.random(rows.shape) < 0.6] = -1
    return Problem(h, [t <= 1.0]), rows


@pytest.mark.parametrize("method", ["auto", "exact"])
def test_many_patterns_share_a_plan_and_no_answer_changes(method, monkeypatch):
    problem, rows = chain_with_gaps()
    asked = []
    engine = {"auto": auto.Auto, "exact": complete.Exact}[method]
    answer = engine.answer

    def count(engine, instances, limits):
        asked.append(len(instances))
        return answer(engine, instances, limits)

    monkeypatch.setattr(engine, "answer", count)
    together = cmpe.solve(problem, rows, method=method)
    assert len(asked) == 1
    each_pattern = dispatch.SOLVERS._replace(preparation=0.0)
    monkeypatch.setattr(dispatch, "SOLVERS", each_pattern)
    apart = cmpe.solve(problem, rows, method=method)
    assert len(asked) > 90
    assert together.labels == apart.labels
    np.testing.assert_allclose(together.objective, apart.objective)
    np.testing.assert_array_equal(together.observed, apart.observed)
    assert (rows == together.assignments)[(rows >= 0) & together.feasible[:, np.newaxis]].all()


@pytest.mark.parametrize("preparation", [0.0, dispatch.SOLVERS.preparation])
def test_what_patterns_share_is_charged(preparation, monkeypatch):
    """The plan takes 2 s on a clock of its own: they are in the rows' seconds, as one or apart."""
    problem, rows = chain_with_gaps()
    cmpe.solve(problem, rows[:1])  # compiled code is loaded
    monkeypatch.setattr(dispatch, "SOLVERS", dispatch.SOLVERS._replace(preparation=preparation))
    late, of = [0.0], Twins.of

    def slow(batches):
        late[0] += 2.0
        return of(batches)

    clock = timing.now
    monkeypatch.setattr(dispatch.Twins, "of", slow)
    monkeypatch.setattr(timing, "now", lambda: clock() + late[0])
    begin = timing.now()
    answers = cmpe.solve(problem, rows)
    wall = timing.now() - begin
    assert 2.0 <= answers.seconds.sum() <= wall


def test_ctrl_c_where_patterns_share_a_plan(monkeypatch):
    problem, rows = chain_with_gaps()

    def stops(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(auto.Auto, "answer", stops)
    with pytest.raises(Interrupted) as stop:
        cmpe.solve(problem, rows)
    assert stop.value.finished == 0
    assert stop.value.solutions.assignments.shape == rows.shape
