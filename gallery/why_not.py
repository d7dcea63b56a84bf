"""
Why is there no answer?
=======================

Two causes are reported, and a protocol allows one, so no assignment satisfies everything. Which
statements contradict each other, and what is the cheapest change?
"""

import matplotlib.pyplot as plt

import cmpe

net = cmpe.read_model(cmpe.example("alarm"))
causes = ["HYPOVOLEMIA", "LVFAILURE", "ANAPHYLAXIS", "PULMEMBOLUS", "DISCONNECT"]
protocol = [
    cmpe.count(dict.fromkeys(causes, "TRUE"), name="causes") <= 1,
    cmpe.implies({"PULMEMBOLUS": "TRUE"}, {"PAP": "HIGH"}),
]
problem = cmpe.Problem(net, protocol)
reported = {
    "BP": "LOW", "HRBP": "HIGH", "PAP": "HIGH", "PULMEMBOLUS": "TRUE", "HYPOVOLEMIA": "TRUE",
    "SAO2": "LOW",
}  # fmt: skip

# %%
# The answer is proved not to exist, and a smallest set of reasons is named.

answer = cmpe.solve(problem, reported)[0]
reasons = cmpe.conflict(problem, reported)
print(answer.proof)
print(reasons)

# %%
# The cheapest change: every finding may be doubted, a measured one at a higher price than a
# reported one, and the limit may be raised at a price for each cause.

costs = {"BP": 3, "HRBP": 3, "PAP": 3, "SAO2": 3, "PULMEMBOLUS": 2, "HYPOVOLEMIA": 1.5}
prices = [0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0]
ways = [cmpe.relax(problem, reported, costs={**costs, "causes": price}) for price in prices]
for price, way in zip(prices, ways, strict=True):
    print(f"{price} for another cause: {way}")

# %%
# While another cause is cheap the limit gives way, above that a report is doubted.

fig, ax = plt.subplots(figsize=(7.4, 3.4), layout="constrained")
ax.plot(prices, [way.cost for way in ways], "o-", color="tab:blue")
for price, way in list(zip(prices, ways, strict=True))[1::4]:
    text = "raise the limit" if way.limits else f"doubt {', '.join(way.findings)}"
    ax.annotate(text, (price, way.cost), (price, way.cost - 0.35), ha="left")
ax.set(xlabel="price of another cause", ylabel="cheapest change, proved", ylim=(0, 2), xlim=(0, 5))
ax.set_title(
    "\n".join(["cannot hold together:", ", ".join(reasons.members)]), loc="left", fontsize=10
)
plt.show()
