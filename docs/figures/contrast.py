"""Draws docs/figures/contrast.png: the loss of an answer that gains in h what it gains in t.

Run: python docs/figures/contrast.py
"""

from pathlib import Path

import torch
from matplotlib.figure import Figure

from cmpe.learning.losses.losses import Evaluated, ss_cmpe

best, g = 100.0, torch.linspace(-6.0, 6.0, 601).view(1, -1)
figure = Figure(figsize=(6.4, 3.8), layout="constrained")
axes = figure.subplots()
for contrast, colour in ((1, "#7a7a7a"), (3, "#3b6fb6"), (5, "#2a9d6f"), (25, "#c8553d")):
    batch = Evaluated(best - g, g.unsqueeze(-1), alpha=torch.tensor([[1.01 * contrast]]),
                      beta=torch.ones((1, 1)))  # fmt: skip
    values = ss_cmpe(batch)[0] / best
    axes.plot(g[0], values, color=colour, linewidth=2)
    axes.annotate(f"contrast {contrast}", (6.1, float(values[-1])), color=colour, va="center",
                  annotation_clip=False)  # fmt: skip
axes.axvline(0.0, color="#bbbbbb", linewidth=1, zorder=0)
axes.set(xlabel="g = t - q in nats (feasible up to 0), gained in h as well", xlim=(-6, 6),
         ylabel="loss / p*", yscale="log")  # fmt: skip
axes.spines[["top", "right"]].set_visible(False)
figure.savefig(Path(__file__).with_name("contrast.png"), dpi=150)
