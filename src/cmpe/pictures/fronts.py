"""Fronts as pictures: steps, supported points, the bound as a band, the limit of the problem."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cmpe.errors import InputError
from cmpe.pictures.figures import BLUE, GREY, RED, drawing, new_panels

if TYPE_CHECKING:
    from cmpe.tradeoffs.front import Front

ACROSS = 3  # panels side by side
MARKED = 400  # supported points up to which they are drawn


def draw_fronts(fronts: Sequence[Front], axes: Any = None, names: Sequence[str] = ()) -> Any:
    """A panel for each front; the figure. One front may be drawn into axes that exist."""
    if axes is not None:
        _draw(fronts[0], axes, "")
        return axes.figure
    if not fronts:
        raise InputError("a picture needs at least one front, found none")
    across = min(ACROSS, len(fronts))
    down = math.ceil(len(fronts) / across)
    with drawing():
        figure, panels = new_panels(across, down, width=1.0 + 4.6 * across, height=0.4 + 3.1 * down)
        for number, panel in enumerate(panels):
            if number < len(fronts):
                _draw(fronts[number], panel, names[number] if names else "")
            else:
                panel.set_visible(False)
    return figure


def _draw(front: Front, axes: Any, name: str) -> None:
    sign = 1.0 if front.relation == "<=" else -1.0
    t, h = front.values, front.objective
    kept = np.isfinite(t)
    t, h = t[kept], h[kept]
    where = "post" if sign > 0 else "pre"
    if len(t):
        _band(front, axes, sign)
        axes.step(t, h, where=where, color=BLUE, linewidth=1.1, label=f"{len(front)} points")
        corners = front.supported[kept]
        if corners.sum() <= MARKED:
            axes.plot(
                t[corners], h[corners], "o", color=BLUE, markersize=3.2, markerfacecolor="white",
                label=f"{int(corners.sum())} supported",
            )  # fmt: skip
        _limit(front, axes, t)
    else:
        axes.text(0.5, 0.5, front.summary, ha="center", va="center", transform=axes.transAxes)
    proof = "complete" if front.complete else "not complete"
    axes.set_title(f"{name}: {proof}" if name else f"front: {proof}", loc="left")
    axes.set_xlabel(
        f"limit: {front.name or 't'} {front.relation} q{'' if front.name else ' (nats)'}"
    )
    axes.set_ylabel("best h (nats)")
    if len(t):
        axes.locator_params(axis="x", nbins=6)
        place = "lower right" if sign > 0 else "lower left"  # on white: q may pass behind it
        axes.legend(loc=place, facecolor="white", edgecolor="none", framealpha=1.0)


def _band(front: Front, axes: Any, sign: float) -> None:
    """From the points to the bound, where they differ.

    Between two marks the best point is that of the lower mark, and the bound that of the higher.
    """
    traced = front.traced
    if front.complete or traced.steps is None:
        return
    ends = np.append(traced.steps.at, traced.t)
    marks = np.unique(ends[np.isfinite(ends) & (ends >= traced.t[np.isfinite(traced.t)][0])])
    low = np.append(-np.inf, traced.h)[np.searchsorted(traced.t, marks, side="right")]
    upper = traced.bound(marks)
    top = np.where(np.isfinite(upper), upper, np.nan)
    axes.fill_between(
        sign * np.repeat(marks, 2)[1:-1], np.repeat(low[:-1], 2), np.repeat(top[1:], 2),
        color=GREY, alpha=0.35, linewidth=0.0, label="between points and bound",
    )  # fmt: skip


def _limit(front: Front, axes: Any, t: Any) -> None:
    """The problem's own limit, where it is in the picture."""
    if t[0] <= front.limit <= t[-1]:
        label = f"q = {front.limit:.4g}"
        axes.axvline(front.limit, color=RED, linewidth=0.9, linestyle="--", label=label)
