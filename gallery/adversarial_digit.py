"""
An adversarial digit, with proof
================================

How small a change of a picture of a digit makes a network see another digit? The attack finds a
small change at once; a mixed-integer program proves the smallest possible one. Both are answers to
the same problem: minimise the distance subject to the network's decision.
"""

import os

import matplotlib.pyplot as plt
import numpy as np
import torch

import cmpe
from cmpe.formats.images import read_images

quick = "CMPE_QUICK" in os.environ
images = read_images("digits")
pixels = torch.tensor(images.train, dtype=torch.float32)
labels = torch.tensor(images.train_labels)

# %%
# A classifier as you would train it: two affine layers with ReLU between them.

torch.manual_seed(0)
layers = torch.nn.Sequential(
    torch.nn.Linear(pixels.shape[1], 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)
)
adam = torch.optim.Adam(layers.parameters(), lr=1e-2)
for _ in range(100):
    adam.zero_grad()
    torch.nn.functional.cross_entropy(layers(pixels), labels).backward()
    adam.step()
network = cmpe.ReluNetwork.of(layers)

# %%
# The evidence is a picture that the network classifies correctly; the changed picture is free.

test = images.test
sure = np.flatnonzero(network.decide(test) == images.test_labels)[: 1 if quick else 3]
problem = cmpe.queries.adversarial(network)
near = cmpe.solve(problem, test[sure], method="local")
best = cmpe.solve(problem, test[sure], method="milp", time_limit=5 if quick else 15)
for number in range(len(sure)):
    print(
        f"found {-near.objective[number]:.3f}, proved: no change below {-best.bound[number]:.3f} "
        f"({best.labels[number]})"
    )

# %%

fig, axes = plt.subplots(
    len(sure), 3, figsize=(7.5, 2.6 * len(sure)), squeeze=False, layout="constrained"
)
changed = best.assignments[:, test.shape[1] :]
for line, before, after in zip(axes, test[sure], changed, strict=True):
    seen = network.decide(np.array([before, after]))
    pictures = (before, after, after - before)
    titles = (f"the network sees {seen[0]}", f"and here {seen[1]}", "what changed")
    for ax, picture, title in zip(line, pictures, titles, strict=True):
        last = title == "what changed"
        ax.imshow(picture.reshape(8, 8), cmap="RdBu" if last else "Greys", vmin=-last, vmax=1)
        ax.set_title(title, fontsize=11)
        ax.set_xticks([])
        ax.set_yticks([])
plt.show()
