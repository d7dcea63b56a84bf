"""Answers with their certificates."""

from cmpe.solution.rows import ConstraintValue, Row
from cmpe.solution.solutions import OPTIMALITY_TOLERANCE, Solutions
from cmpe.solution.status import Status

__all__ = ["OPTIMALITY_TOLERANCE", "ConstraintValue", "Row", "Solutions", "Status"]
