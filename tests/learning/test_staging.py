"""What follows a network's pass, with a network that says what it is told."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from cmpe import Limits, Solutions
from cmpe.errors import Interrupted
from cmpe.learning.pipeline import Pipeline
from cmpe.learning.staging import best_of, staged_answer
from tests.learning.cases import GRID, check_honest


@dataclass
class Zeros:
    """Answers 0 everywhere; with `stop`, Ctrl-C comes at the second block."""

    stages: Pipeline = field(default_factory=Pipeline)
    stop: bool = False
    blocks: int = 0

    def passes(self, block, limits):
        self.blocks += 1
        if self.stop and self.blocks == 2:
            raise KeyboardInterrupt
        return block.complete(0), None

    def stages_for(self, block):
        return self.stages

    def stages_run(self, problem, seconds):
        return "zeros"


def test_answers_are_improved_bounded_and_named():
    rows = GRID.problem.given(GRID.test)
    found = staged_answer(Zeros(), rows, Limits())
    check_honest(GRID.problem, GRID.test, found)
    assert set(found.method) == {"zeros"}
    plain = staged_answer(Zeros(Pipeline(repair=False)), rows, Limits())
    np.testing.assert_array_equal(plain.assignments, rows.complete(0))


def test_a_start_that_is_better_is_kept_and_progress_told():
    rows, told = GRID.problem.given(GRID.test), []
    better = staged_answer(Zeros(), rows, Limits()).assignments
    running = Limits(start=better, progress=lambda done, total: told.append((done, total)))
    found = staged_answer(Zeros(Pipeline(repair=False)), rows, running)
    np.testing.assert_array_equal(found.assignments, better)
    assert told == [(len(rows), len(rows))]


def test_ctrl_c_gives_back_what_is_finished():
    many = GRID.problem.given(np.tile(GRID.test, (4, 1)))
    with pytest.raises(Interrupted) as stop:
        staged_answer(
            Zeros(Pipeline(certificate="none", repair=False), stop=True),
            many,
            Limits(seconds=1.0),
        )
    assert stop.value.finished == 16
    assert set(stop.value.solutions.method[16:]) == {"unfinished"}


def test_the_best_feasible_candidate_wins():
    rows = GRID.problem.given(GRID.test)
    zero, good = rows.complete(0), staged_answer(Zeros(), rows, Limits()).assignments
    best = Solutions.of(GRID.problem, best_of(GRID.problem, [zero, good]))
    assert (best.objective >= Solutions.of(GRID.problem, good).objective - 1e-9).all()
    assert best_of(GRID.problem, [zero]) is zero
