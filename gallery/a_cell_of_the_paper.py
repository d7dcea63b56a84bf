"""
One cell of the paper
=====================

The study of Arya, Rahman and Gogate (AISTATS 2024) compares, for ten models and five limits, how
far the answers of several methods are from the optimum and how many break the constraint. Here is
one such cell: 60 % evidence, the limit at the 30th percentile, a network trained without labels by
the paper's loss as it is printed (preset ``paper``, with 30 epochs in place of 300). Beside it
stands one constant answer to all rows, chosen on the training rows.

The paper's models are UAI files, which do not come with this package. Set ``CMPE_MODEL`` to one of
them, for example ``Segmentation_14.uai``; without it a random grid stands in.
"""

import os
import time
from pathlib import Path

import matplotlib.pyplot as plt

import cmpe
from cmpe.evaluation import chosen, constants
from cmpe.generation import grid

quick = "CMPE_QUICK" in os.environ
path = os.environ.get("CMPE_MODEL")
model = cmpe.read_model(path) if path else grid(6, 6, seed=0) if quick else grid(15, 15, seed=0)
name = Path(path).stem if path else "a random grid"
made = cmpe.generate(model, cmpe.Recipe(percentile=30, samples=300 if quick else 3000))
problem, test = made.problem, made.test
print(f"{name}: {problem}, {len(made.train)} training and {len(test)} test rows")

# %%
# Proved optima first: every method is compared with them. The constraint *binds* on a row if the
# best answer without it breaks it; the other rows are plain MPE.

against = cmpe.reference(problem, test)
binds = against.constrained.mean()
print(f"the constraint binds on {binds:.0%} of the test rows")
config = cmpe.preset("paper", "ss_cmpe", epochs=3 if quick else 30, seed=0)
solver = cmpe.fit(problem, made.train, config)
constant = chosen(constants(problem, made.train))
methods = {
    "constant": lambda: constant.answers(problem, test),
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
    lines.append((label, figures.regret.mean, 100 * figures.violation.mean, micro))
    print(
        f"{label:17} regret {figures.regret.mean:7.2f} nats, violated {lines[-1][2]:5.1f} %, "
        f"{figures.distinct_answers} different answers, {micro:.0f} us"
    )

# %%
# A violated answer may have a negative regret: it is better than every feasible one, because it
# breaks the constraint. So read the first two panels together. As printed, the network settles on
# few answers, here on one for all rows, and is then no better than a constant; the preset
# ``stable`` makes answers depend on the evidence. The time of a pass is mostly the call:
# with more rows a row takes less.

labels, regrets, violated, micro = zip(*lines, strict=True)
fig, axes = plt.subplots(1, 3, figsize=(9.5, 3), sharey=True, layout="constrained")
titles = ("regret (nats)", "violated (%)", "time a row (µs)")
for ax, values, title in zip(axes, (regrets, violated, micro), titles, strict=True):
    bars = ax.barh(labels, values, color=("tab:green", "tab:orange", "tab:blue", "tab:grey"))
    ax.bar_label(bars, fmt="%.3g", padding=3)
    ax.margins(x=0.25)
    ax.set_title(title, fontsize=11)
axes[2].set_xscale("log")
fig.suptitle(f"{name}, q at the 30th percentile, binds on {binds:.0%} of {len(test)} test rows")
plt.show()
