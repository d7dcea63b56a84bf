"""
The nearest plausible counterfactual
====================================

A digit is a three. What is the least that would have to change for it to be an eight, and still
look like a digit? A tree learned from 8 x 8 digits and their labels says what is plausible; the
question is a constrained most probable explanation, and the answer is proved to be the nearest.
"""

import matplotlib.pyplot as plt
import numpy as np

import cmpe
from cmpe.formats.images import read_images

images = read_images("digits")
black = (images.train > 0.4).astype(np.int32)
chosen = np.isin(images.train_labels, (3, 8))
rows = np.column_stack([black, images.train_labels == 8])[chosen].astype(np.int32)
names = [f"pixel {v // 8},{v % 8}" for v in range(64)] + ["eight"]
tree = cmpe.learn_chow_liu(rows)
model = tree.to_loglinear()
print(model)

# %%
# The case: a three of the training data. `at_least` is the plausibility that is asked for: that of
# the digit at the 20th percentile of the data.

threes = rows[rows[:, -1] == 0]
case = threes[np.argsort(model.value(threes))[len(threes) // 2]]
plausible = float(np.percentile(model.value(rows[rows[:, -1] == 1]), 20))
query = cmpe.queries.counterfactual(
    model, dict(enumerate(case.tolist())), {64: 1}, at_least=plausible
)
answer = cmpe.solve(*query)[0]
changed = np.flatnonzero(answer.assignment[:64] != case[:64])
print(f"{len(changed)} pixels change; {answer.proof}")

# %%
# How many pixels must change depends on how plausible the result has to be.

levels = np.percentile(model.value(rows[rows[:, -1] == 1]), [1, 5, 10, 20, 35, 50, 65, 80])
fewest = []
for level in levels:
    posed = cmpe.queries.counterfactual(
        model, dict(enumerate(case.tolist())), {64: 1}, at_least=float(level)
    )
    fewest.append(-cmpe.solve(*posed)[0].objective)

fig, axes = plt.subplots(1, 4, figsize=(10, 3), width_ratios=(1, 1, 1, 1.6), layout="constrained")
before, after = case[:64].reshape(8, 8), answer.assignment[:64].reshape(8, 8)
for ax, picture, title in zip(
    axes, (before, after, after - before), ("a three", "the nearest eight", "what changed"),
    strict=False,
):  # fmt: skip
    ax.imshow(picture, cmap="RdBu" if title == "what changed" else "Greys", vmin=-1 if
              title == "what changed" else 0, vmax=1)  # fmt: skip
    ax.set_title(title, fontsize=11)
    ax.set_xticks([])
    ax.set_yticks([])
axes[3].plot(levels, fewest, "o-", color="tab:blue")
axes[3].axvline(plausible, color="tab:grey", ls=":")
axes[3].set_xlabel("log-probability asked for (nats)")
axes[3].set_title("pixels that change, proved", fontsize=11)
plt.show()
