"""What travels to other processes, and what comes back."""

import pickle

import numpy as np
import pytest

from cmpe.bounds.base import Work
from cmpe.cli.streaming.jobs import BestJob, BoundJob, FrontJob, SolveJob
from cmpe.errors import InputError
from cmpe.generation import Recipe, generate, grid
from cmpe.solvers.base import Limits, Running
from cmpe.streams.pieces import ArrayPiece

MADE = generate(grid(3, 3, seed=2), Recipe(samples=20, percentile=60))
PROBLEM = MADE.problem
PIECE = ArrayPiece("rows", MADE.train[:5].astype(np.int8))
JOBS = {
    "solve": SolveJob(PROBLEM, "exact", Limits(), "jsonl"),
    "parquet": SolveJob(PROBLEM, "exact", Limits(), "parquet"),
    "bound": BoundJob(PROBLEM, ("lagrangian",), Work(), None, "cpu"),
    "front": FrontJob(PROBLEM, 0, None, None, Running()),
    "best": BestJob(PROBLEM, 2, None, None, Running()),
}


@pytest.mark.parametrize("name", JOBS)
def test_a_job_that_has_travelled_says_the_same(name):
    job = JOBS[name]
    part, again = job(40, PIECE), pickle.loads(pickle.dumps(job))(40, PIECE)
    assert part.data == again.data
    assert part.rows == sum(part.tally.values()) == 5
    assert part.seconds >= 0.0
    if name != "parquet":
        assert part.data.startswith(b'{"index": 40, ')


def test_errors_name_the_first_row_of_the_block():
    wrong = ArrayPiece("rows", np.full((2, len(PROBLEM.evidence_variables)), 5))
    with pytest.raises(InputError, match=r"rows: row 0, .* found 5 \(rows counted from 40\)"):
        JOBS["solve"](40, wrong)
