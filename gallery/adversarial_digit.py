"""
An adversarial digit, with proof
================================

How little must change in a picture of a digit for a network to see another one? The attack finds a
small change at once; a mixed-integer program proves how small a change can be at all. Both are
answers to the same problem: minimise the distance subject to the network's decision.
"""

import os

import matplotlib.pyplot as plt
import numpy as np

import cmpe
from cmpe.formats.images import read_images
from cmpe.learning.classifier import FEW, train_classifier

quick = "CMPE_QUICK" in os.environ
images = read_images("digits")
(network,) = train_classifier(images.train, images.train_labels, FEW)

# %%
# A picture that the network classifies well, as evidence; the changed picture is what is free.

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
