"""Settings of `milp`, toulbar2, `exhaustive`, `local` without tables, and dispatch."""

from __future__ import annotations

from typing import NamedTuple


class ProgramSettings(NamedTuple):
    """What tunes `milp` and toulbar2.

    They were chosen by hand; `benchmarks.competition` and `benchmarks.exact` measure what a change
    does.
    """

    # Answers that a back-end calls feasible and the problem does not are cut off.
    cuts: int = 50  # of a row, at most,
    repeats: int = 3  # of them after a feasible answer
    tightened_after: int = 1  # so many cuts the limit is tightened: most rows need fewer
    network_cuts: int = 50  # of a row, at most, for toulbar2
    less_cuts: int = 5  # of answers worth less than the program's value
    # Programs.
    small: int = 12  # free variables: fewer need no start
    start_share: float = 0.2  # of the time limit, for finding a start
    large: float = 128.0  # a row of larger coefficients is divided
    largest_cost: float = 1e4  # of the objective, after it is divided
    # toulbar2 with the constraints in the objective.
    prices: int = 30  # multipliers that are tried, at most
    first_step: float = 0.25  # of the size of a multiplier
    share: float = 0.4  # of the time that is left, for one multiplier


PROGRAMS = ProgramSettings()


class SolverSettings(NamedTuple):
    """What tunes `exhaustive`, `local` without tables, the dual's answers, and the door to methods.

    They were chosen by hand; `benchmarks.exact` measures what a change does.
    """

    # `exhaustive`.
    chunk: int = 1 << 15  # completions of one row that are evaluated together
    block: int = 1 << 17  # completions of the rows of a block, all together
    row_seconds: float = 8e-6  # of enumerating a row, about,
    addition_seconds: float = 1.2e-9  # and for each number added up
    slow_rows: float = 4.0  # factor of elimination's time under three constraints and more
    # Fewer rows are evaluated one by one: sums of tables take as long for one row as for many.
    few_rows: int = 4
    # `local` without tables.
    points: int = 2048  # evaluated together
    penalty: float = 10.0  # rho of the augmented Lagrangian
    smallest_step: float = 1e-6  # of a continuous variable
    tried_numbers: int = 1 << 24  # of the moves tried together
    # `lagrangian`.
    loose: float = 0.005  # share of f = C - h: a larger gap is worth some rounds of `exact`
    loose_rounds: int = 3
    # The door.
    many_sets: int = 8  # of observed variables: preparing them is then charged to their rows
    preparation: float = 1e-4  # seconds a variable for one set of observed variables, about
    least_stage: float = 1e-3  # seconds: a stage with less time would only overrun it
    least_branch: float = 1e-3  # seconds of a leaf


SOLVERS = SolverSettings()
