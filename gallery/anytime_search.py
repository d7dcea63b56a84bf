"""
Anytime answers on a wide grid
==============================

A 60 x 60 grid with a constraint and no evidence has 3,600 free variables and is far too wide to
eliminate. ``auto`` still answers at once, and both the answer and the bound improve with more time.
The optimum lies between them.
"""

import os
import time

import matplotlib.pyplot as plt

import cmpe
from cmpe.generation import grid

quick = "CMPE_QUICK" in os.environ
side = 20 if quick else 60
limits = (0.2, 0.5) if quick else (0.25, 0.5, 1, 2, 4, 8)

h = grid(side, side, coupling=1.0, seed=3)
t = h.perturb(0.1, seed=4)
cut = float(t.value(cmpe.solve(cmpe.Problem(h), time_limit=limits[1]).assignments)[0])
problem = cmpe.Problem(h, [t <= cut - 0.01 * abs(cut)])

# %%
# The same problem again, with more and more seconds.

found = []
for limit in limits:
    began = time.perf_counter()
    answer = cmpe.solve(problem, time_limit=limit)
    spent = time.perf_counter() - began
    found.append((limit, answer.objective[0], answer.bound[0]))
    print(
        f"{limit:5} s (took {spent:.1f}): {answer.labels[0]}, objective {found[-1][1]:.2f}, "
        f"bound {found[-1][2]:.2f}"
    )

# %%

seconds, objective, bound = zip(*found, strict=True)
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
ax.fill_between(seconds, objective, bound, color="tab:blue", alpha=0.12, label="certified gap")
ax.plot(seconds, bound, "v--", color="tab:grey", label="bound")
ax.plot(seconds, objective, "o-", color="tab:blue", label="answer")
ax.set_xscale("log")
ax.set_xticks(seconds, [f"{s:g}" for s in seconds], minor=False)
ax.minorticks_off()
ax.set_xlabel("time limit (s)")
ax.set_ylabel("log-weight (nats)")
ax.set_title(f"A {side} x {side} grid under a constraint")
ax.legend()
plt.show()
