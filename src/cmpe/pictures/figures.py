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
BLUE, RED, GREY = "#2b6cb0", "#c0392b", "#8a8a8a"
# Letters are letters, not outlines: figures are small, and browsers use fonts of their own.
FONT = "DejaVu Sans"
SETTINGS: Any = {
    "font.sans-serif": [FONT],
    "svg.hashsalt": "cmpe",
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 10.0,
    "axes.titley": 1.0,  # titles need not look for what they could cover
}


def new_figure(width: float = 6.0, height: float = 3.6, measured: bool = True) -> tuple[Any, Any]:
    """A figure and its axes; MissingExtra without matplotlib."""
    figure, [axes] = new_panels(1, width=width, height=height, measured=measured)
    return figure, axes


def new_panels(
    count: int,
    rows: int = 1,
    *,
    width: float = 6.0,
    height: float = 3.6,
    measured: bool = True,
) -> tuple[Any, list[Any]]:
    """A figure and its axes, row by row, `count` in each; `measured`: every text is measured to
    make room for it, which takes longer than drawing."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra.named("matplotlib", "report") from None
    shown = type("ShownFigure", (Figure,), {"_repr_png_": _png})
    figure = shown(figsize=(width, height), layout="constrained" if measured else None)
    axes = figure.subplots(rows, count, squeeze=False)
    return figure, axes.ravel().tolist()


def _png(figure: Any) -> bytes:
    """What a notebook draws where a figure is the last value of a cell."""
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=120)
    return out.getvalue()


@contextlib.contextmanager
def drawing() -> Iterator[None]:
    """The settings of every figure."""
    try:
        from matplotlib import rc_context
    except ImportError:
        raise MissingExtra.named("matplotlib", "report") from None
    with rc_context(SETTINGS):
        yield


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
    """A training run by epoch: the loss, the regret of validation answers, violations; the look
    whose weights the network has is marked."""
    figure, (first, above, below) = new_panels(1, 3, height=6.2)
    losses = [(r["epoch"], r["loss"]) for r in records if r.get("loss") is not None]
    first.plot([e for e, _ in losses], [loss for _, loss in losses], color="black", linewidth=1.4)
    first.set_title("loss in training", loc="left", fontsize="medium")
    first.spines[["top", "right"]].set_visible(False)
    first.xaxis.get_major_locator().set_params(integer=True)
    first.set(xlim=(0, records[-1]["epoch"] if records else 1))
    looks = [r for r in records if r.get("validation_regret") is not None]
    epochs = [r["epoch"] for r in looks]
    regret = [r["validation_regret"] for r in looks]
    share = [100 * r["validation_violation"] for r in looks]
    relaxed = [100 * r["relaxed_violation"] for r in records]
    above.plot(epochs, regret, color=BLUE, linewidth=1.8)
    below.plot([r["epoch"] for r in records], relaxed, color=GREY, linewidth=1.2)
    below.plot(epochs, share, color=RED, linewidth=1.8)
    kept = max((k for k, r in enumerate(looks) if r.get("kept", True)), default=None)
    for axes, values, colour, unit in ((above, regret, BLUE, "nats"), (below, share, RED, "%")):
        if kept is not None:
            place = (epochs[kept], values[kept])
            axes.scatter(*place, color=colour, zorder=3, clip_on=False)
            axes.annotate(f"{values[kept]:.3g} {unit}", place, (4, 6), color=colour,
                          textcoords="offset points", annotation_clip=False)  # fmt: skip
        axes.spines[["top", "right"]].set_visible(False)
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set(ylim=(0, None), xlim=(0, records[-1]["epoch"] if records else 1))
    titles = ((above, "left", BLUE, "regret of feasible answers to validation rows"),
              (below, "left", RED, "violated: answers to validation rows"),
              (below, "right", GREY, "relaxed outputs in training"))  # fmt: skip
    for axes, side, colour, text in titles:
        axes.set_title(text, color=colour, loc=side, fontsize="medium")
    below.set(xlabel="epoch", ylabel="share (%)")
    above.set(ylabel="nats")
    return figure
