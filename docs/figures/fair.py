"""Draws docs/figures/fair.png: regret against violations of the fair study's arms and constants.

Run: PYTHONPATH=. python docs/figures/fair.py
"""

from pathlib import Path

from matplotlib.figure import Figure

from study.fair.page import CONTRAST, PRINTED, kept, run_of

ARMS = (
    ("as printed", PRINTED, 0.0, "#c8553d"),
    ("precomputed, T 2", "ss_cmpe, precomputed alpha", 2.0, "#8e6bbf"),
    ("contrast 3, T 2", CONTRAST, 2.0, "#3b6fb6"),
    ("ssl_pen, T 2", "ssl_pen", 2.0, "#2a9d6f"),
    ("pdl, T 2", "pdl", 2.0, "#d99a2b"),
)
cells = [record for record in kept() if not record["cell"].endswith("-long")]
figure = Figure(figsize=(11, 9.5), layout="constrained")
panels = figure.subplots(4, 4).flat


def draw(axes, points, **style):
    """A curve of (share violated, regret)."""
    points = [p for p in points if p["regret"] is not None]
    axes.plot([100 * p["violated"] for p in points], [p["regret"] for p in points], **style)


for record, axes in zip(cells, panels, strict=False):
    draw(axes, record["constants"], color="0.55", marker="|", linewidth=1, label="constants")
    for label, arm, temperature, colour in ARMS:
        curve = run_of(record, arm, temperature)["curve"]
        draw(axes, curve, color=colour, marker="o", markersize=3.5, linewidth=1, label=label)
    axes.axvline(1.0, color="0.8", linewidth=1, zorder=0)
    axes.set_xscale("symlog", linthresh=1.0)
    axes.set(xlim=(-0.1, 100), ylim=(0, None), title=record["cell"])
    axes.set_xticks([0, 1, 10, 100], ["0", "1", "10", "100"])
    axes.title.set_fontsize(10)
    axes.tick_params(labelsize=8)
for axes in panels:
    axes.set_axis_off()
figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="lower right",
              bbox_to_anchor=(0.95, 0.06), frameon=False)  # fmt: skip
figure.supxlabel("violated test rows (%)", fontsize=10)
figure.supylabel("regret of feasible answers (nats)", fontsize=10)
figure.savefig(Path(__file__).with_name("fair.png"), dpi=100)
