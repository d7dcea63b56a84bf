"""Answers against reference answers, and the constant answers that any learned ones must beat."""

from cmpe.evaluation.constant import Constant, chosen, constants
from cmpe.evaluation.metrics import (
    Evaluation,
    Metrics,
    Reference,
    Spread,
    evaluate,
    overlap,
    reference,
)

__all__ = [
    "Constant",
    "Evaluation",
    "Metrics",
    "Reference",
    "Spread",
    "chosen",
    "constants",
    "evaluate",
    "overlap",
    "reference",
]
