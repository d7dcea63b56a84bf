"""The problem, its constraints, and its instances: a problem with rows of evidence."""

from cmpe.models.constraint import FEASIBILITY_TOLERANCE, Constraint
from cmpe.problem.evidence import Evidence
from cmpe.problem.instances import Instances
from cmpe.problem.problem import Branch, Form, Problem, need_problem

__all__ = [
    "FEASIBILITY_TOLERANCE",
    "Branch",
    "Constraint",
    "Evidence",
    "Form",
    "Instances",
    "Problem",
    "need_problem",
]
