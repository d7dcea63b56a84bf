"""
Two experts
===========

Two experts have models of the same plant, learned in different places. The first is to choose the
likeliest state of everything that was not measured; the second must not find it too surprising.
How much does the first expert give up for the second one's consent?
"""

import matplotlib.pyplot as plt
import numpy as np

import cmpe

first = cmpe.read_model(cmpe.example("alarm"))
second = first.perturb(0.8, seed=7)  # the same structure, other numbers
seen = {"HRBP": "HIGH", "CVP": "LOW", "BP": "LOW"}

# %%
# What each would say alone, and what the other thinks of it:

alone = cmpe.solve(cmpe.Problem(first), seen)
other = cmpe.solve(cmpe.Problem(second), seen)


def opinions(answers):
    """What both experts think of an answer: log-weights in nats."""
    return first.value(answers.assignments)[0], second.value(answers.assignments)[0]


print("the first alone: ", opinions(alone))
print("the second alone:", opinions(other))

# %%
# Now let the second expert ask for more and more, from what the first expert's own choice gives it
# to what is best for it. Every point is the proved optimum of the first expert under that demand.

demands = np.linspace(opinions(alone)[1], opinions(other)[1] - 1e-6, 12)
points = []
for demand in demands:
    answers = cmpe.solve(cmpe.Problem(first, [second >= demand]), seen)
    assert answers[0].status is cmpe.Status.OPTIMAL
    points.append(opinions(answers))
h, t = np.array(points).T

# %%

fig, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
ax.step(t, h, where="pre", color="tab:blue", alpha=0.4)
ax.plot(t, h, "o", color="tab:blue", label="proved optima")
ax.annotate("the first alone", (t[0], h[0]), (8, 4), textcoords="offset points")
ax.annotate("the second alone", (t[-1], h[-1]), (-45, -3), textcoords="offset points", ha="right")
ax.set_xlabel("log-weight under the second expert (nats)")
ax.set_ylabel("log-weight under the first (nats)")
ax.set_title("What agreement costs")
ax.legend()
plt.show()
