"""`RaceSettings`: every number that decides who does what when on a wide row."""

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


SETTINGS = RaceSettings()
