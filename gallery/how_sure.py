"""
How sure is the explanation?
============================

The likeliest explanation of all variables may itself be improbable. How sure is each part of it,
and which rival explains the readings almost as well?
"""

import matplotlib.pyplot as plt
import numpy as np

import cmpe

net = cmpe.read_model(cmpe.example("alarm"))
causes = ["HYPOVOLEMIA", "DISCONNECT", "LVFAILURE", "KINKEDTUBE", "PULMEMBOLUS", "INSUFFANESTH"]
problem = cmpe.Problem(net, [cmpe.count(dict.fromkeys(causes, "TRUE"), name="causes") <= 2])
seen = {"BP": "LOW", "CVP": "HIGH", "SAO2": "HIGH"}

# %%
# The answer, its probability, and the next best explanations by their causes alone (the others are
# summed out, so that each is counted once).

answers = cmpe.solve(problem, seen)
likely = cmpe.probability(problem, seen)
print(f"{answers[0].proof}; probability {likely.of(answers)[0]:.3f}")
(ranked,) = cmpe.best(cmpe.Problem(net), seen, k=4, over=causes, rest="sum")
total = cmpe.probability(net, seen).log_evidence[0]
shares = np.exp(ranked.objective - total)
blamed = [[c for c in causes if each[c] == "TRUE"] or ["none of them"] for each in ranked]
for names, share in zip(blamed, shares, strict=True):
    print(f"{share:.2f} {', '.join(names)}")

# %%
# The left picture has the causes one by one under the limit, the right one whole explanations.

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.4), layout="constrained")
states = net.domain.states_of(net.domain.variable(causes[0]))
each = [likely.marginals[cause][0][states.index("TRUE")] for cause in causes]
colours = ["tab:red" if answers[0][cause] == "TRUE" else "tab:gray" for cause in causes]
left.barh(causes[::-1], each[::-1], color=colours[::-1])
left.set(xlim=(0, 1), title="probability of each cause (red: in the answer)")
right.barh([" + ".join(names) for names in blamed][::-1], shares[::-1], color="tab:blue")
right.set(xlim=(0, 1), title="probability of whole explanations")
plt.show()
