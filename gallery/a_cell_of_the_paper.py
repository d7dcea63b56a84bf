"""
One cell of the paper
=====================

The study of Arya, Rahman and Gogate (AISTATS 2024) asks, for ten models and five limits, how far
the answers of several methods are from the optimum and how many break the constraint. Here is one
cell of it: 60 % evidence, the limit at the 80th percentile, a network trained without labels by the
paper's loss.

The paper's models are UAI files, which do not come with this package. Set ``CMPE_MODEL`` to one of
them, for example ``Segmentation_12.uai``; without it a random grid of a similar size stands in.
"""

import os
import time
from pathlib import Path

import matplotlib.pyplot as plt

import cmpe
from cmpe.generation import grid

quick = "CMPE_QUICK" in os.environ
path = os.environ.get("CMPE_MODEL")
model = cmpe.read_model(path) if path else grid(6, 6, seed=0) if quick else grid(15, 15, seed=0)
name = Path(path).stem if path else "a random grid"
made = cmpe.generate(model, cmpe.Recipe(percentile=80, samples=300 if quick else 3000))
problem, test = made.problem, made.test
print(f"{name}: {problem}, {len(made.train)} training and {len(test)} test rows")

# %%
# Proved optima first: they are what every method is measured by.

against = cmpe.reference(problem, test)
config = cmpe.preset("paper", "ss_cmpe", epochs=3 if quick else 30, seed=0)
solver = cmpe.fit(problem, made.train, config)
methods = {
    "network alone": lambda: solver.with_stages(repair=False, certificate="none").solve(
        problem, test
    ),
    "network + repair": lambda: solver.with_stages(certificate="none").solve(problem, test),
    "exact": lambda: cmpe.solve(problem, test, method="exact"),
}
lines = []
for label, answer in methods.items():
    answer()
    began = time.perf_counter()
    answers = answer()
    micro = 1e6 * (time.perf_counter() - began) / len(test)
    figures = cmpe.evaluate(answers, against).every
    lines.append((label, 100 * figures.gap.mean, 100 * figures.violation.mean, micro))
    print(f"{label:17} gap {lines[-1][1]:7.3f} %, violated {lines[-1][2]:6.2f} %, {micro:.0f} us")

# %%
# A violated answer may have a negative gap: it is better than every feasible one, because it breaks
# the constraint.

labels, gaps, violated, micro = zip(*lines, strict=True)
fig, axes = plt.subplots(1, 3, figsize=(9.5, 3), sharey=True, layout="constrained")
for ax, values, title in zip(
    axes, (gaps, violated, micro), ("gap (%)", "violated (%)", "time a row (µs)"), strict=True
):
    bars = ax.barh(labels, values, color=("tab:orange", "tab:blue", "tab:grey"))
    ax.bar_label(bars, fmt="%.3g", padding=3)
    ax.margins(x=0.25)
    ax.set_title(title, fontsize=11)
axes[2].set_xscale("log")
fig.suptitle(f"{name}, q at the 80th percentile, {len(test)} test rows")
plt.show()
