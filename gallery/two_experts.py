"""
Two experts
===========

Two experts have models of the same plant, learned in different places. The first chooses the
likeliest state of all unmeasured variables; to the second it must not be too improbable.
How much does the first expert give up for the second one's consent?
"""

import matplotlib.pyplot as plt

import cmpe

first = cmpe.read_model(cmpe.example("alarm"))
second = first.perturb(0.8, seed=7)  # the same structure, other numbers
seen = {"HRBP": "HIGH", "CVP": "LOW", "BP": "LOW"}

# %%
# The answer of each expert alone, and its probability for the other:

alone = cmpe.solve(cmpe.Problem(first), seen)
other = cmpe.solve(cmpe.Problem(second), seen)


def opinions(answers):
    """What both experts think of an answer: log-weights in nats."""
    return first.value(answers.assignments)[0], second.value(answers.assignments)[0]


print("the first alone: ", opinions(alone))
print("the second alone:", opinions(other))

# %%
# Now let the second expert ask for more and more, from what the first expert's own choice gives it
# to what is best for it. The front holds every compromise that no other one beats, proved.

least = opinions(alone)[1]
front = cmpe.front(cmpe.Problem(first, [second >= least]), seen)[0]
print(front)
fair = front.knee()
print(f"the knee: {fair.objective:.2f} and {fair.constraints[0].value:.2f}")

# %%

fig, ax = plt.subplots(figsize=(7, 4.2), layout="constrained")
front.plot(ax)
for answers, label, place in (
    (alone, "the first alone", (10, 2)),
    (other, "the second alone", (-10, 8)),
):
    h, t = opinions(answers)
    ax.plot(t, h, "s", color="tab:red", ms=7)
    ax.annotate(
        label, (t, h), place, textcoords="offset points", ha="left" if place[0] > 0 else "right"
    )
ax.set_xlabel("log-weight under the second expert (nats)")
ax.set_ylabel("log-weight under the first (nats)")
ax.set_title("what agreement costs, every point proved", fontsize=11, loc="left")
ax.legend(loc="center left", frameon=False)
plt.show()
