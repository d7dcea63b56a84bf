"""From a predicted linearisation to adversarial answers: what follows a pass of head `linear`.

Without repair the linear problem is solved in closed form towards each predicted class, and the
shorter answer is taken without looking at the classifier; it may miss, so it asks for a margin.
With repair the classifier is followed exactly on the way, linearised again, and what still misses
is attacked from scratch.
"""

from __future__ import annotations

import numpy as np

from cmpe.arrays import Assignments
from cmpe.flip import flip_of
from cmpe.learning.pipeline import Pipeline
from cmpe.learning.prediction import Predictor
from cmpe.problem import Instances
from cmpe.solvers.flips import assignments, images_of
from cmpe.solvers.flips.attack import AttackSettings, AttackStages, attack, guided_attack


def flipped(
    instances: Instances, predictor: Predictor, margin: float, pipeline: Pipeline, cores: int
) -> Assignments:
    """Answers (B, n) to an adversarial problem, by a network that is asked to keep `margin`."""
    flip = flip_of(instances.problem)
    assert flip is not None, "head linear is trained for adversarial problems only"
    images, guide = images_of(instances, flip), predictor.guide(margin)
    follow = (
        AttackStages("walk", pipeline.sweeps, flip.margin, levels=pipeline.levels)
        if pipeline.repair
        else AttackStages("step", 0, flip.margin, safety=margin, levels=pipeline.levels)
    )
    found = guided_attack(flip.network, images, guide, config=follow, threads=cores)
    changed, missed = found.images.copy(), np.flatnonzero(~found.found)
    if pipeline.repair and len(missed):
        again = AttackSettings(margin=flip.margin, levels=pipeline.levels)
        changed[missed] = attack(flip.network, images[missed], config=again, threads=cores).images
    return assignments(instances, flip, changed)
