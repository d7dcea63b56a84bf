"""
The nearest plausible counterfactual
====================================

A digit is a three. What is the smallest change that makes it an eight, and a plausible one? Two
trees learned from 8 x 8 digits are models of threes and eights. The answer must be likely as an
eight, and likelier as an eight than as a three; it is proved to be the nearest such picture.
"""

import matplotlib.pyplot as plt
import numpy as np

import cmpe
from cmpe.formats.images import read_images

images = read_images("digits")
black = (images.train > 0.4).astype(np.int32)
threes, eights = (black[images.train_labels == digit] for digit in (3, 8))
three, eight = (cmpe.learn_chow_liu(rows).to_model() for rows in (threes, eights))

# %%
# The case is a typical three. The result must be as likely an eight as the eight at the 25th
# percentile of the data, and at least three nats likelier as an eight than as a three.

case = threes[np.argsort(three.value(threes))[len(threes) // 2]]
plausible = float(np.percentile(eight.value(eights), 25))


def nearest(level):
    """Fewest changed pixels such that both demands are met."""
    likely = cmpe.queries.nearest_assignment(eight, case.tolist(), at_least=level)
    decided = eight - three >= 3.0
    return cmpe.solve(cmpe.Problem(likely.objective, [eight >= level, decided]))[0]


answer = nearest(plausible)
print(f"{-answer.objective:.0f} pixels change; {answer.proof}")

# %%
# How many pixels must change depends on how plausible the result has to be.

levels = np.percentile(eight.value(eights), [1, 10, 25, 50, 75])
fewest = [-nearest(float(level)).objective for level in levels]

fig, axes = plt.subplots(1, 4, figsize=(10, 3), width_ratios=(1, 1, 1, 1.6), layout="constrained")
before, after = case.reshape(8, 8), answer.assignment.reshape(8, 8)
shown = (before, "a three"), (after, "the nearest eight"), (before - after, "what changed")
for ax, (picture, title) in zip(axes, shown, strict=False):
    changes = title == "what changed"
    ax.imshow(picture, cmap="RdBu" if changes else "Greys", vmin=-changes, vmax=1)
    ax.set_title(title, fontsize=11)
    ax.set_xticks([])
    ax.set_yticks([])
axes[3].plot(levels, fewest, "o-", color="tab:blue")
axes[3].axvline(plausible, color="tab:grey", ls=":")
axes[3].set_ylim(bottom=0)
axes[3].set_xlabel("log-probability asked for (nats)")
axes[3].set_title("pixels that change, proved", fontsize=11)
plt.show()
