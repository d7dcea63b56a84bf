"""Answers with their certificates."""

from cmpe.solution.rows import Answer, ConstraintValue
from cmpe.solution.solutions import OPTIMALITY_TOLERANCE, Solutions
from cmpe.solution.status import Status

__all__ = ["OPTIMALITY_TOLERANCE", "Answer", "ConstraintValue", "Solutions", "Status"]
