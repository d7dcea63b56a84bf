"""The study as tasks: every cell with the tasks that lead to it, known before anything runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cmpe.learning.training.config import TrainingConfig, preset
from cmpe.learning.training.stacking import settings_of
from study.paper.description import Dataset, Method, Study
from study.paper.stages import REPAIR, task
from study.paper.store import Artifact, Json, Task, digest

REFERENCE = "exact"


@dataclass(frozen=True)
class Cell:
    """One figure of the study: a method on a data set at a percentile, with a seed."""

    dataset: str
    group: str
    q: int
    method: str
    seed: int
    budget: float | None  # seconds a row
    evaluate: Task
    answers: Task  # the solve or train task
    network: Task | None = None  # the train task, where there is one


@dataclass
class Plan:
    """Tasks in an order in which they can be done, and the cells they lead to."""

    tasks: dict[str, Task] = field(default_factory=dict)  # by key
    cells: list[Cell] = field(default_factory=list)
    generated: dict[str, Task] = field(default_factory=dict)  # by data set
    sources: dict[str, Artifact] = field(default_factory=dict)  # by key
    stand_ins: list[str] = field(default_factory=list)

    def add(self, wanted: Task) -> Task:
        """The task, listed once however many cells need it."""
        return self.tasks.setdefault(wanted.key, wanted)

    def index(self) -> list[Json]:
        """Which cell comes from which keys."""
        return [
            {
                "dataset": c.dataset, "q": c.q, "method": c.method, "seed": c.seed,
                "budget": c.budget, "evaluate": c.evaluate.key, "answers": c.answers.key,
            }
            for c in self.cells
        ]  # fmt: skip


def plan_of(study: Study, data: Path) -> Plan:
    """All tasks of a study whose files lie below the folder `data`."""
    plan = Plan()
    problems = {d.name: _generate(plan, study, d, data) for d in study.datasets}
    for q in study.scale.percentiles:
        for dataset in study.datasets:
            group = _Group(plan, study, dataset, q, problems[dataset.name])
            plan.cells.extend(group.cells())
    return plan


def _generate(plan: Plan, study: Study, dataset: Dataset, data: Path) -> Task:
    recipe = {**study.recipe, "samples": study.scale.samples}
    files = _files(dataset, data)
    if not files:
        plan.stand_ins.append(dataset.name)
        made = task("generate", {"model": dataset.stand_in, "recipe": recipe})
    else:
        hashes = {name: digest(content) for name, content in files.items()}
        source = plan.add(task("source", hashes))
        plan.sources[source.key] = Artifact(files)
        kind = "uai" if dataset.uai else "density"
        made = task("generate", {"model": {kind: hashes}, "recipe": recipe}, source=source)
    plan.generated[dataset.name] = made
    return plan.add(made)


def _files(dataset: Dataset, data: Path) -> dict[str, bytes]:
    """The files of a data set, none where they are absent."""
    if dataset.uai:
        paths = {"model.uai": data / dataset.uai}
    elif dataset.density:
        parts = {f"{part}.data.gz": part for part in ("train", "valid")}
        paths = {name: data / f"{dataset.density}.{part}.data.gz" for name, part in parts.items()}
    else:
        return {}
    if not all(path.is_file() for path in paths.values()):
        return {}
    return {name: path.read_bytes() for name, path in paths.items()}


def told_config(config: TrainingConfig) -> Json:
    """What a config says beyond the defaults: a field that is added later changes no key."""
    usual = TrainingConfig().to_json()
    shown = {k: v for k, v in config.to_json().items() if v != usual[k]}
    return {"loss": config.loss, "seed": config.seed, **shown}


@dataclass(frozen=True)
class _Group:
    """The cells of one data set at one percentile."""

    plan: Plan
    study: Study
    dataset: Dataset
    q: int
    problem: Task

    def cells(self) -> Iterator[Cell]:
        """All of them; the reference first, because all others need it."""
        reference = self._solve(REFERENCE, None)
        networks = {m.name: m for m in self.study.methods if m.network}
        for method in self.study.methods:
            if method.solver:
                yield from self._solver_cells(method, reference)
                continue
            source = networks[method.repair] if method.repair else method
            for seed in self.study.scale.seeds:
                trained = self._train(source, seed)
                answers = self._repair(method, trained) if method.repair else trained
                yield self._cell(method, seed, None, answers, reference, trained)

    def _solver_cells(self, method: Method, reference: Task) -> Iterator[Cell]:
        scale = self.study.scale
        if method.few and self.q not in scale.few_percentiles:
            return
        for budget in scale.budgets if method.few else (None,):
            answers = self._solve(method.solver, budget, scale.few_rows if method.few else 0)
            yield self._cell(method, 0, budget, answers, reference)

    def _cell(
        self, method: Method, seed: int, budget: float | None, answers: Task, reference: Task,
        network: Task | None = None,
    ) -> Cell:  # fmt: skip
        inputs = {"problem": self.problem, "answers": answers, "reference": reference}
        if method.repair:  # answers that bring no bound of their own
            certify = task("certify", {"q": self.q}, problem=self.problem)
            inputs["bound"] = self.plan.add(certify)
        wanted = task("evaluate", {"q": self.q}, **inputs)
        named = (self.dataset.name, self.dataset.group, self.q, method.name)
        return Cell(*named, seed, budget, self.plan.add(wanted), answers, network)

    def _solve(self, method: str, budget: float | None, rows: int = 0) -> Task:
        told = {"q": self.q, "method": method, "rows": rows, "time_limit": budget, "seed": 0}
        return self.plan.add(task("solve", told, problem=self.problem))

    def _repair(self, method: Method, trained: Task) -> Task:
        told = {"q": self.q, "method": REPAIR, "rows": 0, "time_limit": None, "seed": 0}
        if method.kicks:
            told["kicks"] = method.kicks
        return self.plan.add(task("solve", told, problem=self.problem, network=trained))

    def _train(self, method: Method, seed: int) -> Task:
        scale = self.study.scale
        changes = {**method.changes, **scale.changes.get(method.network, {})}
        config = preset(method.network, method.loss, seed=seed, **changes)
        inputs = {"problem": self.problem, **self._lessons(config)}
        grid = scale.selection.grid(method.grid)
        if grid and scale.selection.folds > 1:
            inputs["choice"] = self._choice(method, changes, grid, inputs)
            grid = {name: [] for name in grid}  # the names; the values are the choice's
        told = {"q": self.q, "config": told_config(config), "grid": grid}
        return self.plan.add(task("train", told, **inputs))

    def _choice(
        self, method: Method, changes: Json, grid: dict[str, list[float]], inputs: dict[str, Task]
    ) -> Task:
        """Cross-validation: one for all seeds; of a large grid with few epochs, then with all."""
        selection = self.study.scale.selection
        shorter = selection.changes(method.name)
        config = preset(method.network, method.loss, **{**changes, **shorter})
        told = {"q": self.q, "config": told_config(config), "grid": grid, "folds": selection.folds}
        first = self.plan.add(task("cross_validation", told, **inputs))
        if not shorter or not 0 < selection.finalists < len(settings_of(grid)):
            return first
        whole = told_config(preset(method.network, method.loss, **changes))
        again = {**told, "config": whole, "grid": {}, "finalists": selection.finalists}
        return self.plan.add(task("cross_validation", again, **inputs, earlier=first))

    def _lessons(self, config: TrainingConfig) -> dict[str, Task]:
        """What training reads besides the problem: of the rows given, and of drawn ones."""
        if not config.rows:
            return {"labels": self._labels(), "bounds": self._bounds(config)}
        drawn = task("draw", {"rows": config.rows, "seed": 0}, problem=self.problem)
        told = {"q": self.q, "margins": list(config.margins)}
        lessons = task("teach", told, problem=self.problem, drawn=self.plan.add(drawn))
        return {"drawn": drawn, "lessons": self.plan.add(lessons)}

    def _labels(self) -> Task:
        told = {"q": self.q, "method": REFERENCE}
        return self.plan.add(task("labels", told, problem=self.problem))

    def _bounds(self, config: TrainingConfig) -> Task:
        told = {"q": self.q, "margins": list(config.margins)}
        if config.alpha != "fixed":  # `paper` and `precomputed` start from the same
            told["alpha"] = "precomputed"
        return self.plan.add(task("bounds", told, problem=self.problem))
