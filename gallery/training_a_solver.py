"""
Training a solver, and when it pays
===================================

A network can learn to answer a problem. It costs rows, labels and training once, and a pass and a
repair for every row after that. Whether this pays depends on what a row costs without it.
"""

import os
import time

import matplotlib.pyplot as plt
import numpy as np

import cmpe
from cmpe.evaluation import chosen, constants
from cmpe.generation import grid

quick = "CMPE_QUICK" in os.environ
side, epochs, samples = (6, 4, 400) if quick else (14, 30, 2000)

made = cmpe.generate(
    grid(side, side, coupling=1.2, seed=2),
    cmpe.Recipe(evidence_fraction=0.2, percentile=30, samples=samples),
)
problem, test = made.problem, made.test[:100]

# %%
# Train it. The preset ``tuned`` learns proved answers where they are cheap, and the paper's loss
# where they are not; ``ss_cmpe`` needs no labels at all.

began = time.perf_counter()
config = cmpe.preset("tuned", "ss_cmpe", epochs=epochs, seed=0)
solver = cmpe.fit(problem, made.train, config)
cost = time.perf_counter() - began
print(f"trained in {cost:.1f} s")

# %%
# One constant answer to all rows as a yardstick, the network alone and with repair, search that
# begins anew, and the exact engine, each on the same rows. The price of a method is what it takes
# in all for so many rows.

against = cmpe.reference(problem, test)
print(f"the constraint binds on {against.constrained.mean():.0%} of the test rows")
constant = chosen(constants(problem, made.train))
methods = {
    "constant": lambda: constant.answers(problem, test),
    "network alone": lambda: solver.with_stages(repair=False, certificate="none").solve(
        problem, test
    ),
    "network + repair": lambda: solver.with_stages(certificate="none").solve(problem, test),
    "search, 1 ms": lambda: cmpe.solve(problem, test, method="search", time_limit=0.001),
    "exact": lambda: cmpe.solve(problem, test, method="exact"),
}
found = {}
for name, answer in methods.items():
    answer()
    began = time.perf_counter()
    answers = answer()
    a_row = (time.perf_counter() - began) / len(test)
    figures = cmpe.evaluate(answers, against).every
    found[name] = (a_row, figures.regret.mean, figures.violation.mean)
    print(
        f"{name:17} {1e6 * a_row:9.0f} us a row, regret {figures.regret.mean:.3f} nats, "
        f"{figures.violation.mean:.0%} violated, {figures.distinct_answers} different answers"
    )

# %%

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
rows = np.logspace(1, 7, 50)
colours = ("tab:green", "tab:red", "tab:blue", "tab:orange", "tab:grey")
for (name, (a_row, regret, _)), colour in zip(found.items(), colours, strict=True):
    left.loglog(rows, (cost if "network" in name else 0) + a_row * rows, label=name, color=colour)
    right.barh(name, regret, color=colour)
left.set_xlabel("rows to answer")
left.set_ylabel("seconds in all")
left.set_title("what it costs, training included")
left.legend()
right.set_xlabel("mean regret (nats)")
right.set_title("how far from the optimum")
plt.show()
