"""`NeuralSolver`: a trained network that answers like any other solver, with a certificate.

Stages, each of which can be switched off; `Solutions.method` names those that ran:

    network     one forward pass and rounding; with several margins one pass each, and the best
                feasible answer is kept
    bound       one of `certificates.CERTIFICATES`
    repair      local search from there: repairs what violates, improves what does not
    search      large-neighbourhood search instead, where there is a time limit or the stages have
                passes for it: on wide problems a learned start saves its first passes, and a
                predicted multiplier those that look for one

The network reads the evidence of the problem it was trained for; another problem is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import nn

from cmpe.arrays import Assignments, Floats
from cmpe.display import html_table
from cmpe.errors import EvidenceError, MethodError
from cmpe.formats.labels import problem_digest
from cmpe.learning.improvement import searches
from cmpe.learning.pipeline import Pipeline
from cmpe.learning.prediction import Predictor
from cmpe.learning.runs import Trained, read_trained, write_trained
from cmpe.learning.staging import best_of, staged_answer
from cmpe.problem import Evidence, Instances, Problem
from cmpe.problem.rows import Limits as RowLimits
from cmpe.problem.rows import Potentials, Rows
from cmpe.solution import Solutions
from cmpe.solvers.base import Limits, Running
from cmpe.solvers.dispatch import answer_rows


@dataclass(frozen=True, eq=False, repr=False)
class NeuralSolver:
    """A trained network and the problem it was trained for."""

    problem: Problem
    trained: Trained
    stages: Pipeline = field(default_factory=Pipeline)
    running: Running = Running()  # how `solve` runs; `answer` is told by its limits
    _predictors: dict[str, Predictor] = field(default_factory=dict, init=False)

    @classmethod
    def load(
        cls,
        folder: Path | str,
        problem: Problem,
        *,
        device: str = "cpu",
        network: nn.Module | str | None = None,
    ) -> NeuralSolver:
        """Read a run directory; `problem` must be the one it was trained for.

        `network` is needed where a module of yours was trained that the run cannot make again.
        """
        trained = read_trained(folder, problem, network)
        _check_problem(problem, trained, str(folder))
        return cls(problem, trained, running=Running(device=device))

    def save(self, folder: Path | str) -> None:
        """Write config.json and weights.safetensors."""
        write_trained(self.trained, folder)

    def export(self, path: Path | str) -> None:
        """Write the network as a program that needs torch alone (docs/learning.md#export)."""
        from cmpe.learning.export import export  # torch.export is slow to import

        export(self._predictor("cpu"), path)

    def __repr__(self) -> str:
        config, name = self.trained.config, self.trained.name or "a problem"
        return f"NeuralSolver(mlp trained with {config.loss} for {name}: {self.method})"

    def _repr_html_(self) -> str:
        config, trained = self.trained.config, self.trained
        rows = {
            "problem": trained.name or repr(self.problem),
            "network": f"mlp, {sum(p.numel() for p in trained.parameters.values())} parameters",
            "loss": config.loss,
            "epochs": f"{trained.epochs}{'' if trained.finished else ', unfinished'}",
            "stages": self.method,
        }
        return html_table("NeuralSolver", ("what", "value"), rows.items())

    def with_stages(self, **stages: Any) -> NeuralSolver:
        """The same network with other stages: the fields of `Pipeline`, by name."""
        other = replace(self, stages=Pipeline(**stages))
        other._predictors.update(self._predictors)  # the network is the same
        return other

    @property
    def method(self) -> str:
        """The stages that run without a time limit, as `Solutions.method` has them."""
        return self.stages_run(self.problem, None)

    def stages_run(self, problem: Problem, seconds: float | None) -> str:
        """The same with a time limit."""
        passes = len(self.trained.asked_margins)
        return self.stages.method(passes, searches=searches(problem, self.stages, seconds))

    @property
    def predictor(self) -> Predictor:
        """The network on the device that the solver was loaded for."""
        return self._predictor(self.running.device)

    def _predictor(self, device: str) -> Predictor:
        if device not in self._predictors:
            self._predictors[device] = Predictor(self.problem, self.trained, device)
        return self._predictors[device]

    def calibrated_margin(self, allowed: float | None = None) -> float:
        """The margin that calibration chose; see `Trained.calibrated_margin`."""
        return self.trained.calibrated_margin(allowed)

    def solve(
        self,
        problem: Problem,
        evidence: Evidence | None = None,
        *,
        time_limit: float | None = None,
        seed: int = 0,
        inputs: ArrayLike | None = None,
        potentials: Potentials | None = None,
        limits: RowLimits | None = None,
    ) -> Solutions:
        """One answer per row. A time limit (seconds a row) is spent on search after the pass.

        Answers are judged, bounded and improved with the rows' own `potentials` and `limits`, as in
        `cmpe.solve`; the network reads those that it was trained with.
        """
        if problem is not self.problem:
            _check_problem(problem, self.trained, "the solver")
        told = Limits.of(self.running, seconds=time_limit, seed=seed)
        rows = Rows.own(self.problem, evidence, potentials, limits, inputs=inputs)
        if rows is None:
            return self.answer(self.problem.given(evidence), told)
        return answer_rows(rows, self, told)

    def predict(
        self,
        rows: Evidence | None,
        *,
        time_limit: float | None = None,
        inputs: ArrayLike | None = None,
        potentials: Potentials | None = None,
        limits: RowLimits | None = None,
    ) -> Solutions:
        """One answer per row of evidence about the problem it was trained for.

        `inputs` (B, ...) are what the network reads, where it was trained on inputs.
        """
        return self.solve(
            self.problem, rows, time_limit=time_limit, inputs=inputs, potentials=potentials,
            limits=limits,
        )  # fmt: skip

    def answer(self, instances: Instances, limits: Limits) -> Solutions:
        """One answer per row, never worse than its start.

        The network runs on the device of `limits`, or where that is the CPU on the one it
        was loaded for; the stages after it use workers x threads cores. Rows whose certified gap
        is within `limits.gap` after the pass are not worked on further.
        """
        self._check(limits)
        return staged_answer(self, self._asked(instances), limits)

    def _asked(self, instances: Instances) -> Instances:
        """The rows of the problem it was trained for; with their own numbers, of a lifted one."""
        problem, lift, shape = instances.problem, instances.problem.lift, self.trained.inputs
        read = () if lift is None or lift.inputs is None else lift.inputs.shape[1:]
        if read != shape:
            wanted, found = (", ".join(map(str, each)) or "none" for each in (shape, read))
            raise EvidenceError(
                f"inputs must have the shape that the network was trained on, {wanted} for each "
                f"row; found {found}"
            )
        if lift is None:
            if problem is not self.problem:
                _check_problem(problem, self.trained, "the solver")
            return Instances(self.problem, instances.evidence)
        number = problem.variables - 1
        seen = [v for v in problem.evidence_variables if v != number]
        if set(seen) == set(self.problem.evidence_variables):
            seen = list(self.problem.evidence_variables)
        _check_problem(lift.problem.observing(seen), self.trained, "the solver")
        observed = [*seen, number]
        return Instances(problem.observing(observed), instances.full()[:, observed])

    def _check(self, limits: Limits) -> None:
        if limits.gap > 0.0 and self.stages.certificate == "none":
            raise MethodError("a gap needs a certificate, found a trained network without one")

    @property
    def trained_margins(self) -> tuple[float, ...]:
        """The margins that the network was trained for."""
        return self.trained.config.margins

    def relaxed_violations(self, rows: Instances) -> NDArray[np.bool_]:
        """Whether the relaxed output breaks a limit (B,), as scored by the paper's code."""
        return self.predictor.relaxed_violations(rows, self.calibrated_margin())

    def stages_for(self, block: Instances) -> Pipeline:
        """The same stages for any rows."""
        return self.stages

    def passes(self, block: Instances, limits: Limits) -> tuple[Assignments, Floats | None]:
        """The best answer (B, n) to any of the margins, and mu at the first one."""
        device = self.running.device if limits.device == "cpu" else limits.device
        predictor = self._predictor(device)
        if block.problem is not self.problem:
            shared = predictor.relaxation if block.problem.is_log_linear else None
            predictor = Predictor(block.problem, self.trained, device, shared)
        asked = self.stages.margins or self.trained.asked_margins
        said = [predictor.predict(block, margin) for margin in asked]
        return best_of(block.problem, [answers for answers, _ in said]), said[0][1]


def _check_problem(problem: Problem, trained: Trained, who: str) -> None:
    if problem_digest(problem) == trained.digest:
        return
    about = f" ({trained.name})" if trained.name else ""
    raise EvidenceError(
        f"{who}: trained for another problem{about}: its models, limits and evidence variables "
        f"have sha256 {trained.digest[:12]}..., found {problem_digest(problem)[:12]}..."
    )
