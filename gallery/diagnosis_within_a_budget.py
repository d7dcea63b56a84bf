"""
Diagnosis within a budget
=========================

A monitor watches a patient under anaesthesia. Its alarms have many explanations, and the likeliest
one may blame several things at once. How likely is the best explanation that blames **at most k**
things?

The model is the ALARM network (Beinlich et al. 1989), which comes with the package.
"""

import matplotlib.pyplot as plt

import cmpe

net = cmpe.read_model(cmpe.example("alarm"))
findings = {
    "HISTORY": "TRUE", "HRBP": "HIGH", "HREKG": "HIGH", "HRSAT": "HIGH", "BP": "LOW",
    "CVP": "LOW", "PCWP": "LOW", "PAP": "NORMAL", "SAO2": "LOW", "EXPCO2": "LOW",
    "MINVOL": "LOW", "PRESS": "ZERO",
}  # fmt: skip
faults = {
    "ANAPHYLAXIS": "TRUE",
    "DISCONNECT": "TRUE",
    "HYPOVOLEMIA": "TRUE",
    "INSUFFANESTH": "TRUE",
    "INTUBATION": ["ESOPHAGEAL", "ONESIDED"],
    "KINKEDTUBE": "TRUE",
    "LVFAILURE": "TRUE",
    "PULMEMBOLUS": "TRUE",
}

# %%
# One problem per budget. A count is a constraint like any other function, and every answer comes
# with a proof that nothing within the budget is likelier.

budgets = range(5)
answers = [
    cmpe.solve(cmpe.Problem(net, [cmpe.count(faults) <= budget]), findings)[0] for budget in budgets
]
for budget, answer in zip(budgets, answers, strict=True):
    print(f"at most {budget}: log-probability {answer.objective:.2f}, {answer.proof}")

# %%
# Filled squares are the faults of an answer. Beyond a certain budget nothing is gained: more faults
# than necessary only make an explanation less likely.


def blamed(answer, name):
    """Whether the answer has a faulty state of this variable."""
    states = faults[name] if isinstance(faults[name], list) else [faults[name]]
    return answer[name] in states


fig, (above, below) = plt.subplots(
    2, 1, sharex=True, figsize=(7, 5.5), height_ratios=(1, 1.4), layout="constrained"
)
above.plot(budgets, [answer.objective for answer in answers], "o-", color="tab:blue")
above.set_ylabel("log-probability\n(nats, proved)")
grid = [[blamed(answer, name) for answer in answers] for name in faults]
below.imshow(grid, cmap="Blues", aspect="auto", vmin=0, vmax=1.3)
below.set_yticks(range(len(faults)), [name.lower() for name in faults])
below.set_xticks(budgets, [f"at most {budget}" for budget in budgets])
below.set_xlabel("faults that an explanation may blame")
fig.suptitle("The likeliest explanation within each budget")
plt.show()
