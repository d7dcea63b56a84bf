"""Handing batches on: nothing that is known gets lost."""

import numpy as np
import pytest

import cmpe
from cmpe import Interrupted, Limits, Solutions, Status
from cmpe.solvers.stages import Stage, certified, continue_with, incumbents, merged, unproved
from tests.problems import worked_example

ROWS = [[1, 1], [0, 1], [0, 0]]


class Scripted:
    """An engine that answers with given rows and remembers what it was told."""

    def __init__(self, rows, bound=np.inf, stop_after=None):
        self.rows, self.bound, self.stop_after = rows, bound, stop_after
        self.told = None

    def answer(self, instances, limits):
        self.told = (instances, limits)
        limits.report(1, len(instances))
        found = Solutions.of(
            instances.problem, self.rows, bound=self.bound, method="scripted", seconds=0.5
        )
        if self.stop_after is not None:
            raise Interrupted(found, self.stop_after)
        return found


@pytest.fixture
def known():
    """A proved row, a row without an answer, and one with a feasible answer."""
    problem = worked_example()
    truth = cmpe.solve(problem, ROWS, method="exhaustive")
    assert truth.labels == ["optimal", "optimal", "infeasible"]
    first = truth.take([0])
    nothing = Solutions.of(problem, [[-1] * 4], method="first", seconds=0.1)
    worse = Solutions.of(problem, [[1, 1, 1, 1]], bound=30.0, method="first", seconds=0.2)
    return Solutions.concatenate([first, nothing, worse])


def instances():
    return worked_example().given([[1, 1], [0, 1], [1, 1]])


def test_only_open_rows_are_handed_on_with_their_incumbents(known):
    engine = Scripted([[0, 1, 0, 1], [1, 1, 0, 1]], bound=[14.0, 11.0])
    seen = []
    limits = Limits(seconds=2.0, progress=lambda *now: seen.append(now))
    found = continue_with(Stage(engine, "more", share=0.5), instances(), known, limits)
    part, told = engine.told
    assert part.evidence.tolist() == [[0, 1], [1, 1]]
    assert told.start.tolist() == [[-1] * 4, [1, 1, 1, 1]]
    assert told.seconds == pytest.approx(0.5 * (2.0 - 0.2))
    assert seen == [(2, 3)]  # one row was done before
    assert found.labels == ["optimal", "optimal", "optimal"]
    assert found.method.tolist() == ["exhaustive", "first+more", "first+more"]
    assert found.seconds[1:].tolist() == pytest.approx([0.6, 0.7])


def test_a_worse_answer_or_none_loses_nothing(known):
    engine = Scripted([[-1] * 4, [1, 1, 0, 0]])  # nothing, and one that violates
    found = continue_with(Stage(engine, "more"), instances(), known, Limits())
    assert found.labels == ["optimal", "unknown", "feasible"]
    assert found.assignments[2].tolist() == [1, 1, 1, 1]
    assert found.bound[2] == 30.0


def test_ctrl_c_keeps_what_all_stages_know(known):
    engine = Scripted([[0, 1, 0, 1], [-1] * 4], stop_after=1)
    with pytest.raises(Interrupted) as stop:
        continue_with(Stage(engine, "more"), instances(), known, Limits())
    assert stop.value.finished == 2
    assert stop.value.solutions.labels == ["optimal", "feasible", "feasible"]


def test_nothing_is_done_where_all_is_proved_or_late(known):
    engine = Scripted([])
    proved = known.take([0])
    assert continue_with(Stage(engine, "more"), instances(), proved, Limits()) is proved
    assert unproved(known, Limits(seconds=0.15)).tolist() == [1]
    assert unproved(known, Limits(gap=100.0)).tolist() == [1]
    assert certified(known).tolist() == [True, False, False]
    assert incumbents(known)[1].tolist() == [-1] * 4
    assert engine.told is None


def test_an_answer_outweighs_a_claim_that_there_is_none():
    problem, row = worked_example(), [[1, 1, 0, 1]]
    known = Solutions.of(problem, row, bound=30.0)
    wrong = Solutions.of(problem, [[-1] * 4], infeasible=True)
    joined = merged(problem, known, wrong, "both")
    assert joined.labels == ["feasible"]
    assert joined.bound[0] == 30.0
    violated = Solutions.of(problem, [[1, 1, 0, 0]])
    assert merged(problem, violated, wrong, "both").labels == ["infeasible"]
    assert (merged(problem, violated, wrong, "both").assignments == -1).all()
    assert Status(merged(problem, violated, known, "both").status[0]) is Status.FEASIBLE
