"""Settings of learning: networks for any question, training, and the repair of answers."""

from __future__ import annotations

from typing import NamedTuple


class AmortisedSettings(NamedTuple):
    """What tunes networks for any question.

    They were chosen on validation rows of Grids_17, Segmentation_14 and a grid of 50 x 50;
    `benchmarks.amortised` measures what a change does.
    """

    # Tuning.
    first_size: float = 0.3  # of changes of a schedule's numbers
    first_lean: float = 2.0  # the other numbers begin with 0
    blocks: int = 4  # masks of a generation
    held: int = 8  # masks that candidates are compared on
    looks: int = 20  # comparisons of a run
    schedules: int = 8  # that are kept: the tuned one and some drawn around it,
    wider: float = 4.0  # so many times as far away as candidates are
    lost: float = 10.0  # mean spreads that an answer loses where repair finds nothing feasible
    blocked: float = 0.5  # share of masks that hang together
    rounds: int = 20  # of messages to the two assignments
    # Schedules whose numbers are all 0.
    hot: float = 0.5  # temperature of the first round
    cold: float = 0.1  # and of the last one
    damping: float = -1.0  # its logit
    price: float = -2.0  # the first multiplier, before softplus
    # Answers.
    followed: int = 8  # questions that follow from an answer
    kept: float = 0.25  # share of the variables that keep their values in each of them
    passes: int = 24  # of search where nothing is observed: no dearer than repair with pairs
    most_passes: int = 20  # times as many where few variables are free


AMORTISED = AmortisedSettings()


class TrainingSettings(NamedTuple):
    """What tunes training and the answers of networks beyond `TrainingConfig`.

    They were chosen on validation rows of the paper's models; `benchmarks.learned` and
    `benchmarks.seeds` measure what a change does.
    """

    # The recipe `tuned`.
    quick_bytes: int = 1 << 20  # of a row's elimination; with more, thousands of rows take minutes
    # Margins that are tried, and those of the recipe `stable`.
    margins: tuple[float, ...] = (0.0, 1.0, 2.0, 4.0, 6.0, 8.0, 12.0, 16.0, 20.0, 24.0, 32.0)
    stable_margins: tuple[float, ...] = (0.0, 2.0, 4.0, 8.0)
    wider: int = 8  # units of the first hidden layer for each variable,
    widest: int = 2048  # at most so many; the second has half of it
    drawn: int = 200  # rows for each variable,
    most_drawn: int = 40_000  # at most so many
    drawn_validation: int = 2000  # rows given that validate where rows are drawn to train on
    label_rows: int = 8192  # that are labelled and kept at a time
    # Where elimination is too wide, the mu of a split dual stands for mu*.
    split_steps: int = 100  # of its descent
    split_seconds: float = 0.02  # for choosing the split
    # Outputs are called flat after `flat_epochs` where a share of `flat_saturated` of them has
    # hardly any gradient left, and they vary by less than `flat_spread` times what labels vary by
    # (without labels, by less than `flat_deviation`), or there are fewer different answers than
    # `flat_distinct` times the different optima.
    flat_epochs: int = 5
    flat_saturated: float = 0.5
    flat_spread: float = 0.01
    flat_deviation: float = 1e-3
    flat_distinct: float = 0.02
    saturated: float = 1e-3  # an output this close to 0 or 1 hardly has a gradient
    measure_every: int = 8  # steps from one that measures to the next
    scale_rows: int = 1000  # whose mean field gives the scale of a problem
    # Choosing. A violated answer counts as one that is off by so many times the mean f*.
    violation_price: float = 1.0  # while training: no answer at all
    choice_price: float = 10.0  # for settings and margins: 1 % of the rows are worth a tenth of f*
    calibrated: int = 33  # margins up to the largest trained one
    telling: float = 0.01  # share of the score that a further pass must save
    calibration_rows: int = 2000  # validation rows that show a rate of violations well enough
    # Head `residual`.
    still: float = 0.5  # a logit within it moves nothing
    # Sizes of calls, and times.
    dense_coordinates: int = 2048  # up to which the quadratic form is a dense matrix
    dense_coefficients: int = 1 << 24  # up to which their matrix is dense
    relaxed_rows: int = 1024  # of one call
    read_rows: int = 1024  # that are read together
    pass_rows: int = 4096  # of one forward pass, at most
    searched_together: int = 16  # rows that one core searches side by side
    least_search: float = 1e-3  # seconds of a row's search after stages that took all its time
    bound_seconds: float = 0.01  # of each row, for the bound of wide problems
    priced_rows: int = 256  # that the network answers to measure its time,
    compared_rows: int = 4  # and that other methods answer
    compared_seconds: float = 0.25  # a row that another method may take there


TRAINING = TrainingSettings()
