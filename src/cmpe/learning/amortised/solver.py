"""`AmortisedSolver`: one trained network that answers any evidence and any q about its models.

The stages after the pass are those of every trained network (`learning.staging`). A question
outside what was trained on is answered too, with a warning.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cmpe.arrays import Assignments, Floats
from cmpe.errors import EvidenceError, MethodError
from cmpe.learning.amortised.annealing import WARM, Annealer
from cmpe.learning.amortised.compiled import CompiledMessages
from cmpe.learning.amortised.consulting import ASKED, FOLLOWED, Panel
from cmpe.learning.amortised.networks import MessageNetwork, Said, network_of
from cmpe.learning.amortised.questions import depths
from cmpe.learning.amortised.runs import AmortisedRun
from cmpe.learning.amortised.tables import ModelTables
from cmpe.learning.improvement import searches
from cmpe.learning.pipeline import Pipeline
from cmpe.learning.prediction import PASS_ROWS
from cmpe.learning.staging import best_of, staged_answer
from cmpe.problem import Evidence, Instances, Problem
from cmpe.problem.groups import by_observed
from cmpe.solution import Solutions
from cmpe.solvers.base import Limits, Running

MANY = 1 << 18  # rows from which compiling for the GPU pays
ANSWER_PASSES = 24  # of search where nothing is observed: no dearer than repair with pairs
MOST_PASSES = 20  # times as many where few variables are free
ROUNDING = 0.5  # of a variable: the share of observed ones is judged up to it


class QuestionWarning(UserWarning):
    """A question lies outside what the network was trained on."""


@dataclass(frozen=True, eq=False, repr=False)
class AmortisedSolver:
    """A trained network and a problem with its models; q and evidence may be any."""

    problem: Problem
    run: AmortisedRun
    stages: Pipeline = field(default_factory=lambda: _stages())
    running: Running = Running()
    _on: dict[str, tuple[ModelTables, list[nn.Module]]] = field(default_factory=dict, init=False)
    _fast: list[CompiledMessages] = field(default_factory=list, init=False)

    @classmethod
    def load(cls, folder: Path | str, problem: Problem, *, device: str = "cpu") -> AmortisedSolver:
        """Read a run directory for a problem with the models that it was trained on."""
        if not problem.is_log_linear:
            raise MethodError(f"{folder}: answers log-linear models of discrete variables only")
        run = AmortisedRun.read(folder)
        run.check_models(problem, str(folder))
        return cls(problem, run, running=Running(device=device))

    def save(self, folder: Path | str) -> None:
        """Write config.json and weights.safetensors."""
        self.run.write(folder)

    def __repr__(self) -> str:
        about = self.run.name or "any model of its kind" if not self.run.digest else self.run.name
        return f"AmortisedSolver({self.run.config.network} for {about or 'a model'}: {self.method})"

    def with_stages(self, **stages: Any) -> AmortisedSolver:
        """The same network with other stages: the fields of `Pipeline`, by name."""
        other = replace(self, stages=_stages(**stages))
        other._on.update(self._on)
        other._fast.extend(self._fast)
        return other

    @property
    def method(self) -> str:
        """The stages that run without a time limit."""
        return self.stages_run(self.problem, None)

    def stages_run(self, problem: Problem, seconds: float | None) -> str:
        """The same with a time limit."""
        often = 1
        if self._often(seconds):
            often = min(ASKED, self.schedules) + self.followed
        return self.stages.method(often, searches=searches(problem, self.stages, seconds))

    def stages_for(self, block: Instances) -> Pipeline:
        """The stages with as many passes of search as suit the block."""
        passes = answer_passes(block.problem, self.stages.search_passes)
        return replace(self.stages, search_passes=passes)

    def _often(self, seconds: float | None) -> bool:
        """Whether a network that is tuned is asked several times: where time does not press."""
        stages, tuned = self.stages, self.run.schedules is not None
        plain = tuned and stages.repair and not (stages.annealing or stages.margins)
        return plain and seconds is None

    @property
    def followed(self) -> int:
        """How many questions follow the first: none where it was trained for one mask."""
        return FOLLOWED if self.run.config.questions.observed is None else 0

    @property
    def schedules(self) -> int:
        """How many schedules are kept; of a network that is not tuned there is one."""
        return 1 if self.run.schedules is None else len(self.run.schedules)

    trained_margins: ClassVar[tuple[float, ...]] = ()  # it is told q

    def calibrated_margin(self) -> float:
        """None is needed: q may be any."""
        return 0.0

    @property
    def improves(self) -> bool:
        """Repair or search always follow."""
        return True

    def solve(
        self,
        problem: Problem,
        evidence: Evidence | None = None,
        *,
        time_limit: float | None = None,
        seed: int = 0,
    ) -> Solutions:
        """One answer per row; rows may observe different variables."""
        limits = Limits.of(self.running, seconds=time_limit, seed=seed)
        found, order = [], []
        for instances, numbers in by_observed(problem, evidence):
            found.append(self.answer(instances, limits))
            order.append(numbers)
        return Solutions.concatenate(found).take(np.argsort(np.concatenate(order)))

    def answer(self, instances: Instances, limits: Limits) -> Solutions:
        """One answer per row, never worse than its start; see `staged_answer`."""
        self._check(instances.problem, limits)
        return staged_answer(self, instances, limits)

    def _check(self, problem: Problem, limits: Limits) -> None:
        if not _same_functions(problem, self.problem):
            self.run.check_models(problem, "the solver")
        asked = self.run.config.questions
        if asked.observed not in (None, problem.evidence_variables):
            raise EvidenceError("the network was trained for one set of observed variables only")
        if asked.limits is not None and not np.allclose(asked.limits, problem.limits):
            raise EvidenceError(f"the network was trained for q = {list(asked.limits)} only")
        if limits.gap > 0.0 and self.stages.certificate == "none":
            raise MethodError("a gap needs a certificate, found a trained network without one")
        if self.stages.levels:
            raise MethodError("8-bit levels are for networks with head linear")

    def passes(self, block: Instances, limits: Limits) -> tuple[Assignments, Floats | None]:
        """A mixture (B, n) of all answers after single moves (`consulting`), or the best of them,
        annealed if that is asked for; mu of the first."""
        device = limits.device
        device = self.running.device if device == "cpu" else device
        most, given = block.problem.limits, block.full()
        self._warn(given, most, device)
        if self._often(limits.seconds):

            def ask(given: Assignments, schedule: int) -> tuple[Assignments, Floats]:
                return self.replies(given, most, device=device, schedule=schedule)

            panel = Panel(block, ask, self.schedules, limits.cores)
            return panel.answers(self.followed, limits.seed)
        margins = self.stages.margins or (0.0,)
        said = [self.replies(given, most - margin, device=device) for margin in margins]
        prices, answers = said[0][1], best_of(block.problem, [rows for rows, _ in said])
        if not self.stages.annealing:
            return answers, prices
        cooled = self.annealed(given, most, (answers, prices), device=device, seed=limits.seed)
        return best_of(block.problem, [answers, cooled]), prices

    @torch.inference_mode()
    def annealed(
        self,
        given: Assignments,
        limits: Floats,
        said: tuple[Assignments, Floats],
        *,
        device: str,
        seed: int = 0,
    ) -> Assignments:
        """What `stages.annealing` sweeps make of answers (B, n) and mu (B, m)."""
        tables, out = self._loaded(device)[0], said[0].copy()
        annealer = Annealer(tables, self.stages.annealing, WARM)
        random = torch.Generator(tables.device).manual_seed(seed)
        asked = np.broadcast_to(limits, (len(given), tables.functions - 1))
        for start in range(0, len(given), PASS_ROWS):
            part = slice(start, start + PASS_ROWS)
            x, q = _tensors(tables, given[part], asked[part])
            begin, mu = _tensors(tables, said[0][part], said[1][part])
            found = annealer.answers(x, q, begin, random, mu)
            out[part] = torch.where(found < 0, begin, found).to(torch.int16).cpu().numpy()
        return out

    @property
    def asked_twice(self) -> bool:
        """Whether `replies` asks twice."""
        config = self.run.config
        learnt = config.network == "messages" and not config.tuned
        return learnt and len(self.problem.constraints) > 0

    def replies(
        self, given: Assignments, limits: Floats, *, device: str | None = None, schedule: int = 0
    ) -> tuple[Assignments, Floats]:
        """`predict`, and where that helps once more with q moved by what the first answer left of
        it.

        Messages that follow gradients keep some distance from every q: q + (q - t(y)) leads nearer.
        """
        rows, prices = self.predict(given, limits, device=device, schedule=schedule)
        if not self.asked_twice:
            return rows, prices
        left = limits - self._constraints(rows, device or self.running.device)
        return self.predict(given, limits + left, device=device)

    def _constraints(self, rows: Assignments, device: str) -> Floats:
        """Every t_j, with log 0 as in training: (B, m)."""
        tables, out = self._loaded(device)[0], []
        for start in range(0, len(rows), PASS_ROWS):
            part = torch.as_tensor(rows[start : start + PASS_ROWS], device=tables.device)
            out.append(tables.values(tables.certain(part))[:, 1:].double().cpu().numpy())
        return np.concatenate(out) if out else np.zeros((0, tables.functions - 1))

    @torch.inference_mode()
    def predict(
        self, given: Assignments, limits: Floats, *, device: str | None = None, schedule: int = 0
    ) -> tuple[Assignments, Floats]:
        """One pass: rounded answers (B, n) and mu (B, m) to evidence (B, n), -1 where free, of any
        masks, with q (m,) or (B, m). On a core messages are passed by compiled loops."""
        where = device or self.running.device
        tables, network = self._loaded(where, schedule)
        count = len(given)
        asked = np.broadcast_to(limits, (count, tables.functions - 1))
        if where == "cpu" and isinstance(network, MessageNetwork):
            return self._compiled(tables, schedule).predict(given, asked)
        if isinstance(network, MessageNetwork):
            network.many = network.many or count >= MANY
        rows = np.zeros((count, tables.variables), dtype=np.int32)
        prices = []
        for start in range(0, count, PASS_ROWS):
            part = slice(start, start + PASS_ROWS)
            x, q = _tensors(tables, given[part], asked[part])
            reply: Said = network(tables, x, q)
            points = tables.points(reply.logits, tables.allowed(x))
            rows[part] = tables.rounded(points).to(torch.int16).cpu().numpy()
            said = reply.multipliers
            mu = tables.multipliers(points) if said is None else said
            prices.append(mu.double().cpu().numpy())
        return rows, np.concatenate(prices) if prices else np.zeros(asked.shape)

    @torch.inference_mode()
    def relaxed_violations(self, rows: Instances) -> NDArray[np.bool_]:
        """Whether the relaxed output breaks a limit (B,): what the paper's code scored."""
        tables, network = self._loaded("cpu")
        asked = np.broadcast_to(rows.problem.limits, (len(rows), tables.functions - 1))
        x, q = _tensors(tables, rows.full(), asked)
        reply: Said = network(tables, x, q)
        found = tables.values(tables.points(reply.logits, tables.allowed(x)))[:, 1:]
        broken: NDArray[np.bool_] = (found > q).any(1).numpy()
        return broken

    def _compiled(self, tables: ModelTables, schedule: int) -> CompiledMessages:
        if not self._fast:
            first, *others = self.run.weights
            fast = CompiledMessages(tables, first, sure=self.run.config.tuned)
            self._fast.extend([fast, *map(fast.like, others)])
        return self._fast[schedule]

    def _loaded(self, device: str, schedule: int = 0) -> tuple[ModelTables, nn.Module]:
        if device not in self._on:
            config = self.run.config
            tables = ModelTables(self.problem, floor=config.floor, device=device)
            self._on[device] = tables, [self._network(tables, w) for w in self.run.weights]
        tables, networks = self._on[device]
        return tables, networks[schedule]

    def _network(self, tables: ModelTables, weights: dict[str, Tensor]) -> nn.Module:
        network = network_of(self.run.config, tables)
        try:
            network.load_state_dict(weights)
        except RuntimeError:
            odd = sorted(network.state_dict().keys() ^ weights.keys())
            found = f"{odd[0]} is missing or unknown" if odd else "sizes differ"
            raise MethodError(
                f"the weights do not fit the network of config.json: {found}; train it again"
            ) from None
        return network.eval()

    def _warn(self, given: Assignments, limits: Floats, device: str) -> None:
        """Say which questions lie outside what was trained on."""
        asked, count = self.run.config.questions, len(given)
        if not count:
            return
        free = np.array([k > 1 for k in self.problem.objective.cardinalities])
        rate = float((given[0, free] >= 0).mean()) if free.any() else 0.0
        edge = ROUNDING / max(1, free.sum())
        near = any(asked.has_rate(rate + step) for step in (-edge, 0.0, edge))
        if asked.observed is None and not near:
            shown = ", ".join(f"{low:.0%} to {high:.0%}" for low, high in asked.rates)
            _say(f"{rate:.0%} of the variables are observed, {shown} were in training")
        if asked.limits is None and len(limits):
            low, high = self.run.depths
            tables, _ = self._loaded(device)
            found = depths(
                tables, *_tensors(tables, given, np.broadcast_to(limits, (count, len(limits))))
            )
            odd = int(((found < low) | (found > high)).any(1).sum())
            if odd:
                _say(f"q lies outside the range of training in {odd} of {count} rows")


