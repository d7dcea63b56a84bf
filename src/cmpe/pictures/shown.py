"""Figures that notebooks draw as the last value of a cell, without `%matplotlib inline`."""

from __future__ import annotations

import io

from matplotlib.figure import Figure

DOTS_PER_INCH = 120


class ShownFigure(Figure):
    """A figure of matplotlib that knows its own picture."""

    def _repr_png_(self) -> bytes:
        out = io.BytesIO()
        self.savefig(out, format="png", dpi=DOTS_PER_INCH)
        return out.getvalue()
