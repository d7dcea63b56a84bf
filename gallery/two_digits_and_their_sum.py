"""
Two digits and their sum
========================

Pairs of handwritten digits come with their **sum** only: nobody has labelled a digit. The rule
*first + second = sum* is enough to learn the digits: the loss is minus the log-probability of the
sum under the rule.
"""

import os

import matplotlib.pyplot as plt
import numpy as np
import torch

import cmpe
from cmpe.formats.images import read_images

quick = "CMPE_QUICK" in os.environ
torch.manual_seed(1)
torch.set_num_threads(1)
digits = read_images("digits")

# %%
# One problem for all pairs: two digits, their sum, and the rule that joins them.

model = cmpe.LogLinearModel((10, 10, 19), (), ["first", "second", "sum"])
sums = [(a, b, a + b) for a in range(10) for b in range(10)]
layer = cmpe.torch.Layer(cmpe.Problem(model, [cmpe.allowed(["first", "second", "sum"], sums)]))


def pairs(images, labels, count, seed):
    """Images of two digits, which these are, and what they add up to."""
    chosen = np.random.default_rng(seed).integers(0, len(images), (2, count))
    x = torch.tensor(images[chosen]).float()
    known = torch.tensor(labels[chosen])
    return x, known, known.sum(dim=0)


x, _, total = pairs(digits.train, digits.train_labels, 800 if quick else 3000, 0)
test_x, test_digits, test_total = pairs(digits.test, digits.test_labels, 500, 1)

# %%
# The probability of a sum is the share of Z that it has: two log-partitions, with the sum left open
# and with it fixed.

net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
adam = torch.optim.Adam(net.parameters(), 0.005)


def fixed(total):
    """Scores that forbid every other sum."""
    return torch.full((len(total), 19), -torch.inf).scatter(1, total[:, None], 0.0)


curve = []
for _ in range(8 if quick else 25):
    for batch in torch.randperm(len(total)).split(100):
        given = {"first": net(x[0, batch]), "second": net(x[1, batch])}
        whole = layer(given).log_partition
        loss = whole - layer({**given, "sum": fixed(total[batch])}).log_partition
        adam.zero_grad()
        loss.mean().backward()
        adam.step()
    seen = net(test_x).argmax(dim=2)
    curve.append((seen == test_digits).double().mean().item())

# %%
# What it learnt of digits, and what the rule adds where the sum is known at test time, too.

logits = net(test_x).detach()
alone = logits.argmax(dim=2)
known = layer({"first": logits[0], "second": logits[1], "sum": fixed(test_total)}).argmax[:, :2].T
most = torch.bincount(total).argmax()
reports = {
    "most frequent sum, no network": (most == test_total).double().mean(),
    "sum of the two likeliest digits": (alone.sum(dim=0) == test_total).double().mean(),
    "both digits, each alone": (alone == test_digits).all(dim=0).double().mean(),
    "both digits, given the sum": (known == test_digits).all(dim=0).double().mean(),
}
for name, share in reports.items():
    print(f"{name:32} {share.item():4.0%} right")

# %%

fig, (left, right) = plt.subplots(1, 2, figsize=(8.5, 3.2), layout="constrained")
left.plot(range(1, len(curve) + 1), curve, color="tab:blue")
left.set_xlabel("passes over the pairs")
left.set_ylabel("single digits right")
left.set_ylim(0, 1)
left.set_title("learnt from sums alone")
for i in range(6):
    place = right.inset_axes((0.04 + 0.5 * (i % 2), 0.7 - 0.34 * (i // 2), 0.42, 0.22))
    place.imshow(np.hstack([test_x[0, i].reshape(8, 8), test_x[1, i].reshape(8, 8)]), cmap="Greys")
    place.set_axis_off()
    place.set_title(f"{known[0, i]} + {known[1, i]} = {test_total[i]}", fontsize=10)
right.set_axis_off()
right.plot([], [])
plt.show()