def answer_passes(problem: Problem, passes: int = ANSWER_PASSES) -> int:
    """Passes of search for rows of a problem: as many more as fewer variables are free, because
    each then takes as much less time."""
    several = np.array(problem.objective.cardinalities) > 1
    free = int(several[list(problem.free)].sum())
    return round(passes * min(MOST_PASSES, int(several.sum()) / max(1, free)))


def _stages(**given: Any) -> Pipeline:
    """The stages asked for; unless repair is named among them, answers go through passes."""
    usual = {} if "repair" in given else {"search_passes": ANSWER_PASSES}
    return Pipeline(**{**usual, **given})


def _say(what: str) -> None:
    warnings.warn(f"{what}; the answers may be poorer", QuestionWarning, stacklevel=6)


def _tensors(tables: ModelTables, given: Assignments, limits: Floats) -> tuple[Tensor, Tensor]:
    x = torch.as_tensor(np.array(given), dtype=torch.int64, device=tables.device)
    q = torch.as_tensor(np.array(limits), dtype=torch.float32, device=tables.device)
    return x, q


def _same_functions(one: Problem, other: Problem) -> bool:
    pairs = zip(one.functions, other.functions, strict=False)
    return len(one.functions) == len(other.functions) and all(a is b for a, b in pairs)
