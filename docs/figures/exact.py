"""Draws docs/figures/exact.png: the dual, the losses and G of one small problem.

Run: python docs/figures/exact.py
"""

import itertools
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import cmpe
from cmpe.bounds.lagrangian import lagrangian_dual
from cmpe.generation import generate, grid

problem = generate(grid(3, 3, seed=8), cmpe.Recipe(percentile=20, samples=10, seed=1)).problem
problem = problem.observing(())
limit = problem.limits[0]
rows = np.array(list(itertools.product((0, 1), repeat=9)))
h, t = problem.objective.value(rows), problem.constraint_values(rows)[:, 0]
dual = lagrangian_dual(problem.given())
best = cmpe.solve(problem, method="exact")
mu, bound, optimum = dual.multipliers[0, 0], dual.bound[0], best.objective[0]
gap = bound - optimum

figure = Figure(figsize=(10, 4), layout="constrained")
left, right = figure.subplots(1, 2)

multipliers = np.linspace(0, 2.5 * mu, 200)
values = h[:, None] - multipliers * (t[:, None] - limit)
for line in values[np.argsort(-values[:, 80])[:12]]:
    left.plot(multipliers, line, color="0.8", linewidth=0.8)
left.plot(multipliers, values.max(axis=0), color="black", label="$D(\\mu)$")
left.axhline(optimum, color="black", linestyle=":", label="optimum")
left.plot([mu], [bound], "v", color="black", label="$\\mu^*$, UB")
left.set(xlabel="$\\mu$", ylabel="nats", title="The dual: each assignment is a line")
left.set_ylim(optimum - 1.0, values.max(axis=0)[0] + 0.3)
left.legend(frameon=False)

near = h - mu * (t - limit) >= bound - gap - 1e-9
right.plot(t, h, ".", color="0.8", markersize=4, label="all assignments")
right.plot(t[near], h[near], "o", color="0.35", markersize=4, label="loss $\\leq G$")
right.plot(best.constraint_values[0], best.objective, "^", color="black", label="optimum")
edge = np.array([limit - 4, limit + 3])
right.plot(edge, bound + mu * (edge - limit), color="black", linewidth=1, label="loss = 0")
right.plot(edge, bound - gap + mu * (edge - limit), "k--", linewidth=1, label="loss = $G$")
right.axvline(limit, color="black", linestyle=":", linewidth=1)
right.annotate("$q$", (limit, optimum - 3.3))
right.set(xlabel="$t$", ylabel="$h$", title="Losses at $\\mu^*$: few assignments are within $G$")
right.set(xlim=(limit - 4, limit + 3), ylim=(optimum - 3.5, h.max() + 0.5))
right.legend(frameon=False, loc="lower right")

figure.savefig(Path(__file__).with_suffix(".png"), dpi=130)
print(f"mu* = {mu:.4f}, UB = {bound:.4f}, optimum = {optimum:.4f}, gap = {gap:.4f}")
print(f"q = {limit:.4f}; {near.sum()} of {len(h)} assignments have loss <= G = gap")
