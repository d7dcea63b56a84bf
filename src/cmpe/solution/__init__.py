"""Answers with their certificates."""

from cmpe.solution.solutions import OPTIMALITY_TOLERANCE, Solutions, Status

__all__ = ["OPTIMALITY_TOLERANCE", "Solutions", "Status"]
