"""`RaceSettings`: the settings of the race on a wide row."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RaceSettings:
    """Numbers of the race.

    Shares called `..._share` are of the time limit unless another quantity is named.
    """

    # How long a turn, or a step of presolve, takes.
    shortest_turn: float = 0.02  # seconds
    turn_per_number: float = 5e-8  # seconds a table entry: ten sweeps
    turn_growth: float = 0.15  # of the time that has passed: turns become longer
    longest_share: float = 0.15  # no turn takes longer

    # Presolve.
    price_share: float = 0.1  # for the first multipliers of the constraints
    small_share: float = 0.05  # for eliminating small variables
    sweep_gain: float = 0.02  # sweeps go on while a turn closes so much of the gap
    sweep_fall: float = 1e-3  # or, without an answer, lowers so much of the bound
    worth: float = 0.25  # of the values beyond one a variable: when so many are out, all start anew
    relaxed: tuple[float, ...] = (0.1, 0.3, 0.6)  # of the variables stay free for a first answer
    relaxed_nodes: int = 500  # of each of these searches, and one more a variable

    first_branching: float = 0.3  # seconds, or as long as presolve took if that is more

    # Without a limit nothing goes by the clock.
    work: float = 2e10  # table entries that branch and bound may look at

    # Turns.
    least: float = 0.2  # of what the most successful contestant gets, at least
    least_branching: float = 1.0  # the same for `branching`, which may earn all of it at its end
    slack_search: float = 1.0  # for `search` and `milp`, while nobody closes the gap in time
    slow: float = 0.05  # of what would close the gap by the limit: less counts as nothing
    fading: float = 0.3  # of the rate before a turn that counts after it

    # Elimination, splits and MILP.
    elimination_due: float = (
        0.5  # of its estimated time: elimination begins when so much has passed
    )
    split_share: float = 0.2  # for making one split
    split_wait: float = 4e-5  # seconds a table that others play before the first split,
    split_late: float = 0.01  # or this share of the limit if that is less
    milp_wait: float = 0.03  # MILP waits until each of the others has played for this share
    milp_share: float = 0.3  # then it has so much
    # Runs of search.
    repair_seconds: float = 0.1  # for a first feasible answer
    run_seconds: float = 0.4  # the shortest run has so many seconds
    run_seconds_each: float = 5e-3  # and so many for each variable
    rest_for_run: float = 0.2  # of a run: so much of the turn must be left for another run
    close: float = 0.01  # of the incumbent: a run from scratch that comes so close is worth another
    # Eliminating small variables.
    few_neighbours: int = 2  # a variable with so few neighbours is always eliminated,
    most_neighbours: int = 3  # one with so many
    small_table: int = 64  # if it leaves a table of at most so many entries,
    summed_entries: int = 1 << 12  # and any if the sum of its tables has at most so many
    reduced_share: float = 0.1  # of the variables must go for a smaller problem
    # Multipliers of the constraints, in units of their size.
    price_step: float = 0.05  # the first step,
    least_price_step: float = 1e-3  # and the least one
    slower_price: float = 0.5  # factor of the step after a worse bound,
    faster_price: float = 1.2  # and after a better one
    price_sweeps: int = 2  # between two steps
    price_steps: int = 40  # at most
    price_patience: int = 5  # steps without a better bound
    branching_step: float = 0.01  # the first step in branch and bound
    # Branch and bound, and probing.
    tree_bytes: int = 1 << 27  # of the open nodes, at most
    open_nodes: int = 1 << 16  # at most
    slice_seconds: float = 0.02  # a compiled call takes about so long
    tree_share: float = 0.2  # of the memory, for levels that branch and bound can come back to
    first_probed: float = 0.9  # of the gap: how far the first level is above the incumbent
    probed: tuple[float, float] = (0.25, 0.97)  # the same of the deepest and of the highest level
    probing_turns: int = 3  # that a level has
    probing_sweeps: int = 8  # before branching
    # Elimination and MILP.
    seconds_per_entry: float = 5e-8  # one elimination of an unconstrained row, per bucket entry
    milp_entries: int = 20_000  # of all tables: HiGHS takes too long to read a larger program
    least_milp: float = 0.5  # seconds


SETTINGS = RaceSettings()
