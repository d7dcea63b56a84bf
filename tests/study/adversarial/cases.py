"""A small part of the embedded digits, and settings that take a moment."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from cmpe.formats.images import ImageSet, read_images
from study.adversarial.classifier import FEW
from study.adversarial.methods import StudyEffort
from study.adversarial.study import AttackStudy, StudyConfig

ROWS = 15


@cache
def few_digits(train: int = 400, test: int = 60) -> ImageSet:
    """The first images of each kind."""
    every = read_images("digits")
    return replace(
        every,
        train=every.train[:train],
        train_labels=every.train_labels[:train],
        test=every.test[:test],
        test_labels=every.test_labels[:test],
    )


def quick(
    out: Path, methods: tuple[str, ...], *, one_vs_all: bool = False, seed: int = 0, **effort: Any
) -> AttackStudy:
    """A study of `ROWS` images on a classifier with sixteen hidden units."""
    little: dict[str, Any] = {"epochs": 2, "few": 4, "seed": seed}
    config = StudyConfig(
        replace(FEW, hidden=(16,), one_vs_all=one_vs_all, seed=seed),
        methods,
        StudyEffort(**{**little, **effort}),
        ROWS,
    )
    return AttackStudy(few_digits(), config, out)
