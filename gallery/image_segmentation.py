"""
Segmentation under an area limit
================================

Which pixels belong to the person? Every pixel has a log-likelihood of each answer, neighbours like
to agree, the more so the more alike they look: a Markov random field. It is often known how large
the object may be. As a constraint this is one line, and the answer comes with a bound on what any
segmentation of that area can reach.

The picture is the portrait of Grace Hopper that matplotlib ships.
"""

import os

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.cbook import get_sample_data

import cmpe

quick = "CMPE_QUICK" in os.environ
step = 24 if quick else 12
seconds = 0.4 if quick else 5.0

with get_sample_data("grace_hopper.jpg") as file:
    photo = plt.imread(file)[: 50 * 12, : 42 * 12] / 255.0
small = photo.reshape(photo.shape[0] // step, step, photo.shape[1] // step, step, 3).mean((1, 3))
height, width = small.shape[:2]

# %%
# Unary terms: colours of a strip of the upper corners are the background's, those of an ellipse in
# the middle the person's; both as Gaussians. Pairwise terms: a bonus for equal labels that fades
# where colours differ.

rows, columns = np.mgrid[:height, :width] / np.array([height, width])[:, None, None]
background = (rows < 0.5) & ((columns < 0.12) | (columns > 0.88))
person = ((rows - 0.55) / 0.42) ** 2 + ((columns - 0.5) / 0.2) ** 2 < 1


def log_likelihood(mask):
    """Of every pixel's colour, under a Gaussian fitted to the colours of a mask."""
    colours = small[mask]
    spread = np.cov(colours.T) + 1e-3 * np.eye(3)
    off = small - colours.mean(0)
    return -0.5 * (np.einsum("rci,ij,rcj->rc", off, np.linalg.inv(spread), off))


gain = np.clip(log_likelihood(person) - log_likelihood(background), -4, 4)
gain[background] = -4
number = np.arange(height * width).reshape(height, width)
tables = [((int(v),), [0.0, g]) for v, g in zip(number.ravel(), gain.ravel(), strict=True)]
for here, there, difference in (
    (number[:, :-1], number[:, 1:], np.diff(small, axis=1)),
    (number[:-1], number[1:], np.diff(small, axis=0)),
):
    bonus = 0.3 + 2.5 * np.exp(-12 * (difference**2).sum(-1))
    for a, b, value in zip(here.ravel(), there.ravel(), bonus.ravel(), strict=True):
        tables.append(((int(a), int(b)), [[value, 0.0], [0.0, value]]))
field = cmpe.LogLinearModel.from_tables([2] * number.size, tables)

# %%
# Without a limit, and with limits on the area. The grid is far too wide to eliminate. ``search``
# finds good answers quickly; ``auto``, started from them, improves what it can and adds a bound.

area = cmpe.count(dict.fromkeys(range(number.size), 1))


def solved(*constraints):
    """The best segmentation found in the time, with a bound."""
    problem = cmpe.Problem(field, constraints)
    quickly = cmpe.solve(problem, method="search", time_limit=seconds / 2)
    return cmpe.solve(problem, start=quickly, time_limit=seconds)


free = solved()
whole = int(free.assignments.sum())
shares = (0.85, 0.6) if quick else (0.85, 0.7, 0.6, 0.4)
limited = {share: solved(area <= int(share * whole)) for share in shares}
for share, answer in limited.items():
    gap = answer.bound[0] - answer.objective[0]
    print(f"{share:.0%} of the area: {answer.labels[0]}, certified gap {gap:.3f} nats")

# %%


def show(ax, answer, title):
    """The picture with everything outside the segment faded."""
    mask = answer.assignments.reshape(height, width).astype(bool)
    ax.imshow(np.where(mask[..., None], small, 0.75 + 0.25 * small))
    ax.contour(mask, [0.5], colors="tab:red", linewidths=1)
    ax.set_title(title)
    ax.axis("off")


plt.rcParams.update({"font.size": 13, "axes.titlesize": 13})  # to be read on a phone, too
fig = plt.figure(figsize=(6.4, 4.6), layout="constrained")
axes = fig.subplot_mosaic([["photo", "free", "limited"], ["front"] * 3], height_ratios=(1.7, 1))
axes["photo"].imshow(photo)
axes["photo"].axis("off")
axes["photo"].set_title("photograph")
show(axes["free"], free, f"no limit: {whole}")
show(axes["limited"], limited[0.85], f"at most {int(0.85 * whole)}")
sizes = [whole, *(int(share * whole) for share in shares)]
values = [free.objective[0], *(a.objective[0] for a in limited.values())]
# What bounds a larger area bounds a smaller one, too.
bounds = np.minimum.accumulate([free.bound[0], *(a.bound[0] for a in limited.values())])
axes["front"].plot(sizes, bounds, "--", color="tab:grey", label="nothing is above: proved")
axes["front"].plot(sizes, values, "o-", color="tab:blue", label="found")
axes["front"].set_xlabel("limit on the area (pixels)")
axes["front"].set_ylabel("log-weight")
axes["front"].locator_params(axis="y", nbins=4)
axes["front"].legend(frameon=False)
plt.show()

# %%
# Many images
# -----------
# A batch of images shares the grid; each has scores of its own and its own limit. Here the
# portrait is seen through more and more noise, at half the resolution, and each segment may have
# 90 % of the area that it would have without a limit. One call answers them all.

count, side = 6, 24
coarse = photo.reshape(photo.shape[0] // side, side, photo.shape[1] // side, side, 3).mean((1, 3))
high, wide = coarse.shape[:2]
noise = np.random.default_rng(0).normal(size=(count, high, wide, 3))
seen = np.clip(coarse + np.linspace(0, 0.35, count)[:, None, None, None] * noise, 0, 1)


def likelihood(images, mask):
    """Of every pixel's colour in each image, under a Gaussian fitted to the first one's."""
    colours = images[0][mask]
    off = images - colours.mean(0)
    precision = np.linalg.inv(np.cov(colours.T) + 0.02 * np.eye(3))
    return -0.5 * np.einsum("brci,ij,brcj->brc", off, precision, off)


y, x = np.mgrid[:high, :wide] / np.array([high, wide])[:, None, None]
corners = (y < 0.5) & ((x < 0.12) | (x > 0.88))
middle = ((y - 0.55) / 0.42) ** 2 + ((x - 0.5) / 0.2) ** 2 < 1
scores = np.zeros((count, high * wide, 2))
scores[:, :, 1] = np.clip(likelihood(seen, middle) - likelihood(seen, corners), -3, 3).reshape(
    count, -1
)
scores[:, corners.ravel(), 1] = -3

pixel = np.arange(high * wide).reshape(high, wide)
pairs = [*zip(pixel[:, :-1].flat, pixel[:, 1:].flat, strict=True)]
pairs += zip(pixel[:-1].flat, pixel[1:].flat, strict=True)
shared = cmpe.LogLinearModel.from_tables([2] * pixel.size, [(p, 1.5 * np.eye(2)) for p in pairs])
size = cmpe.count(dict.fromkeys(range(pixel.size), 1), name="area")
images = cmpe.Problem(shared, [size <= pixel.size])
free = cmpe.solve(images, potentials=scores)
most = np.floor(0.9 * free.constraint_values[:, 0])
limited = cmpe.solve(images, potentials=scores, limits={"area": most})
print(limited.summary)

fig, axes = plt.subplots(2, count, figsize=(6.4, 2.8), layout="constrained")
for row, (top, below) in enumerate(axes.T):
    top.imshow(seen[row])
    below.imshow(seen[row] * limited.assignments[row].reshape(high, wide, 1))
    below.set_title(f"at most {most[row]:.0f}", fontsize=10)
for axis in axes.ravel():
    axis.axis("off")
plt.show()
