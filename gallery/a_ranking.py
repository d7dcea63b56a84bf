"""
A ranking
=========

Five runners, five ranks: a network scores each runner for each rank, and no two runners share one.
The best ranking is an assignment, which ``auto`` recognises and proves in microseconds.
"""

import os

import matplotlib.pyplot as plt
import numpy as np
import torch

import cmpe

quick = "CMPE_QUICK" in os.environ
torch.manual_seed(0)
torch.set_num_threads(1)
runners = 5
names = [f"runner {i}" for i in range(runners)]
model = cmpe.LogLinearModel((runners,) * runners, (), names)
layer = cmpe.torch.Layer(cmpe.Problem(model, [cmpe.all_different(names)]))


def races(count, seed):
    """What is known before a race, and the ranks after it."""
    rng = np.random.default_rng(seed)
    weights = np.random.default_rng(0).normal(size=(8, runners))
    x = rng.normal(size=(count, 8))
    speed = 1.5 * x @ weights + 2.0 * np.arange(runners) + 1.5 * rng.normal(size=(count, runners))
    ranks = np.argsort(np.argsort(-speed, axis=1), axis=1)
    return torch.tensor(x).float(), torch.tensor(ranks)


x, y = races(100 if quick else 400, 1)
test_x, test_y = races(500, 2)

# %%
# The same network trained on each rank alone, and through the rule.


def trained(loss):
    """Scores (B, runner, rank) of the test races."""
    net = torch.nn.Linear(8, runners * runners)
    adam = torch.optim.Adam(net.parameters(), 0.03)
    for _ in range(8 if quick else 25):
        for batch in torch.randperm(len(x)).split(50):
            adam.zero_grad()
            loss(net(x[batch]).view(-1, runners, runners), y[batch]).backward()
            adam.step()
    return net(test_x).view(-1, runners, runners).detach()


def alone(scores, ranks):
    """The cross-entropy of each runner's rank by itself."""
    return torch.nn.functional.cross_entropy(scores.flatten(0, 1), ranks.flatten())


plain = trained(alone)
ruled = trained(lambda scores, ranks: -layer(scores).log_prob(ranks).mean())
best = layer(plain).solutions
print(f"{best.proved.mean():.0%} of the rankings proved, by {best.method[0]}")
sets, counts = np.unique(y.numpy(), axis=0, return_counts=True)
predictions = {
    "most frequent ranking": torch.tensor(sets[[counts.argmax()]]).expand(len(test_y), -1),
    "each runner alone": plain.argmax(dim=2),
    "best ranking": torch.tensor(best.assignments),
    "trained through the rule": layer(ruled).argmax,
}
right, near = {}, {}
for name, found in predictions.items():
    right[name] = (found == test_y).all(dim=1).double().mean().item()
    near[name] = (found - test_y).abs().double().mean().item()
    obeys = np.mean([len(set(row)) == runners for row in found.tolist()])
    print(
        f"{name:25} {right[name]:4.0%} rankings right, {obeys:4.0%} are rankings, "
        f"off by {near[name]:.2f} ranks"
    )

# %%

fig, (left, other) = plt.subplots(1, 2, figsize=(8.5, 3), layout="constrained", sharey=True)
left.barh(list(right), list(right.values()), color="tab:blue")
left.invert_yaxis()
left.set_xlabel("whole rankings right")
other.barh(list(near), list(near.values()), color="tab:grey")
other.set_xlabel("ranks off, mean")
plt.show()
