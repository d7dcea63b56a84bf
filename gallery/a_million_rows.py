"""
A million rows
==============

Answers are computed for whole batches. Rows of evidence that are equal are solved once, rows that
observe the same variables share one plan, and the rest runs through compiled code that handles 64
rows at a time: a million patients take seconds.
"""

import os
import time

import matplotlib.pyplot as plt
import numpy as np

import cmpe

quick = "CMPE_QUICK" in os.environ
sizes = (100, 1_000, 10_000) if quick else (100, 1_000, 10_000, 100_000, 1_000_000)

net = cmpe.read_model(cmpe.example("alarm"))
faults = dict.fromkeys(("ANAPHYLAXIS", "HYPOVOLEMIA", "LVFAILURE", "PULMEMBOLUS"), "TRUE")
seen = ["HRBP", "BP", "CVP", "PCWP", "EXPCO2", "SAO2", "MINVOL", "PRESS", "HISTORY", "PAP"]
problem = cmpe.Problem(net, [cmpe.count(faults) <= 1], evidence_variables=seen)

# %%
# Patients are drawn from the network itself; their observed variables are the evidence.

drawn = cmpe.sample(net, max(sizes), seed=0).assignments
patients = drawn[:, list(problem.evidence_variables)]
distinct = len(np.unique(patients, axis=0))
print(f"{len(patients):,} patients, {distinct:,} of them different in what was seen")

# %%

cmpe.solve(problem, patients[:10])  # the first call loads compiled code
seconds = []
for size in sizes:
    began = time.perf_counter()
    answers = cmpe.solve(problem, patients[:size])
    seconds.append(time.perf_counter() - began)
    proved = (answers.status == cmpe.Status.OPTIMAL).mean()
    print(f"{size:>9,} rows: {seconds[-1]:.2f} s, {proved:.0%} proved")

# %%

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
left.loglog(sizes, seconds, "o-", color="tab:blue")
left.set_xlabel("rows")
left.set_ylabel("seconds")
left.set_title("wall-clock time")
right.semilogx(sizes, 1e6 * np.array(seconds) / sizes, "o-", color="tab:blue")
right.set_xlabel("rows")
right.set_ylim(bottom=0)
right.set_title("microseconds a row")
plt.show()
