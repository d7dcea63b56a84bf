"""
Labels under a hierarchy
========================

A picture is *an animal, a dog, a terrier*: labels on one path of a hierarchy. A network that scores
each label alone predicts sets that no path allows. Four ways to mend that, with the most frequent
label set, which needs no network, beside them.

The data are made here. ``CMPE_LABELS`` may name a ``.npz`` file of real ones instead, with
``train_x``, ``train_y``, ``test_x``, ``test_y`` (0/1) and ``edges`` (child, parent).
"""

import os

import matplotlib.pyplot as plt
import numpy as np
import torch

import cmpe

quick = "CMPE_QUICK" in os.environ
torch.manual_seed(0)
torch.set_num_threads(1)


def made(rows):
    """27 leaves in a tree of three levels; a row is its leaf's point with noise."""
    rng = np.random.default_rng(0)
    edges = [(v, (v - 3) // 3) for v in range(3, 39)]
    parent = dict(edges)
    points = rng.normal(size=(39, 16)) * np.array([1.5] * 3 + [1.0] * 9 + [0.7] * 27)[:, None]
    leaf = rng.integers(12, 39, rows)
    y = np.zeros((rows, 39), dtype=int)
    for v in (leaf, (leaf - 3) // 3, ((leaf - 3) // 3 - 3) // 3):
        y[np.arange(rows), v] = 1
    x = np.stack([points[v] + points[parent[v]] + points[parent[parent[v]]] for v in leaf])
    return x + 1.3 * rng.normal(size=x.shape), y, np.array(edges)


if "CMPE_LABELS" in os.environ:
    kept = np.load(os.environ["CMPE_LABELS"])
    x, y, test_x, test_y, edges = (
        kept[name] for name in ("train_x", "train_y", "test_x", "test_y", "edges")
    )
else:
    x, y, edges = made(400 if quick else 1200)
    half = len(x) // 2
    x, test_x, y, test_y = x[:half], x[half:], y[:half], y[half:]
x, test_x, y = (torch.tensor(part).float() for part in (x, test_x, y))

# %%
# The hierarchy as rules: a label implies its parent, and on one path no two labels have the same
# parent.

labels = y.shape[1]
nothing = cmpe.LogLinearModel((2,) * labels, ())
implied = [cmpe.implies({int(c): 1}, {int(p): 1}) for c, p in edges]
roots = sorted(set(range(labels)) - set(edges[:, 0].tolist()))
children = [edges[edges[:, 1] == p, 0].tolist() for p in np.unique(edges[:, 1])]
single = [cmpe.at_most_one(dict.fromkeys(each, 1)) for each in children]
single.append(cmpe.exactly_one(dict.fromkeys(roots, 1)))
path = cmpe.torch.Layer(cmpe.Problem(nothing, [*implied, *single]))


def scores(logits):
    """Of the states 0 and 1."""
    return torch.stack([torch.zeros_like(logits), logits], dim=2)


def trained(loss):
    """Logits of the test rows of a network that a loss has trained."""
    net = torch.nn.Sequential(
        torch.nn.Linear(x.shape[1], 64), torch.nn.ReLU(), torch.nn.Linear(64, labels)
    )
    adam = torch.optim.Adam(net.parameters(), 0.01)
    for _ in range(20 if quick else 60):
        for batch in torch.randperm(len(x)).split(100):
            adam.zero_grad()
            loss(net(x[batch]), y[batch]).backward()
            adam.step()
    return net(test_x).detach()


def alone(logits, truth):
    """The cross-entropy of every label by itself."""
    return torch.nn.functional.binary_cross_entropy_with_logits(logits, truth) * labels


def through(logits, truth):
    """The log-probability among the label sets that are a path."""
    return -path(scores(logits)).log_prob(truth.long()).mean()


# %%
# Predictions of the plain network, mended in three ways, and of one trained through the rules.

plain, ruled = trained(alone), trained(through)
thresholded = (plain > 0).numpy()
closed = thresholded.copy()
for child, parent in edges[::-1]:  # children come after their parents
    closed[:, parent] |= closed[:, child]
sets, counts = np.unique(y.numpy(), axis=0, return_counts=True)
predictions = {
    "most frequent set": np.repeat(sets[[counts.argmax()]], len(test_y), axis=0),
    "threshold": thresholded,
    "closed upwards": closed,
    "best path": path(scores(plain)).argmax.numpy(),
    "trained through the path": path(scores(ruled)).argmax.numpy(),
}
right = {name: (found == test_y).all(axis=1).mean() for name, found in predictions.items()}
obeys = {
    name: path.problem.is_feasible(found.astype(int)).mean() for name, found in predictions.items()
}
for name in predictions:
    print(f"{name:25} {right[name]:4.0%} all labels right, {obeys[name]:4.0%} obey the rules")

# %%

fig, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
places = np.arange(len(predictions))
axes.barh(places - 0.2, obeys.values(), 0.38, color="tab:grey", label="obey the rules")
axes.barh(places + 0.2, right.values(), 0.38, color="tab:blue", label="all labels right")
axes.set_yticks(places, list(predictions))
axes.invert_yaxis()
axes.set_xlim(0, 1)
axes.set_xlabel("share of the test rows")
axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.2), ncols=2, frameon=False)
plt.show()
