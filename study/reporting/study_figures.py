"""The figures of a study, drawn from kept results: the paper's and ours.

Every method has one marker, line style, hatch and colour in all of them, so that they can be read
without colour. What the paper printed is hollow; what was measured here is filled.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from cmpe.pictures.figures import drawing, new_figure, new_panels
from study.reporting.figures import legend_above
from study.reporting.headline import OTHERS, TUNED
from study.reporting.names import (
    OURS_IN_PAPER,
    SELF_SUPERVISED,
    by_rank,
    label_of,
    q_text,
    slug_of,
    style_of,
)
from study.reporting.paper_tables import MAIN_Q
from study.reporting.results import CurvePoint, TimePoint
from study.reporting.study import Study
from study.reporting.tables import MOST_VIOLATIONS, seconds_text

COMPARED = (*SELF_SUPERVISED, *OURS_IN_PAPER)
WITH_TUNED = (*COMPARED, "tuned", TUNED)
MOST_POINTS = 60  # of a learning curve
TRAINING = "Time and training"
UNEVEN = 20  # times the median: one bar would hide the others
Point = tuple[float, float]


@dataclass(frozen=True)
class Drawing:
    """A figure with its words."""

    name: str  # of its files
    title: str
    caption: str  # also read out in place of the figure
    figure: Any
    section: str
    dataset: str | None = None
    q: str | None = None


def study_figures(study: Study) -> list[Drawing]:
    """Every figure that the results allow."""
    with drawing():
        found = [
            _times_at_a_glance(study),
            _gap_against_violations(study, [MAIN_Q]),
            _gap_against_violations(study, None),
            *(_feasible(study, d) for d in study.datasets()),
            *(_against_time(study, d) for d in study.datasets()),
            *(_learning(study, d) for d in study.datasets()),
        ]
    return [d for d in found if d is not None]


def _times_at_a_glance(study: Study) -> Drawing | None:
    """Seconds a row of every solver on every data set at q = 80."""
    ours = {dataset for dataset, q, _ in study.places() if q == MAIN_Q}
    datasets = [d for d in study.datasets() if d in ours]
    methods = (TUNED, "lagrangian", *OTHERS)
    found: dict[str, list[Point]] = {}
    for method in methods:
        figures = [study.figure((d, MAIN_Q, method), "seconds") for d in datasets]
        points = [(f.mean, float(i)) for i, f in enumerate(figures) if f and f.mean > 0]
        if points:
            found[method] = points
    if not found:
        return None
    figure, axes = new_figure(6.4, 1.0 + 0.26 * len(datasets))
    for method, points in found.items():
        _marks(axes, method, points, size=42)
    axes.set_yticks(range(len(datasets)), [_short(d) for d in datasets])
    axes.set_ylim(len(datasets) - 0.5, -0.5)
    axes.grid(axis="y", color="0.88")
    _log_seconds(axes)
    legend_above(figure, axes)
    caption = f"Mean time a row at q = {MAIN_Q:g}, logarithmic; further left is faster."
    return Drawing("times", "Time a row", caption, figure, "Verdict", q=q_text(MAIN_Q))


def _gap_against_violations(study: Study, qs: Sequence[float] | None) -> Drawing | None:
    """Figure 2 of the paper (one q) and its companion in the supplement (all q)."""
    families = {f: ds for f, ds in study.families().items() if _has_gaps(study, ds, qs)}
    if not families:
        return None
    width = 3.1 * len(families) + 0.5
    figure, panels = new_panels(len(families), width=width, height=3.2, measured=False)
    has_printed = False
    for axes, (family, datasets) in zip(panels, families.items(), strict=True):
        for method in (*COMPARED, TUNED):
            ours, printed = _gap_points(study, datasets, qs, method)
            _marks(axes, method, ours)
            _marks(axes, method, printed, hollow=True)
            has_printed |= bool(printed)
        axes.set_title(_short(family), fontsize=10)
        axes.set_xlabel("violations")
        axes.axvline(MOST_VIOLATIONS, color="0.6", linewidth=0.8, linestyle=":")
    _from_zero(panels)
    panels[0].set_ylabel("gap (%)")
    legend_above(figure, *panels)
    title = f"Gap against violations, q = {MAIN_Q:g}" if qs else "Gap against violations, every q"
    which = "data set" if qs else "data set and q"
    whose = ": filled ours, hollow the paper's" if has_printed else ""
    caption = (
        f"One mark per {which}{whose}. Closer to the origin is better; right of the dotted line "
        "violations exceed 0.15. Scales are linear near 0, else logarithmic."
    )
    name = "gap-violations-q80" if qs else "gap-violations-all"
    return Drawing(name, title, caption, figure, "The paper's figures")


def _has_gaps(study: Study, datasets: Sequence[str], qs: Sequence[float] | None) -> bool:
    points = (_gap_points(study, datasets, qs, m) for m in COMPARED)
    return any(ours or printed for ours, printed in points)


def _gap_points(
    study: Study, datasets: Sequence[str], qs: Sequence[float] | None, method: str
) -> tuple[list[Point], list[Point]]:
    ours, printed = [], []
    for d in datasets:
        for q in study.qs(d) if qs is None else qs:
            key = (d, q, method)
            gap, violation = study.figure(key, "gap"), study.figure(key, "violation")
            if gap and violation:
                ours.append((violation.mean, 100 * gap.mean))
            gap, violation = study.paper(*key, "gap"), study.paper(*key, "violations")
            if gap and violation:
                printed.append((violation.mean, 100 * gap.mean))
    return ours, printed


def _feasible(study: Study, dataset: str) -> Drawing | None:
    """Bars of the regret of feasible answers: a group for each q, a bar for each method."""
    qs = study.qs(dataset)
    bars = {}
    for method in WITH_TUNED:
        found = [study.figure((dataset, q, method), "feasible_regret") for q in qs]
        if any(found):
            bars[method] = found
    if not bars:
        return None
    figure, axes = new_figure(6.4, 2.9, measured=False)
    width = 0.84 / len(bars)
    several = any(f.seeds > 1 for found in bars.values() for f in found if f is not None)
    for i, (method, found) in enumerate(bars.items()):
        style = style_of(method)
        known = [(j, f) for j, f in enumerate(found) if f is not None]
        axes.bar(
            [j + (i - (len(bars) - 1) / 2) * width for j, _ in known],
            [f.mean for _, f in known],
            width,
            yerr=[f.seeds_std or 0.0 for _, f in known] if several else None,
            color="white" if style.hatch else style.color, edgecolor=style.color,
            hatch=style.hatch, label=label_of(method), error_kw={"elinewidth": 1, "capsize": 2},
        )  # fmt: skip
    axes.set_xticks(range(len(qs)), [f"q = {q_text(q)}" for q in qs])
    axes.set_xlim(-0.5, len(qs) - 0.5)
    axes.set_ylabel("regret of feasible answers (nats)")
    means = [f.mean for found in bars.values() for f in found if f is not None and f.mean > 0]
    if uneven := bool(means) and max(means) > UNEVEN * statistics.median(means):
        _symlog(axes.yaxis, 0.1)
        axes.set_ylim(top=1.5 * axes.dataLim.y1)
    axes.set_ylim(bottom=0)
    legend_above(figure, axes)
    caption = (
        "Mean h* - h over the rows that the method answers feasibly, for each q. "
        + ("Whiskers: standard deviation over seeds. " if several else "One seed. ")
        + ("The scale is linear near 0, else logarithmic. " if uneven else "")
        + "Lower is better."
    )
    name, title = f"feasible-{slug_of(dataset)}", f"Feasible answers only: {dataset}"
    return Drawing(name, title, caption, figure, "The paper's figures", dataset=dataset)


def _against_time(study: Study, dataset: str) -> Drawing | None:
    """Regret against seconds a row, all solvers on one axis."""
    points = [t for t in study.results.times if t.dataset == dataset and t.regret is not None]
    if not points:
        return None
    (q, here), (figure, axes) = _one_q(points), new_figure(6.2, 3.5, measured=False)
    for method in by_rank(t.method for t in here):
        _anytime(axes, method, [t for t in here if t.method == method])
    if any(t.amortised for t in here):
        axes.plot([], [], "o", color="0.4", markerfacecolor="white", label="with training")
    _log_seconds(axes)
    _nats([axes])
    axes.set_ylabel("regret (nats)")
    legend_above(figure, axes)
    caption = (
        f"Mean regret after so much time a row, q = {q_text(q)}. Filled: the time of the answer "
        "alone; hollow: with its share of training. Lower and further left is better."
    )
    name, title = f"time-{slug_of(dataset)}", f"Regret against time: {dataset}"
    return Drawing(name, title, caption, figure, TRAINING, dataset, q_text(q))


def _one_q(points: Sequence[Any]) -> tuple[float | None, list[Any]]:
    """The points at q = 80, or at the largest q there is: a figure of every q has no room."""
    by_q = _grouped(points, lambda point: point.q)
    q = MAIN_Q if MAIN_Q in by_q else list(by_q)[-1]
    return q, by_q[q]


def _anytime(axes: Any, method: str, points: Sequence[TimePoint]) -> None:
    style = style_of(method)
    for amortised in (False, True):
        chosen = sorted(
            (t.seconds, t.regret or 0.0)
            for t in points
            if t.amortised is amortised and t.seconds > 0
        )
        if chosen:
            axes.plot(
                *zip(*chosen, strict=True),
                linestyle=style.line, color=style.color, marker=style.marker, markersize=6,
                markerfacecolor="white" if amortised else style.color, clip_on=False, zorder=3,
                label=None if amortised else label_of(method),
            )  # fmt: skip


def _learning(study: Study, dataset: str) -> Drawing | None:
    """Validation regret and violations by epoch."""
    points = [c for c in study.results.curves if c.dataset == dataset]
    if not points:
        return None
    q, here = _one_q(points)
    figure, (upper, lower) = new_panels(1, 2, width=6.2, height=4.6, measured=False)
    for j, method in enumerate(by_rank(c.method for c in here)):
        mine = [c for c in here if c.method == method]
        _curve(upper, method, _by_epoch(mine, "validation_regret"), j)
        _curve(lower, method, _by_epoch(mine, "validation_violation"), j)
    lower.set_ylim(bottom=0)
    lower.set_xlabel("epoch")
    _nats([upper], from_zero=False)
    upper.set_ylabel("validation regret (nats)")
    lower.set_ylabel("validation violations")
    legend_above(figure, upper, lower)
    caption = (
        f"Regret and violations of validation rows by epoch, mean over seeds, q = {q_text(q)}."
    )
    name, title = f"learning-{slug_of(dataset)}", f"Learning curves: {dataset}"
    return Drawing(name, title, caption, figure, TRAINING, dataset, q_text(q))


def _by_epoch(points: Iterable[CurvePoint], name: str) -> list[Point]:
    """The mean over seeds, thinned to what can be seen."""
    epochs: dict[int, list[float]] = defaultdict(list)
    for point in points:
        value = point.values[name]
        if value is not None:
            epochs[point.epoch].append(value)
    curve = [(float(e), statistics.fmean(values)) for e, values in sorted(epochs.items())]
    return curve[:: 1 + len(curve) // MOST_POINTS]


def _curve(axes: Any, method: str, points: list[Point], place: int) -> None:
    style = style_of(method)
    if points:
        every = max(1, len(points) // 6)  # markers at different epochs, so that none is hidden
        axes.plot(
            *zip(*points, strict=True),
            linestyle=style.line, color=style.color, marker=style.marker, markersize=5,
            markevery=(place % every, every), label=label_of(method), linewidth=1.1,
        )  # fmt: skip


def _grouped(points: Iterable[Any], key: Callable[[Any], float | None]) -> dict[float | None, Any]:
    found: dict[float | None, list[Any]] = defaultdict(list)
    for point in points:
        found[key(point)].append(point)
    return dict(sorted(found.items(), key=lambda item: (item[0] is None, item[0] or 0.0)))


def _marks(
    axes: Any, method: str, points: Sequence[Point], *, hollow: bool = False, size: float = 34
) -> None:
    style = style_of(method)
    if points:
        axes.scatter(
            *zip(*points, strict=True),
            s=size, marker=style.marker, linewidths=0.9, zorder=3, clip_on=False,
            facecolors="none" if hollow else style.color, edgecolors=style.color,
            label=label_of(method) + (", paper" if hollow else ""),
        )  # fmt: skip


def _from_zero(panels: Sequence[Any]) -> None:
    """Violations and gaps from 0, logarithmic further out; all panels have the same violations."""
    most = max(axes.dataLim.x1 for axes in panels)
    for axes in panels:
        _symlog(axes.xaxis, 0.01)
        _symlog(axes.yaxis, 0.1)
        axes.set_xlim(0, min(1.0, 1.3 * most))
        if axes.dataLim.y0 >= 0:
            axes.set_ylim(0, 1.5 * axes.dataLim.y1 or None)


def _nats(panels: Sequence[Any], *, from_zero: bool = True) -> None:
    """Regrets from 0 to hundreds of nats; answers that break a constraint may be below 0."""
    least = min(axes.dataLim.y0 for axes in panels)
    most = max(axes.dataLim.y1 for axes in panels)
    for axes in panels:
        _symlog(axes.yaxis, 0.1)
        if from_zero:  # room for the outermost markers
            axes.set_ylim(1.5 * min(least, 0.0), 1.5 * most or None)


def _symlog(axis: Any, linear: float) -> None:
    """Linear up to `linear`, then logarithmic, with ticks at 1, and at 2 and 5 over few decades."""
    from matplotlib.ticker import NullLocator

    set_scale = axis.axes.set_xscale if axis.axis_name == "x" else axis.axes.set_yscale
    set_scale("symlog", linthresh=linear, linscale=0.5)
    limits = axis.axes.dataLim.intervalx if axis.axis_name == "x" else axis.axes.dataLim.intervaly
    few = max(abs(limits)) < 100 * linear
    axis.get_major_locator().set_params(subs=(1.0, 2.0, 5.0) if few else (1.0,))
    axis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.set_minor_locator(NullLocator())


def _log_seconds(axes: Any) -> None:
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: seconds_text(value))
    axes.xaxis.minorticks_off()
    axes.grid(axis="x", color="0.9")
    axes.set_axisbelow(True)
    axes.set_xlabel("time a row")


def _short(name: str) -> str:
    return name if len(name) <= 24 else name[:23] + "…"
