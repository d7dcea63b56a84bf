"""
The front of a diagnosis
========================

How much may an explanation cost? Every fault has a price: the work of ruling it out. Nobody knows
the right budget in advance, so ask for **every** trade-off at once: the front holds each
explanation that no other one beats in both cost and probability, and it is proved to be complete.
"""

import matplotlib.pyplot as plt
import numpy as np

import cmpe

net = cmpe.read_model(cmpe.example("alarm"))
findings = {
    "HISTORY": "TRUE", "HRBP": "HIGH", "HREKG": "HIGH", "HRSAT": "HIGH", "BP": "LOW",
    "CVP": "LOW", "PCWP": "LOW", "PAP": "NORMAL", "SAO2": "LOW", "EXPCO2": "LOW",
    "MINVOL": "LOW", "PRESS": "ZERO",
}  # fmt: skip
prices = {
    "ANAPHYLAXIS": {"TRUE": 6.0},
    "DISCONNECT": {"TRUE": 1.0},
    "HYPOVOLEMIA": {"TRUE": 3.0},
    "INSUFFANESTH": {"TRUE": 2.0},
    "INTUBATION": {"ESOPHAGEAL": 2.5, "ONESIDED": 4.0},
    "KINKEDTUBE": {"TRUE": 1.5},
    "LVFAILURE": {"TRUE": 5.0},
    "PULMEMBOLUS": {"TRUE": 8.0},
}
problem = cmpe.Problem(net, [cmpe.linear(prices) <= 6.0])

# %%
# One call, one row of evidence, one front.

front = cmpe.front(problem, findings)[0]
print(front)
for answer in front:
    blamed = [name.lower() for name, states in prices.items() if answer[name] in states]
    cost = answer.constraints[0].value
    print(f"cost {cost:4.1f}: log-probability {answer.objective:7.2f}, {', '.join(blamed) or '-'}")

# %%
# ``knee()`` is the point beyond which more budget gains less. ``at(q)`` answers any budget without
# solving again.

knee = front.knee()
print(
    f"the knee costs {knee.constraints[0].value:g}; "
    f"a budget of 4 gives {front.at(4.0).objective:.2f}"
)

fig, (left, right) = plt.subplots(
    1, 2, figsize=(10, 4), width_ratios=(1.2, 1), layout="constrained"
)
front.plot(left)
left.set_xlabel("budget: cost of the faults blamed")
left.set_ylabel("log-probability (nats)")
left.set_title("every trade-off, proved complete", fontsize=11, loc="left")
left.legend(loc="upper left", frameon=False)
blame = np.array([[answer[name] in states for answer in front] for name, states in prices.items()])
right.imshow(blame, cmap="Blues", aspect="auto", vmin=0, vmax=1.3)
right.set_yticks(range(len(prices)), [name.lower() for name in prices])
right.set_xticks(range(len(front)), [f"{value:g}" for value in front.values])
right.set_xlabel("cost of the point")
right.set_title("what it blames", fontsize=11, loc="left")
plt.show()
