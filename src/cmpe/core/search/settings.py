"""Settings of `search`."""

from __future__ import annotations

from typing import NamedTuple


class SearchSettings(NamedTuple):
    """What tunes `search`.

    Pool and schedule were chosen by `benchmarks.wide`: the mean regret on its training rows after
    1, 10, 100 and 1,000 ms a row. Run it before and after a change.
    """

    # The schedule of passes.
    passes: int = 500  # where neither passes nor time are given
    quick: int = 8  # passes of the first kind of member, which look for multipliers
    global_start: float = 0.15  # share of the budget that begins with large members
    global_passes: int = 20  # and passes at least
    global_share: float = 0.2  # share of large members afterwards
    heat: float = 0.7  # noise, in units of how rough a row's tables are; falls to 0
    cold: float = 0.9  # share of the budget after which there is no noise
    calm: int = 10  # passes before any noise
    call: int = 64  # passes of one compiled call, at most
    calls: int = 8  # compiled calls of a timed run, about
    pass_guess: float = 0.2  # a pass, in units of the time to load rows, until some are timed
    # The multipliers, in units of spread(h) / spread(t).
    multiplier: float = 0.5  # the first multiplier
    step: float = 0.25  # and the first step
    known_step: float = 0.02  # the first step where multipliers are given
    longest_step: float = 1.0  # of members of all variables
    shortest_step: float = 0.02  # of members of few variables
    longer: float = 1.1  # what a step is multiplied by when the sign stays
    shorter: float = 0.6  # when the sign changes
    doubled: float = 2.0  # when the sign has never changed
    # Repair and polish.
    near: float = 5.0  # violations worth a repair, in mean spreads of a table
    promise: float = 1e-3  # nats above the best that make a lane worth polishing
    rest: int = 20  # bucket entries, per table entry, between two polishes of a lane
    tries: int = 32  # rises of h that an exchange tries
    repairs: int = 50  # steps of a repair on the way
    sweeps: int = 3  # of the last polish
    large: int = 4096  # slots from which on the last polish makes single moves only
    kicks: int = 20  # random moves of the last polish where time abounds
    passes_per_kick: int = 25  # and where passes are counted
    polish: float = 5.0  # the last polish, in units of the time to load rows
    most_polish: float = 0.35  # share of the budget above which there is none
    least_polish: float = 0.02  # share of the budget up to which time abounds
    # Starts by messages.
    rounds: int = 20
    least_rounds: int = 6
    rounds_share: float = 0.2  # of the time of a block, for more rounds than the least
    warm: float = 0.3  # temperature of the first round
    cool: float = 0.1  # and of the last one
    damping: float = 0.1  # share of the old message
    message_step: float = 0.2  # the longest step of a multiplier between rounds
    # The pool of members.
    pool_share: float = 0.4  # of the time of all rows
    pool_call: float = 0.1  # of what the whole call has left, if that is more
    # Members and tables.
    hub: int = 256  # neighbours: a vertex with more is frozen, which keeps lists short
    roughness_stride: int = 7  # roughness is estimated from every so many-th table entry
    steep: float = 1e3  # nats: larger steps lead to forbidden entries
    # Estimates of how long messages take.
    message_seconds: float = 2.5e-8  # an entry of a table for one of its variables, 16 rows
    cheap_messages: int = 100  # entries a free variable: with fewer, messages cost less than moves
    pools: int = 8  # pools of members that are kept, of the structures used last


SETTINGS = SearchSettings()
