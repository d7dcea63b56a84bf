"""`AmortisedSolver`: tuned messages that answer any evidence and any q about their models.

The stages after the pass are those of every trained network (`learning.staging`). A question
outside what was tuned on is answered too, with a warning.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cmpe.arrays import Assignments, Floats
from cmpe.core.schedules import Passed
from cmpe.errors import EvidenceError, MethodError
from cmpe.learning.amortised.consulting import consulted
from cmpe.learning.amortised.messages import MessagePass, schedule_of
from cmpe.learning.amortised.runs import AmortisedRun
from cmpe.learning.improvement import searches
from cmpe.learning.pipeline import Pipeline
from cmpe.learning.settings import AMORTISED
from cmpe.learning.staging import staged_answer
from cmpe.problem import Evidence, Instances, Problem
from cmpe.problem.groups import by_observed
from cmpe.problem.rows import Limits as RowLimits
from cmpe.problem.rows import Potentials, Rows
from cmpe.solution import Solutions
from cmpe.solvers.base import Limits, Running
from cmpe.solvers.dispatch import answer_rows

ROUNDING = 0.5  # of a variable: the share of observed ones is judged up to it


class QuestionWarning(UserWarning):
    """A question lies outside what the network was tuned on."""


@dataclass(frozen=True, eq=False, repr=False)
class AmortisedSolver:
    """Tuned messages and a problem with their models; q and evidence may be any."""

    problem: Problem
    run: AmortisedRun
    stages: Pipeline = field(default_factory=lambda: _stages())
    running: Running = Running()

    trained_margins: ClassVar[tuple[float, ...]] = ()  # q is an input

    @classmethod
    def load(cls, folder: Path | str, problem: Problem, *, device: str = "cpu") -> AmortisedSolver:
        """Read a run directory for a problem with the models that it was tuned on."""
        if not problem.is_log_linear:
            raise MethodError(f"{folder}: answers log-linear models of discrete variables only")
        run = AmortisedRun.read(folder)
        run.check_models(problem, str(folder))
        return cls(problem, run, running=Running(device=device))

    def save(self, folder: Path | str) -> None:
        """Write config.json and weights.safetensors."""
        self.run.write(folder)

    def __repr__(self) -> str:
        return f"AmortisedSolver(messages for {self.run.name or 'a model'}: {self.method})"

    def with_stages(self, **stages: Any) -> AmortisedSolver:
        """The same network with other stages: the fields of `Pipeline`, by name."""
        return replace(self, stages=_stages(**stages))

    @property
    def method(self) -> str:
        """The stages that run without a time limit."""
        return self.stages_run(self.problem, None)

    def stages_run(self, problem: Problem, seconds: float | None) -> str:
        """The same with a time limit."""
        often = sum(self._numbers) if self._often(seconds) else 1
        return self.stages.method(often, searches=searches(problem, self.stages, seconds))

    def stages_for(self, block: Instances) -> Pipeline:
        """The stages with as many passes of search as suit the block."""
        passes = answer_passes(block.problem, self.stages.search_passes)
        return replace(self.stages, search_passes=passes)

    def _often(self, seconds: float | None) -> bool:
        """Whether all schedules answer, and questions follow: where time does not press."""
        return seconds is None and self.stages.repair

    @property
    def _numbers(self) -> tuple[int, int]:
        """How many schedules there are, and how many questions follow: none where it was tuned
        for one mask."""
        one_mask = self.run.config.questions.observed is not None
        return len(self.run.schedules), 0 if one_mask else AMORTISED.followed

    def calibrated_margin(self) -> float:
        """None is needed: q may be any."""
        return 0.0

    def solve(
        self,
        problem: Problem,
        evidence: Evidence | None = None,
        *,
        time_limit: float | None = None,
        seed: int = 0,
        potentials: Potentials | None = None,
        limits: RowLimits | None = None,
    ) -> Solutions:
        """One answer per row; rows may observe different variables.

        The messages read each row's limits; its potentials count from repair on.
        """
        told = Limits.of(self.running, seconds=time_limit, seed=seed)
        rows = Rows.own(problem, evidence, potentials, limits)
        if rows is not None:
            return answer_rows(rows, self, told)
        found, order = [], []
        for instances, numbers in by_observed(problem, evidence):
            found.append(self.answer(instances, told))
            order.append(numbers)
        return Solutions.concatenate(found).take(np.argsort(np.concatenate(order)))

    def answer(self, instances: Instances, limits: Limits) -> Solutions:
        """One answer per row, never worse than its start; see `staged_answer`."""
        self._check(instances.problem, limits)
        return staged_answer(self, instances, limits)

    def _check(self, problem: Problem, limits: Limits) -> None:
        lift, seen, most = problem.lift, problem.evidence_variables, problem.limits
        if lift is not None:
            seen = tuple(v for v in seen if v < lift.problem.variables)
            problem, most = lift.problem, lift.most
        if not _same_functions(problem, self.problem):
            self.run.check_models(problem, "the solver")
        asked = self.run.config.questions
        if asked.observed not in (None, seen):
            raise EvidenceError("the network was trained for one set of observed variables only")
        if asked.limits is not None and not np.allclose(asked.limits, most):
            raise EvidenceError(f"the network was trained for q = {list(asked.limits)} only")
        if limits.gap > 0.0 and self.stages.certificate == "none":
            raise MethodError("a gap needs a certificate, found a trained network without one")
        if self.stages.margins is not None:
            raise MethodError("margins are for networks of one question; this one is told q")
        device = limits.device if self.running.device == "cpu" else self.running.device
        if device != "cpu":
            raise MethodError(f"a network for any question answers on cpu only, found {device!r}")

    def passes(self, block: Instances, limits: Limits) -> tuple[Assignments, Floats | None]:
        """Answers (B, n), those of all schedules mixed where time does not press, and mu (B, m)."""
        given, most, lift = block.full(), block.problem.limits, block.problem.lift
        if lift is not None:
            most = lift.most[given[:, -1]]

        def ask(given: Assignments, number: int) -> Passed:
            found = self.predict(given[:, : self.problem.variables], most, number)
            own = given[:, self.problem.variables :]  # the number of the row
            return found._replace(values=np.concatenate([found.values, own], axis=1))

        if self._often(limits.seconds):
            cores, seed = limits.cores, limits.seed
            answers, first = consulted(block, ask, self._numbers, cores, seed)
        else:
            first = ask(given, 0)
            answers = first.values
        self._warn(given, first)
        return answers, first.multipliers

    def predict(self, given: Assignments, limits: Floats, schedule: int = 0) -> Passed:
        """One pass, without repair: to evidence (B, n), -1 where free, of any masks, with q (m,) or
        (B, m)."""
        numbers = schedule_of(self.run.schedules[schedule], self.run.config.steps)
        return self._messages.answers(numbers, given, limits)

    @cached_property
    def _messages(self) -> MessagePass:
        return MessagePass.of(self.problem, self.run.config.floor)

    def relaxed_violations(self, rows: Instances) -> NDArray[np.bool_]:
        """Whether what the pass answers breaks a limit (B,); it has no relaxed output."""
        found = self.predict(rows.full(), rows.problem.limits)
        broken: NDArray[np.bool_] = ~rows.problem.is_feasible(found.values)
        return broken

    def _warn(self, given: Assignments, found: Passed) -> None:
        """Say which questions lie outside what was tuned on."""
        asked, count = self.run.config.questions, len(given)
        given = given[:, : self.problem.variables]
        if not count:
            return
        free = np.array([k > 1 for k in self.problem.objective.cardinalities])
        rate = float((given[0, free] >= 0).mean()) if free.any() else 0.0
        edge = ROUNDING / max(1, free.sum())
        near = any(asked.has_rate(rate + step) for step in (-edge, 0.0, edge))
        if asked.observed is None and not near:
            shown = ", ".join(f"{low:.0%} to {high:.0%}" for low, high in asked.rates)
            _say(f"{rate:.0%} of the variables are observed, {shown} were in training")
        if asked.limits is None:
            low, high = self.run.rooms
            odd = int(((found.rooms < low) | (found.rooms > high)).any(1).sum())
            if odd:
                _say(f"q lies outside the range of training in {odd} of {count} rows")


def answer_passes(problem: Problem, passes: int = AMORTISED.passes) -> int:
    """Passes of search for rows of a problem: as many more as fewer variables are free, because
    each then takes as much less time."""
    several = np.array(problem.objective.cardinalities) > 1
    free = int(several[list(problem.free)].sum())
    return round(passes * min(AMORTISED.most_passes, int(several.sum()) / max(1, free)))


def _stages(**given: Any) -> Pipeline:
    """The stages asked for; unless repair is named among them, answers go through passes."""
    usual = {} if "repair" in given else {"search_passes": AMORTISED.passes}
    return Pipeline(**{**usual, **given})


def _say(what: str) -> None:
    warnings.warn(f"{what}; the answers may be poorer", QuestionWarning, stacklevel=6)


def _same_functions(one: Problem, other: Problem) -> bool:
    pairs = zip(one.functions, other.functions, strict=False)
    return len(one.functions) == len(other.functions) and all(a is b for a, b in pairs)
