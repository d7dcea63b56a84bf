"""Posteriors as pictures: a bar of states for each variable, an explanation in colour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cmpe.arrays import Floats
from cmpe.pictures.figures import BLUE, GREY, drawing, new_panels

if TYPE_CHECKING:
    from cmpe.domain import Domain

LABELLED = 0.12  # Segments of at least so much probability say their state.


def draw_marginals(
    domain: Domain, marginals: Sequence[tuple[int, Floats]], explained: Sequence[int] | None
) -> Any:
    """A bar for each (variable, probabilities of its states); -1 in `explained`: no state."""
    with drawing():
        figure, panels = new_panels(1, 1, width=6.4, height=0.8 + 0.26 * max(1, len(marginals)))
        axes = panels[0]
        for line, (v, shares) in enumerate(marginals):
            starts = np.concatenate([[0.0], np.cumsum(shares)[:-1]])
            for state, (start, share) in enumerate(zip(starts, shares, strict=True)):
                chosen = explained is not None and explained[v] == state
                axes.barh(
                    line, share, left=start, height=0.8, edgecolor="white", linewidth=0.6,
                    color=BLUE if chosen else GREY, alpha=1.0 if chosen else 0.45,
                )  # fmt: skip
                if share >= LABELLED:
                    axes.text(
                        start + share / 2, line, f"{domain.label(v, state)} {share:.2f}",
                        ha="center", va="center", fontsize=6, color="white" if chosen else "black",
                    )  # fmt: skip
        axes.set_yticks(range(len(marginals)), [domain.name(v) for v, _ in marginals], fontsize=7)
        axes.invert_yaxis()
        axes.set_xlim(0.0, 1.0)
        axes.set_xlabel("probability")
    return figure
