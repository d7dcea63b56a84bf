"""Results looked up by data set, q and method: figures over seeds, the paper's beside them.

A figure of a cell is the mean over its seeds of the mean over rows. Two spreads belong to it: over
rows, the root mean square of the seeds' standard deviations; over seeds, the standard deviation of
the seeds' means (n - 1 in the denominator), where there are at least two.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from study.reporting.names import GROUPS, by_rank, family_of, natural
from study.reporting.results import Cell, PaperFigure, StudyResults

NOT_RUN = "not in the results"
NO_FIGURE = "measured, but this figure is not in the results"
MODEL = "model"  # stands for the method of a printed figure about the data set itself
Key = tuple[str, float | None, str]  # data set, q, method


@dataclass(frozen=True)
class Measured:
    """A mean with its spread over rows and over seeds."""

    mean: float
    rows_std: float | None = None
    seeds_std: float | None = None
    seeds: int = 1


@dataclass(frozen=True)
class Study:
    """Results with an index."""

    results: StudyResults

    @cached_property
    def _cells(self) -> dict[Key, list[Cell]]:
        found: dict[Key, list[Cell]] = defaultdict(list)
        for cell in self.results.cells:
            found[cell.dataset, cell.q, cell.method].append(cell)
        return {key: sorted(cells, key=lambda c: c.seed) for key, cells in found.items()}

    @cached_property
    def _paper(self) -> dict[tuple[str, float | None, str, str], PaperFigure]:
        return {(p.dataset, p.q, p.method, p.metric): p for p in self.results.paper}

    @cached_property
    def groups(self) -> dict[str, str]:
        """The group of every data set, also of those that only the paper has."""
        found = {p.dataset: paper_group(p) for p in self.results.paper}
        found |= {d.dataset: d.group for d in self.results.datasets}
        return found | {c.dataset: c.group for c in self.results.cells}

    def datasets(self, *groups: str) -> list[str]:
        """The data sets of some groups, or of all; group by group, by name."""
        rank = {group: i for i, group in enumerate(GROUPS)}
        chosen = [(g, d) for d, g in self.groups.items() if g in groups or not groups]
        chosen.sort(key=lambda gd: (rank.get(gd[0], len(rank)), gd[0], natural(gd[1])))
        return [d for g, d in chosen if g != "mnist" or groups]

    def families(self) -> dict[str, list[str]]:
        """Data sets by the panel they are drawn in."""
        found: dict[str, list[str]] = defaultdict(list)
        for dataset in self.datasets():
            found[family_of(dataset, self.groups[dataset])].append(dataset)
        return found

    def qs(self, *datasets: str) -> list[float | None]:
        """The percentiles of some data sets, ours and the paper's."""
        keys = [(d, q) for d, q, _ in self._cells]
        keys += [(p.dataset, p.q) for p in self.results.paper if p.method != MODEL]
        return sorted({q for d, q in keys if d in datasets}, key=lambda q: (q is None, q or 0.0))

    def methods(self, dataset: str | None = None) -> list[str]:
        """The methods of a data set, or of all."""
        return by_rank(m for d, _, m in self._cells if dataset in (None, d))

    def places(self) -> list[Key]:
        """Every data set, q and method that we have, in the order of the tables."""
        place = {dataset: i for i, dataset in enumerate(self.datasets())}
        rank = {method: i for i, method in enumerate(self.methods())}
        return sorted(self._cells, key=lambda k: (place[k[0]], k[1] is None, k[1] or 0, rank[k[2]]))

    def cells(self, key: Key) -> Sequence[Cell]:
        """The seeds of a cell, measured or not."""
        return self._cells.get(key, ())

    @cached_property
    def spread(self) -> str:
        """What ± means in these results, as a sentence."""
        if len({c.seed for c in self.results.cells if c.measured}) > 1:
            return "Mean ± standard deviation over rows, in brackets ± over seeds."
        return "Mean ± standard deviation over rows; one seed."

    def figure(self, key: Key, metric: str, *, constrained: bool = False) -> Measured | None:
        """One metric of a cell over its seeds; None where no seed has it."""
        parts = [c.constrained if constrained else c.every for c in self._measured(key)]
        means = [p.get(metric) for p in parts]
        spreads = [p.get(f"{metric}_std") for p in parts]
        return _over_seeds(means, spreads)

    def extra(self, key: Key, name: str) -> Measured | None:
        """A number of the cell itself: `train_seconds`, `mean_reference`, ..."""
        return _over_seeds([getattr(c, name) for c in self._measured(key)], ())

    def _measured(self, key: Key) -> list[Cell]:
        return [c for c in self.cells(key) if c.measured]

    def optimum(self, dataset: str, q: float | None) -> Measured | None:
        """Mean h* of a data set at q, from the cell that was measured on most rows."""
        keys = [k for k in self._cells if k[:2] == (dataset, q) and self.extra(k, "mean_reference")]
        if not keys:
            return None
        return self.extra(max(keys, key=lambda k: _rows(self, k)), "mean_reference")

    def binding(self, dataset: str, q: float | None) -> Measured | None:
        """The share of rows whose unconstrained optimum breaks the constraint."""
        key = (dataset, q, "exact")
        every, bound = (self.figure(key, "rows", constrained=part) for part in (False, True))
        return None if every is None or bound is None else Measured(bound.mean / every.mean)

    def reason(self, key: Key) -> str:
        """Why there is no figure."""
        reasons = [c.reason for c in self.cells(key) if c.reason]
        return reasons[0] if reasons else NO_FIGURE if self._measured(key) else NOT_RUN

    def paper(self, dataset: str, q: float | None, method: str, metric: str) -> Measured | None:
        """The printed figure."""
        found = self._paper.get((dataset, q, method, metric))
        return None if found is None else Measured(found.mean, found.std)


def paper_group(figure: PaperFigure) -> str:
    """The group of a data set of the paper, told by the table it stands in."""
    if figure.dataset == "mnist":
        return "mnist"
    is_uai = figure.dataset.startswith(("Grids", "Segmentation"))
    return "uai" if is_uai or figure.table == "main_uai" else "tractable"


def _rows(study: Study, key: Key) -> float:
    found = study.figure(key, "rows")
    return 0.0 if found is None else found.mean


def _over_seeds(means: Sequence[float | None], spreads: Sequence[float | None]) -> Measured | None:
    known = [m for m in means if m is not None]
    if not known:
        return None
    stds = [s for s in spreads if s is not None]
    rows = math.sqrt(statistics.fmean(s * s for s in stds)) if stds else None
    mean = statistics.fmean(known)
    off = math.fsum((m - mean) ** 2 for m in known)
    seeds = math.sqrt(off / (len(known) - 1)) if len(known) > 1 else None
    return Measured(mean, rows, seeds, len(known))
