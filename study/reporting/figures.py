"""What the figures of a report share: legends, margins, and figures as bytes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from cmpe.pictures.figures import drawing

LEGEND_WIDTH, LEGEND_HEIGHT = 2.1, 0.2  # inches of one entry
LEFT, RIGHT, BOTTOM, TOP = 0.85, 0.25, 0.55, 0.15  # inches around panels that are not measured
LABEL = 0.2  # inches from the edge of a figure to the label of an axis


def legend_above(figure: Any, *axes: Any) -> None:
    """One legend over the panels, each label once; the figure grows by its height. A figure that is
    not measured gets fixed margins."""
    found: dict[str, Any] = {}
    for one in axes:
        handles, labels = one.get_legend_handles_labels()
        found |= dict(zip(labels, handles, strict=True))
    width, height = figure.get_size_inches()
    columns = max(1, min(len(found), int(width / LEGEND_WIDTH)))
    legend = LEGEND_HEIGHT * -(-len(found) // columns)
    figure.set_figheight(height + legend)
    fixed = figure.get_layout_engine() is None
    if fixed:
        _fix_margins(figure, axes, legend)
    figure.legend(
        list(found.values()), list(found), frameon=False, fontsize=9.5, handlelength=2.6,
        loc="upper center" if fixed else "outside upper center", ncols=columns,
        borderaxespad=0.2 if fixed else None,
    )  # fmt: skip


def _fix_margins(figure: Any, axes: Sequence[Any], legend: float) -> None:
    """Room in inches for labels of the usual length, and for the legend."""
    width, height = figure.get_size_inches()
    titled = 0.25 if any(one.get_title() for one in axes) else 0.0
    figure.subplots_adjust(
        left=LEFT / width, right=1 - RIGHT / width,
        bottom=BOTTOM / height, top=1 - (TOP + titled + legend) / height,
        wspace=0.26, hspace=0.16,
    )  # fmt: skip
    for one in axes:  # labels at a fixed distance: tick labels need not be measured
        _, _, across, up = one.get_position().bounds
        one.xaxis.set_label_coords(0.5, (LABEL - BOTTOM) / (up * height))
        one.yaxis.set_label_coords((LABEL - LEFT) / (across * width), 0.5)


def rendered(figure: Any, suffix: str) -> bytes:
    """A figure as the bytes of an .svg or .png file."""
    stream = io.BytesIO()
    metadata = {"Date": None} if suffix == ".svg" else {"Software": None}
    with drawing():
        figure.savefig(stream, format=suffix[1:], dpi=160, metadata=metadata)
    return stream.getvalue()
