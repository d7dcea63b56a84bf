"""
A tagger with rules
===================

Names in a sentence are tagged B (begins), I (goes on) or O (is none). An I follows a B or an I, and
here every sentence has at most two names. A tagger that scores every word alone breaks both rules.
"""

import os
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import torch

import cmpe

quick = "CMPE_QUICK" in os.environ
torch.manual_seed(0)
torch.set_num_threads(1)
words, tags = 12, ["O", "B", "I"]

# %%
# The rules, for sentences of twelve words. The count runs along the sentence in the sums, too.

names = [f"w{i}" for i in range(words)]
model = cmpe.LogLinearModel((3,) * words, (), names, [tags] * words)
rules = [cmpe.implies({a: ["O"]}, {b: ["O", "B"]}) for a, b in pairwise(names)]
rules.append(cmpe.at_least_one({"w0": ["O", "B"]}))
rules.append(cmpe.count(dict.fromkeys(names, "B"), name="names") <= 2)
layer = cmpe.torch.Layer(cmpe.Problem(model, rules))


def sentences(count, seed):
    """Sentences that obey, and a noisy vector for each word."""
    rng = np.random.default_rng(seed)
    meaning = np.random.default_rng(0).normal(size=(3, 6))
    y = np.zeros((count, words), dtype=int)
    for row in y:
        for start in rng.choice([0, 6], rng.integers(0, 3), replace=False):
            at, length = start + rng.integers(0, 3), rng.integers(1, 4)
            row[at], row[at + 1 : at + length] = 1, 2
    return torch.tensor(meaning[y] + 1.4 * rng.normal(size=(count, words, 6))).float(), y


x, y = sentences(150 if quick else 400, 1)
test_x, test_y = sentences(400, 2)
y = torch.tensor(y)


def trained(loss):
    """Scores of the test words."""
    net = torch.nn.Linear(6, 3)
    adam = torch.optim.Adam(net.parameters(), 0.03)
    for _ in range(10 if quick else 40):
        for batch in torch.randperm(len(x)).split(50):
            adam.zero_grad()
            loss(net(x[batch]), y[batch]).backward()
            adam.step()
    return net(test_x).detach()


def alone(logits, truth):
    """The cross-entropy of every word by itself."""
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), truth.flatten())


def through(logits, truth):
    """The log-probability of the sentence among those that obey."""
    return -layer(logits).log_prob(truth).mean()


# %%
# The control is the most frequent sentence of tags. "Mended" turns an I that follows an O into a B.

plain, ruled = trained(alone), trained(through)
single = plain.argmax(dim=2).numpy()
mended = single.copy()
for i in range(words):
    before = mended[:, i - 1] if i else np.zeros(len(mended), dtype=int)
    mended[:, i] = np.where((mended[:, i] == 2) & (before == 0), 1, mended[:, i])
sets, counts = np.unique(y.numpy(), axis=0, return_counts=True)
predictions = {
    "most frequent tags": np.repeat(sets[[counts.argmax()]], len(test_y), axis=0),
    "each word alone": single,
    "mended": mended,
    "best sentence": layer(plain).argmax.numpy(),
    "trained through the rules": layer(ruled).argmax.numpy(),
}
problem, right, obeys = layer.problem, {}, {}
for name, found in predictions.items():
    right[name] = (found == test_y).all(axis=1).mean()
    obeys[name] = problem.is_feasible(found).mean()
    print(f"{name:26} {right[name]:4.0%} sentences right, {obeys[name]:4.0%} obey the rules")

# %%

fig, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
places = np.arange(len(predictions))
axes.barh(places - 0.2, obeys.values(), 0.38, color="tab:grey", label="obey the rules")
axes.barh(places + 0.2, right.values(), 0.38, color="tab:blue", label="all tags right")
axes.set_yticks(places, list(predictions))
axes.invert_yaxis()
axes.set_xlim(0, 1)
axes.set_xlabel("share of the test sentences")
axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.2), ncols=2, frameon=False)
plt.show()
