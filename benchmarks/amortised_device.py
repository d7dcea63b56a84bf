"""Part `rate` of `benchmarks.amortised`: what a device answers in a second, and how well."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

from benchmarks.amortised_cells import Cells, Record, with_selector, worth

JUDGED = 320  # rows that are compared with `search`
AFTER, ALONE = (30, 100, 300, 1000), (100, 300, 1000, 3000)  # sweeps of annealing
TIMES = (1, 8)  # batches of 4,096 at once, of annealing alone


class DeviceRace:
    """Rows of one mask, answered on the device in several ways."""

    def __init__(self, cell: Cells, problem: Any, options: argparse.Namespace) -> None:
        import torch

        from cmpe.learning.amortised.config import QuestionRange
        from cmpe.learning.amortised.questions import QuestionMaker
        from cmpe.learning.amortised.tables import ModelTables
        from cmpe.solvers.search import search
        from cmpe.solvers.search.schedule import Budget

        self.cell, self.device = cell, options.device
        self._annealers: dict[tuple[int, float], Any] = {}
        self.maker = QuestionMaker(ModelTables(problem, device=self.device), QuestionRange())
        self.given = torch.as_tensor(cell.given, dtype=torch.int64, device=self.device)
        self.limits = torch.as_tensor(cell.limits, dtype=torch.float32, device=self.device)
        few = cell.instances.take(slice(0, JUDGED))
        budget = Budget(seconds=0.01, clock=time.thread_time)
        search(few.take(slice(0, 16)), budget=budget)  # compiles
        self.own = worth(cell.instances.problem, search(few, budget=budget))

    def network(self, solver: Any) -> Iterator[Record]:
        """A pass, and what follows it."""
        import torch

        from cmpe.learning.amortised.annealing import WARM
        from cmpe.tensor.answers import improved

        loaded = solver._loaded(self.device)[1]
        loaded.many = True  # a stream of such batches would compile

        def passed() -> Any:
            return solver.replies(self.cell.given, self.cell.limits, device=self.device)

        def moved() -> Any:
            rows = with_selector(passed()[0])
            return improved(self.cell.instances, rows, device=self.device, steps=2)[:, :-1]

        yield self._judged("pass", lambda: passed()[0])
        yield self._judged("single moves", moved)
        for sweeps in AFTER:

            def annealed(sweeps: int = sweeps) -> Any:
                rows, prices = passed()
                start = torch.as_tensor(rows, dtype=torch.int64, device=self.device)
                mu = torch.as_tensor(prices, dtype=torch.float32, device=self.device)
                return self._annealed(sweeps, WARM, start, mu)

            yield self._judged(f"{sweeps} sweeps", annealed)

    def alone(self) -> Iterator[Record]:
        """Annealing from where mean-field steps on h lead."""
        from cmpe.learning.amortised.annealing import HOTTEST

        for sweeps, times in product(ALONE, TIMES):

            def annealed(sweeps: int = sweeps, times: int = times) -> Any:
                start = self.maker.ends(self.maker.tables.allowed(self.given))[1]
                return self._annealed(sweeps, HOTTEST, start, None, times)

            yield self._judged(f"{sweeps} sweeps", annealed)

    def _annealed(
        self, sweeps: int, hottest: float, start: Any, prices: Any, times: int = 1
    ) -> Any:
        """Annealed answers; what no sweep made feasible stays where it began."""
        import torch

        from cmpe.learning.amortised.annealing import Annealer

        random = torch.Generator(self.device).manual_seed(0)
        if (sweeps, hottest) not in self._annealers:
            self._annealers[sweeps, hottest] = Annealer(self.maker.tables, sweeps, hottest)
        start = start.repeat(times, 1)
        found = self._annealers[sweeps, hottest].answers(
            self.given.repeat(times, 1), self.limits.repeat(times, 1), start, random, prices
        )
        return torch.where(found < 0, start, found).to(torch.int8).cpu().numpy()

    def _judged(self, stage: str, answer: Callable[[], Any]) -> Record:
        answer()  # compiles
        begin = time.perf_counter()
        found = answer()
        spent = time.perf_counter() - begin
        rows = with_selector(found[: len(self.cell.given)])
        value = worth(self.cell.instances.problem, rows)[:JUDGED]
        both = np.isfinite(value) & np.isfinite(self.own)
        return {
            "stage": stage, "rows": len(found), "rows_per_s": len(found) / spent,
            "violated": int((~np.isfinite(value)).sum()),
            "behind_search_10ms": float((self.own - value)[both].mean()),
        }  # fmt: skip
