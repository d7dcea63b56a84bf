"""From a predicted linearisation to an adversarial answer, and its certificate."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Assignments, Floats
from cmpe.bounds.networks.margins import distance_lower_bound
from cmpe.problem import Instances
from cmpe.queries import Flip
from cmpe.solvers.flips import assignments, images_of
from cmpe.solvers.flips.attack import AttackSettings, AttackStages, Guide, attack, guided_attack

__all__ = ["Guide", "Prediction", "certified", "flipped"]

Prediction = tuple[NDArray[np.int64], NDArray[np.float32]]  # targets, slopes
REFINEMENTS = 2  # linearisations after the predicted one


def flipped(
    instances: Instances,
    flip: Flip,
    guide: Guide,
    margin: float,
    *,
    repair: bool,
    threads: int = 1,
) -> Assignments:
    """The predicted linearisation solved, asking for `margin` more than the problem does.

    With repair the network is followed on the way there, linearised again twice, and what still
    misses is attacked from scratch.
    """
    images = images_of(instances, flip)
    stages = (
        AttackStages("walk", REFINEMENTS, flip.margin)
        if repair
        else AttackStages("step", 0, flip.margin, safety=margin)
    )
    found = guided_attack(flip.network, images, guide, config=stages, threads=threads)
    changed, missed = found.images.copy(), np.flatnonzero(~found.found)
    if repair and len(missed):
        changed[missed] = attack(
            flip.network, images[missed], config=AttackSettings(margin=flip.margin), threads=threads
        ).images
    return assignments(instances, flip, changed)


def certified(instances: Instances, flip: Flip) -> tuple[Floats, NDArray[np.bool_]]:
    """(bound, proved infeasible) of every row, by linear relaxation of the network."""
    distance = distance_lower_bound(flip.network, images_of(instances, flip), margin=flip.margin)
    return -distance, np.isposinf(distance)
