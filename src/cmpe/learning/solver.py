"""`NeuralSolver`: a trained network that answers like any other solver, with a certificate.

Stages, each of which can be switched off; `Solutions.method` names those that ran:

    network     one forward pass and rounding; with several margins one pass each, and the best
                feasible answer is kept
    repair      local search from there: repairs what violates, improves what does not
    search      large-neighbourhood search instead, where `solve` is given time or the stages
                passes for it: on wide problems a learned start saves its first passes, and a
                predicted multiplier those that look for one
    bound       D(mu) at the predicted multiplier: one elimination (`predicted`), or the least
                D(mu) (`optimal`, some ten eliminations); vertex splitting where elimination is
                too wide

The network reads the evidence of the problem it was trained for; another problem is refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from cmpe.arrays import Assignments, Floats
from cmpe.bounding import bound as wide_bound
from cmpe.bounds import Work
from cmpe.bounds.lagrangian import dual_bound, lagrangian_dual, lane_bytes
from cmpe.errors import EvidenceError, MethodError, TooLarge
from cmpe.formats.labels import problem_digest
from cmpe.learning.adversarial import Guide, Prediction, certified, flipped
from cmpe.learning.losses.functions import relaxation_of
from cmpe.learning.losses.relaxation import Relaxation
from cmpe.learning.networks.heads import Linear
from cmpe.learning.networks.networks import Inputs, Network, encode, with_margin_input
from cmpe.learning.runs import Trained, read_trained, worst_rate, write_trained
from cmpe.learning.training.data import QUICK_BYTES
from cmpe.problem import Evidence, Instances, Problem
from cmpe.queries import Flip, flip_of
from cmpe.solution import Solutions
from cmpe.solvers import solver
from cmpe.solvers.base import Limits, Running
from cmpe.solvers.local import improve
from cmpe.solvers.search import search
from cmpe.solvers.search.schedule import PASSES, Budget

CERTIFICATES = ("none", "predicted", "optimal")
ALLOWED = 0.02  # the rate of violations that the default margin may have
CHUNK = 4096  # rows of one forward pass
BOUND_SECONDS = 0.01  # a row, for the bound where elimination is too wide


@dataclass(frozen=True)
class Stages:
    """What runs after the forward pass, and which margins it is asked to keep."""

    margins: tuple[float, ...] | None = None  # None: the calibrated one
    repair: bool = True
    certificate: str = "optimal"
    search_passes: int = 0  # of every row, where no time is given
    sweeps: int = 3  # of chains and exchanges in repair; 0 is single moves only

    def __post_init__(self) -> None:
        if self.certificate not in CERTIFICATES:
            raise MethodError(
                f"a certificate is one of {', '.join(CERTIFICATES)}; found {self.certificate!r}"
            )
        if self.margins is not None and not self.margins:
            raise MethodError("margins must be None or at least one number, found none")


@dataclass(frozen=True, eq=False)
class NeuralSolver:
    """A trained network and the problem it was trained for."""

    problem: Problem
    trained: Trained
    stages: Stages = field(default_factory=Stages)
    running: Running = Running()
    device: str = "cpu"

    @classmethod
    def load(cls, folder: Path | str, problem: Problem, *, device: str = "cpu") -> NeuralSolver:
        """Read a run directory; `problem` must be the one it was trained for."""
        trained = read_trained(folder)
        _check_problem(problem, trained, str(folder))
        return cls(problem, trained, device=device)

    def save(self, folder: Path | str) -> None:
        """Write config.json and weights.safetensors."""
        write_trained(self.trained, folder)

    def with_stages(
        self,
        *,
        margins: Sequence[float] | None = None,
        repair: bool = True,
        certificate: str = "optimal",
        search_passes: int = 0,
        sweeps: int = 3,
    ) -> NeuralSolver:
        """The same network with other stages."""
        chosen = None if margins is None else tuple(float(m) for m in margins)
        return replace(self, stages=Stages(chosen, repair, certificate, search_passes, sweeps))

    def calibrated_margin(self, allowed: float = ALLOWED) -> float:
        """The margin of least regret whose rate of violations is at most `allowed` with 95 %
        confidence by the validation rows; where they are too few to show it of any margin, by
        all rows; else the largest margin of those that violated least."""
        known = [c for c in self.trained.calibration if c.regret is not None]
        if not known:
            return 0.0
        held = [c for c in known if worst_rate(c.violation, c.rows) <= allowed]
        every = [c for c in known if worst_rate(c.all_violation, c.all_rows) <= allowed]
        if held or every:
            return min(held or every, key=lambda c: (c.regret, c.margin)).margin
        return min(known, key=lambda c: (c.all_violation, c.violation, -c.margin)).margin

    def solve(
        self,
        problem: Problem,
        evidence: Evidence | None = None,
        *,
        time_limit: float | None = None,
        seed: int = 0,
    ) -> Solutions:
        """One answer per row. A time limit (seconds a row) is spent on search after the pass."""
        limits = Limits(time_limit, self.running.threads, seed)
        if problem is not self.problem:
            _check_problem(problem, self.trained, "the solver")
        instances = self.problem.given(evidence)
        begin = time.perf_counter()
        flip = flip_of(self.problem) if self.trained.config.head == "linear" else None
        multipliers: Floats | None = None
        if flip is not None:
            improved = self._kept_best(partial(self._flipped, instances, flip))
        else:
            answers, multipliers = self._passes(instances)
            improved = self._improved(instances, answers, multipliers, limits)
        bound, infeasible = self._certificate(instances, multipliers)
        spent = (time.perf_counter() - begin) / max(1, len(instances))
        return Solutions.of(
            self.problem, improved, bound=bound, infeasible=infeasible,
            method=self._method(searching=time_limit is not None), seconds=spent,
        )  # fmt: skip

    def _flipped(self, instances: Instances, flip: Flip, margin: float) -> Assignments:
        repair, threads = self.stages.repair, self.running.threads
        guide = self.guide(margin)
        return flipped(instances, flip, guide, margin, repair=repair, threads=threads)

    @property
    def method(self) -> str:
        """The stages that run without a time limit, as `Solutions.method` has them."""
        return self._method(searching=False)

    def _method(self, *, searching: bool) -> str:
        passes = len(self.stages.margins or ("calibrated",))
        parts = ["network" if passes == 1 else f"network x {passes}"]
        if self._searches(searching):
            parts.append("search")
        elif self.stages.repair:
            parts.append("repair")
        parts += [] if self.stages.certificate == "none" else [f"{self.stages.certificate} bound"]
        return " + ".join(parts)

    def _searches(self, timed: bool) -> bool:
        return (timed or self.stages.search_passes > 0) and self.problem.is_log_linear

    def _improved(
        self,
        instances: Instances,
        answers: Assignments,
        multipliers: Floats | None,
        limits: Limits,
    ) -> Assignments:
        threads = self.running.threads
        if self._searches(limits.seconds is not None):
            budget = Budget(self.stages.search_passes or PASSES, limits.seconds)
            return search(
                instances, answers, multipliers=multipliers, budget=budget, seed=limits.seed,
                threads=threads,
            )  # fmt: skip
        if not self.stages.repair:
            return answers
        if self.problem.has_tables:
            return improve(instances, answers, sweeps=self.stages.sweeps, threads=threads)
        running = Running(threads=threads, start=answers)
        return (
            solver("local", running)
            .solve(self.problem, instances.evidence, time_limit=limits.seconds, seed=limits.seed)
            .assignments
        )

    def guide(self, margin: float = 0.0) -> Guide:
        """What head `linear` predicts, from a network's sums: target classes and slopes."""
        head = self.relaxation.head
        if not isinstance(head, Linear):
            raise MethodError("only a network with head linear predicts a linearisation")

        @torch.inference_mode()
        def predict(sums: Floats, classes: NDArray[np.int64]) -> Prediction:
            known = torch.from_numpy(sums).to(self.device, torch.float32)
            read = head.read_sums(known).unsqueeze(0)
            asked = torch.full((1, len(sums)), margin, device=self.device)
            x = with_margin_input(read, asked, self.trained.config)
            said = self.network(self._parameters, Inputs(x, None), self.relaxation).logits[0]
            own = torch.from_numpy(classes).to(self.device)
            targets, slopes = head.linearization(own, said)
            return targets.cpu().numpy(), slopes.cpu().numpy()

        return predict

    def _passes(self, instances: Instances) -> tuple[Assignments, Floats | None]:
        """Rounded answers (B, n) of the best margin of each row, and mu at the first one."""
        prices: list[Floats | None] = []

        def answer(margin: float) -> Assignments:
            values, multipliers = self.predict(instances, margin)
            prices.append(multipliers)
            return values

        return self._kept_best(answer), prices[0]

    def _kept_best(self, answer: Callable[[float], Assignments]) -> Assignments:
        """Of the answers (B, n) to each margin the best feasible one of each row."""
        first, *others = self.stages.margins or (self.calibrated_margin(),)
        best = answer(first)
        if not others:
            return best
        every = (Solutions.of(self.problem, rows) for rows in (best, *map(answer, others)))
        return reduce(Solutions.or_better, every).assignments

    def predict(
        self, instances: Instances, margin: float = 0.0
    ) -> tuple[Assignments, Floats | None]:
        """One pass: rounded assignments (B, n) and the predicted multipliers (B, m)."""
        points, multipliers = self.relaxed(instances, margin)
        places = self.relaxation.coordinates
        values = places.assignments(torch.from_numpy(points))
        return instances.complete(values), multipliers

    @torch.inference_mode()
    def relaxed(
        self, instances: Instances, margin: float = 0.0
    ) -> tuple[NDArray[np.float32], Floats | None]:
        """One pass: the relaxed outputs' coordinates (B, D) and the predicted multipliers."""
        points, prices = [], []
        for start in range(0, len(instances), CHUNK):
            evidence = instances.evidence[start : start + CHUNK]
            asked = torch.full((1, len(evidence)), margin, device=self.device)
            inputs = self._inputs(evidence, asked)
            outputs = self.network(self._parameters, inputs, self.relaxation)
            relaxed = self.relaxation.head.points(inputs.rows, outputs.logits, asked)
            points.append(relaxed[0].cpu().numpy())
            if self.network.constraints == 0:
                prices.append(np.zeros((len(evidence), 0)))
            elif outputs.multipliers is not None:
                prices.append(outputs.multipliers[0].double().cpu().numpy())
        count = self.relaxation.coordinates.count
        whole = np.concatenate([np.zeros((0, count), np.float32), *points])
        return whole, np.concatenate(prices) if prices else None

    def relaxed_violations(self, instances: Instances) -> NDArray[np.bool_]:
        """Which relaxed outputs break a constraint at the calibrated margin: (B,)."""
        points, _ = self.relaxed(instances, self.calibrated_margin())
        rows = self.relaxation.rows(instances.evidence)
        places = torch.from_numpy(points).to(self.device)
        values = self.relaxation.values(rows, places)[:, 1:].double().cpu().numpy()
        over = values - self.problem.limits > self.problem.tolerances
        return np.asarray(over.any(axis=1))

    def _inputs(self, evidence: Assignments, margin: torch.Tensor) -> Inputs:
        encoded = encode(self.problem, evidence, mask=self.trained.config.mask_inputs)
        read = self.relaxation.head.inputs(encoded.to(self.device)).unsqueeze(0)
        x = with_margin_input(read, margin, self.trained.config)
        if not (self.network.steps or self.relaxation.head.reads_rows):
            return Inputs(x, None)
        rows = self.relaxation.rows(evidence)
        return Inputs(x, type(rows)(*(part.unsqueeze(0) for part in rows)))

    @cached_property
    def relaxation(self) -> Relaxation:
        """The functions at relaxed points."""
        config = self.trained.config
        return relaxation_of(self.problem, floor=config.floor, device=self.device, head=config.head)

    @cached_property
    def network(self) -> Network:
        """The network that the weights belong to."""
        none = np.zeros((0, len(self.problem.evidence_variables)), dtype=np.int32)
        config = self.trained.config
        encoded = encode(self.problem, none, mask=config.mask_inputs).to(self.device)
        width = self.relaxation.head.inputs(encoded).shape[1]
        network = Network.of(config, width, self.relaxation)
        wanted = {name: (1, *shape) for name, shape, _ in network.shapes()}
        found = {name: tuple(value.shape) for name, value in self.trained.parameters.items()}
        if wanted != found:
            raise MethodError("the weights do not fit the network of config.json")
        return network

    @cached_property
    def _parameters(self) -> dict[str, torch.Tensor]:
        return {name: value.to(self.device) for name, value in self.trained.parameters.items()}

    def _certificate(
        self, instances: Instances, multipliers: Floats | None
    ) -> tuple[Floats, NDArray[np.bool_]]:
        """(bound, proved infeasible) of every row; no bound where elimination is too wide."""
        unknown = np.full(len(instances), np.inf), np.zeros(len(instances), dtype=bool)
        kind = self.stages.certificate
        if kind == "none":
            return unknown
        if not self.problem.has_tables:
            flip = flip_of(self.problem)
            return unknown if flip is None else certified(instances, flip)
        if kind == "predicted" and multipliers is None:
            raise MethodError(
                "this network predicts no multiplier; ask for certificate 'optimal' or 'none'"
            )
        if self.problem.is_log_linear and lane_bytes(self.problem) > QUICK_BYTES:
            work = Work(time_limit=BOUND_SECONDS, threads=self.running.threads)
            split = wide_bound(instances.problem, instances.evidence, method="splitting", work=work)
            return split.upper, split.infeasible
        try:
            if kind == "predicted" and multipliers is not None:
                bound = dual_bound(instances, multipliers, threads=self.running.threads)
                return bound, unknown[1]
            dual = lagrangian_dual(instances, threads=self.running.threads)
        except TooLarge:
            return unknown
        return dual.bound, dual.infeasible


def _check_problem(problem: Problem, trained: Trained, who: str) -> None:
    if problem_digest(problem) == trained.digest:
        return
    about = f" ({trained.name})" if trained.name else ""
    raise EvidenceError(
        f"{who}: trained for another problem{about}: its models, limits and evidence variables "
        f"have sha256 {trained.digest[:12]}..., found {problem_digest(problem)[:12]}..."
    )
