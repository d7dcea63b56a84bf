"""Settings of bounds."""

from __future__ import annotations

from typing import NamedTuple


class BoundSettings(NamedTuple):
    """What tunes bounds.

    They were chosen by hand on the paper's models, except where a comment names a measurement.
    `benchmarks.wide_bounds` and the `bounds` cells of `benchmarks.checkouts` measure what a change
    does. No setting may make a bound invalid.
    """

    # Calls: rows of one call are fixed, so that results do not depend on the number of threads.
    chunk: int = 64  # rows
    compiled_chunk: int = 512  # rows of one compiled call, for which Ctrl-C waits,
    chunk_bytes: int = 1 << 28  # and bytes of its lanes, one block after the other
    clock_checked: int = 16  # steps on a device between two readings of the clock
    # Elimination. A block pays for index arithmetic once: the dual of 16 x 16 grids with 5-15 %
    # evidence takes 0.4-0.5 of the time with 16 lanes that it takes with 4.
    working_set: int = 1 << 22  # bytes of the lanes of one block, but
    least_lanes: int = 16  # a block has so many lanes where the memory allows
    cheap_bytes: int = 1 << 24  # of a lane up to which elimination is the first choice for a bound
    # Knapsacks.
    message_share: float = 0.7  # of the time; branching has the rest
    knapsack_nodes: int = 64  # of one knapsack
    # Mini-buckets.
    planned: int = 3000  # variables above which no order of small width is searched for
    plain_steps: int = 20  # first steps that move the constraints' multipliers alone
    # Relaxations by copies.
    places: int = 1 << 27  # of 4 bytes each, and 8 while they are made
    bucket_entries: int = 1 << 25  # of all buckets together: some hundred MiB
    small: int = 8  # inputs whose sum is so many times smaller than a bucket are added beforehand
    mu_weight: float = 1e-3  # of a step of the limits' multipliers, against one of the copies'
    # Splitting into strips of levels, or at leaves.
    distances: tuple[int, ...] = (4, 6, 8, 10, 12)  # levels between two cuts
    extra: int = 2  # a strip of w levels may be so much wider than w before its buckets are split
    widths: tuple[int, ...] = (4, 8)  # of splits at leaves
    seconds_per_place: float = 6e-10  # of a step: it reads one number of the index
    tries: int = 10  # level structures, of which that with the fewest copies is taken;
    large: int = 10_000  # graphs with more than a tenth of so many variables get fewer tries
    enough_steps: int = 60  # a wider split is worth its time only if so many steps remain
    # Products with constraints (RLT).
    factors: int = 10  # of a monomial: it has 2^10 products
    products: int = 4000  # with constraints: beyond so many, constraints stay alone
    # Networks.
    slopes: int = 2_000_000  # that are in memory at a time
    radii: int = 6  # that are tried,
    first_radius: float = 4.0  # the first of them
    leading: int = 96  # moves that a knapsack is first tried with


SETTINGS = BoundSettings()
