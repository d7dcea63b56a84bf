"""Figures, readable in black and white; drawn without a screen."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cmpe.errors import InputError, MissingExtra

if TYPE_CHECKING:
    from cmpe.solvers.exact.trace import TraceEvent

SUFFIXES = (".svg", ".pdf", ".png")
# No date and no random identifiers: equal results give equal bytes. Names are never mathematics.
SETTINGS: Any = {"svg.hashsalt": "cmpe", "text.parse_math": False, "font.size": 9.0}


def new_figure(width: float = 6.0, height: float = 3.6) -> tuple[Any, Any]:
    """A figure and its axes; MissingExtra without matplotlib."""
    figure, [axes] = new_panels(1, width=width, height=height)
    return figure, axes


def new_panels(
    count: int,
    rows: int = 1,
    *,
    width: float = 6.0,
    height: float = 3.6,
    sharey: str | bool = False,
) -> tuple[Any, list[Any]]:
    """A figure and its axes, row by row, `count` in each; `sharey`: each row has one scale."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra.named("matplotlib", "report") from None
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots(rows, count, squeeze=False, sharey="row" if sharey else False)
    return figure, axes.ravel().tolist()


@contextlib.contextmanager
def drawing() -> Iterator[None]:
    """The settings of every figure of a report."""
    try:
        from matplotlib import rc_context
    except ImportError:
        raise MissingExtra.named("matplotlib", "report") from None
    with rc_context(SETTINGS):
        yield


def rendered(figure: Any, suffix: str) -> bytes:
    """A figure as the bytes of an .svg or .png file."""
    stream = io.BytesIO()
    metadata = {"Date": None} if suffix == ".svg" else {"Software": None}
    with drawing():
        figure.savefig(stream, format=suffix[1:], dpi=160, metadata=metadata)
    figure.set_layout_engine("none")  # laid out: the next format has the same layout
    return stream.getvalue()


def save(figure: Any, path: Path | str) -> None:
    """Write a figure in the format that the suffix names."""
    if Path(path).suffix not in SUFFIXES:
        raise InputError(f"{path}: expected a figure ending in {', '.join(SUFFIXES)}")
    try:
        figure.savefig(path, dpi=160)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None


def draw_trace(events: Sequence[TraceEvent]) -> Any:
    """Incumbent and bound of one row against time: they meet at the proved optimum."""
    figure, axes = new_figure()
    seconds = [1e3 * e.seconds for e in events]
    order = sorted(range(len(events)), key=lambda i: seconds[i])
    times = [seconds[i] for i in order]
    bounds = [min(events[j].bound for j in order[: k + 1]) for k in range(len(order))]
    axes.step(times, bounds, where="post", color="black", marker="v", label="bound")
    found = [i for i in order if events[i].incumbent == events[i].incumbent]
    if found:
        axes.step(
            [seconds[i] for i in found],
            [events[i].incumbent for i in found],
            where="post", color="black", linestyle="--", marker="^", label="incumbent",
        )  # fmt: skip
    axes.set_xlabel("milliseconds")
    axes.set_ylabel("objective h (nats)")
    axes.legend(frameon=False)
    return figure


def draw_learning(records: Sequence[Mapping[str, Any]]) -> Any:
    """A training run: validation regret and violations, and the training loss, by epoch."""
    figure, axes = new_figure()
    looks = [r for r in records if r.get("validation_regret") is not None]
    axes.plot(
        [r["epoch"] for r in looks],
        [r["validation_regret"] for r in looks],
        "-",
        color="black",
        label="regret of feasible answers (nats)",
    )
    axes.set(xlabel="epoch", ylabel="validation regret (nats)", ylim=(0, None))
    right = axes.twinx()
    right.plot(
        [r["epoch"] for r in looks],
        [100 * r["validation_violation"] for r in looks],
        "--",
        color="0.35",
        label="violated answers (%)",
    )
    right.plot(
        [r["epoch"] for r in records],
        [100 * r["relaxed_violation"] for r in records],
        ":",
        color="0.55",
        label="violated relaxed outputs, training (%)",
    )
    right.set(ylabel="violations (%)", ylim=(0, None))
    axes.xaxis.get_major_locator().set_params(integer=True)
    lines = [*axes.get_lines(), *right.get_lines()]
    labels = [line.get_label() for line in lines]
    figure.legend(lines, labels, frameon=False, loc="outside upper center")
    return figure
