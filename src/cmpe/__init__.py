"""Constrained most probable explanation in graphical models: fast, batched, certified.

    import cmpe
    h, t = cmpe.read_model("objective.uai"), cmpe.read_model("constraint.uai")
    problem = cmpe.Problem(h, [cmpe.Constraint(t, at_most=12.5)])
    answer = cmpe.solve(problem, {0: 1, 7: 0})

Names are loaded when they are first used, so that `import cmpe` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cmpe import queries
    from cmpe.bounding import BOUNDS, bound
    from cmpe.bounds.base import Bounds, Work
    from cmpe.certificates.certificate import Certificate, certify
    from cmpe.domain import Domain
    from cmpe.errors import CmpeError, Interrupted
    from cmpe.estimator import Explainer
    from cmpe.evaluation import evaluate, reference
    from cmpe.examples import example
    from cmpe.formats.cnf import read_rules
    from cmpe.formats.directory import ProblemDirectory, read_directory, write_directory
    from cmpe.formats.evidence import read_evidence
    from cmpe.formats.network import read_network, write_network
    from cmpe.formats.problems import read_problem
    from cmpe.formats.registry import read_model, write_model
    from cmpe.formats.results import read_solutions
    from cmpe.formats.uai import read_uai, write_uai
    from cmpe.generation import Recipe, generate
    from cmpe.learning.solver import NeuralSolver
    from cmpe.learning.training.config import TrainingConfig, preset
    from cmpe.learning.training.fitting import Session, fit
    from cmpe.learning.training.stacking import cross_validate
    from cmpe.models.constraint import Constraint, between
    from cmpe.models.distance import Distance
    from cmpe.models.dynamic import unroll
    from cmpe.models.linear import Costs, count, linear
    from cmpe.models.loglinear import Factor, LogLinearModel
    from cmpe.models.neural import ClassMargin, NeuralFunction
    from cmpe.models.polynomial import MultilinearPolynomial
    from cmpe.models.relu import ReluNetwork
    from cmpe.models.rules import (
        Rule,
        all_different,
        allowed,
        at_least_one,
        at_most_one,
        equal,
        exactly_one,
        implies,
        parity,
    )
    from cmpe.models.tractable.chow_liu import ChowLiuTree, learn_chow_liu
    from cmpe.models.tractable.cutset import CutsetNetwork
    from cmpe.models.tractable.learning import CutsetSettings, learn_cutset
    from cmpe.problem import Instances, Problem
    from cmpe.solution import Answer, Solutions, Status
    from cmpe.solvers import METHODS
    from cmpe.solvers.base import Engine, Limits, Method, Running, Solver
    from cmpe.solving import solve, solve_stream
    from cmpe.tradeoffs.best import Ranked, best
    from cmpe.tradeoffs.conflict import Conflict, conflict
    from cmpe.tradeoffs.front import Front, front
    from cmpe.tradeoffs.probability import Probability, probability, sample
    from cmpe.tradeoffs.relaxing import Relaxed, relax
    from cmpe.tradeoffs.sensitivity import Sensitivity, sensitivity

_HOMES = {
    "cmpe.bounding": ("BOUNDS", "bound"),
    "cmpe.bounds.base": ("Bounds", "Work"),
    "cmpe.certificates.certificate": ("Certificate", "certify"),
    "cmpe.domain": ("Domain",),
    "cmpe.errors": ("CmpeError", "Interrupted"),
    "cmpe.estimator": ("Explainer",),
    "cmpe.evaluation": ("evaluate", "reference"),
    "cmpe.examples": ("example",),
    "cmpe.formats.cnf": ("read_rules",),
    "cmpe.formats.directory": ("ProblemDirectory", "read_directory", "write_directory"),
    "cmpe.formats.evidence": ("read_evidence",),
    "cmpe.formats.network": ("read_network", "write_network"),
    "cmpe.formats.problems": ("read_problem",),
    "cmpe.formats.registry": ("read_model", "write_model"),
    "cmpe.formats.results": ("read_solutions",),
    "cmpe.formats.uai": ("read_uai", "write_uai"),
    "cmpe.generation": ("Recipe", "generate"),
    "cmpe.models.tractable.chow_liu": ("ChowLiuTree", "learn_chow_liu"),
    "cmpe.models.tractable.cutset": ("CutsetNetwork",),
    "cmpe.models.tractable.learning": ("CutsetSettings", "learn_cutset"),
    "cmpe.learning.training.config": ("TrainingConfig", "preset"),
    "cmpe.learning.training.fitting": ("Session", "fit"),
    "cmpe.learning.solver": ("NeuralSolver",),
    "cmpe.learning.training.stacking": ("cross_validate",),
    "cmpe.models.constraint": ("Constraint", "between"),
    "cmpe.models.distance": ("Distance",),
    "cmpe.models.dynamic": ("unroll",),
    "cmpe.models.linear": ("Costs", "count", "linear"),
    "cmpe.models.loglinear": ("Factor", "LogLinearModel"),
    "cmpe.models.neural": ("ClassMargin", "NeuralFunction"),
    "cmpe.models.polynomial": ("MultilinearPolynomial",),
    "cmpe.models.relu": ("ReluNetwork",),
    "cmpe.models.rules": (
        "Rule",
        "all_different",
        "allowed",
        "at_least_one",
        "at_most_one",
        "equal",
        "exactly_one",
        "implies",
        "parity",
    ),
    "cmpe.problem": ("Instances", "Problem"),
    "cmpe.solution": ("Answer", "Solutions", "Status"),
    "cmpe.solvers": ("METHODS",),
    "cmpe.solvers.base": ("Engine", "Limits", "Method", "Running", "Solver"),
    "cmpe.solving": ("solve", "solve_stream"),
    "cmpe.tradeoffs.best": ("Ranked", "best"),
    "cmpe.tradeoffs.front": ("Front", "front"),
    "cmpe.tradeoffs.probability": ("Probability", "probability", "sample"),
    "cmpe.tradeoffs.conflict": ("Conflict", "conflict"),
    "cmpe.tradeoffs.relaxing": ("Relaxed", "relax"),
    "cmpe.tradeoffs.sensitivity": ("Sensitivity", "sensitivity"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "BOUNDS",
    "METHODS",
    "Answer",
    "Bounds",
    "Certificate",
    "ChowLiuTree",
    "ClassMargin",
    "CmpeError",
    "Conflict",
    "Constraint",
    "Costs",
    "CutsetNetwork",
    "CutsetSettings",
    "Distance",
    "Domain",
    "Engine",
    "Explainer",
    "Factor",
    "Front",
    "Instances",
    "Interrupted",
    "Limits",
    "LogLinearModel",
    "Method",
    "MultilinearPolynomial",
    "NeuralFunction",
    "NeuralSolver",
    "Probability",
    "Problem",
    "ProblemDirectory",
    "Ranked",
    "Recipe",
    "Relaxed",
    "ReluNetwork",
    "Rule",
    "Running",
    "Sensitivity",
    "Session",
    "Solutions",
    "Solver",
    "Status",
    "TrainingConfig",
    "Work",
    "all_different",
    "allowed",
    "at_least_one",
    "at_most_one",
    "best",
    "between",
    "bound",
    "certify",
    "conflict",
    "count",
    "cross_validate",
    "equal",
    "evaluate",
    "exactly_one",
    "example",
    "fit",
    "front",
    "generate",
    "implies",
    "learn_chow_liu",
    "learn_cutset",
    "linear",
    "parity",
    "preset",
    "probability",
    "queries",
    "read_directory",
    "read_evidence",
    "read_model",
    "read_network",
    "read_problem",
    "read_rules",
    "read_solutions",
    "read_uai",
    "reference",
    "relax",
    "sample",
    "sensitivity",
    "solve",
    "solve_stream",
    "unroll",
    "write_directory",
    "write_model",
    "write_network",
    "write_uai",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("cmpe")
    if name == "queries":
        return import_module("cmpe.queries")
    if name == "torch":  # not in __all__: `from cmpe import *` would hide the package of that name
        try:
            return import_module("cmpe.torch")
        except ModuleNotFoundError as error:
            raise import_module("cmpe.errors").MissingExtra.behind(error) from None
    if name in _HOME:
        try:
            return getattr(import_module(_HOME[name]), name)
        except ModuleNotFoundError as error:
            raise import_module("cmpe.errors").MissingExtra.behind(error) from None
    raise AttributeError(f"module 'cmpe' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
