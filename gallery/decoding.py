"""
Decoding with a limit
=====================

A message travels through a noisy channel, protected by a convolutional code: every message bit is
sent as two parities of itself and the bits before it. The decoder looks for the most probable
message. Here a limit says that **at most a given number of bits were flipped**: a block that needs
more is rejected, and the rejection is proved. Parity checks are tables with zero potentials, the
limit is a count over pairs.
"""

import os

import matplotlib.pyplot as plt
import numpy as np

import cmpe

quick = "CMPE_QUICK" in os.environ
length, blocks = 40, 50 if quick else 1000
flip = 0.08
rng = np.random.default_rng(4)

# %%
# Variables: the message bits, the two coded bits of each step, and the two received ones. The
# parities are hard constraints: a table entry of -inf is a zero potential.

even = np.where(np.indices((2, 2, 2)).sum(0) % 2 == 0, 0.0, -np.inf)
even_of_four = np.where(np.indices((2, 2, 2, 2)).sum(0) % 2 == 0, 0.0, -np.inf)
message = np.arange(length)
coded = length + np.arange(2 * length).reshape(2, length)
received = 3 * length + np.arange(2 * length).reshape(2, length)
code = []
for k in range(2, length):
    code.append(((k, k - 1, k - 2, int(coded[0, k])), even_of_four))  # 1 + D + D^2
    code.append(((k, k - 2, int(coded[1, k])), even))  # 1 + D^2
link = np.log([[1 - flip, flip], [flip, 1 - flip]])
pairs = list(zip(coded.ravel().tolist(), received.ravel().tolist(), strict=True))
model = cmpe.LogLinearModel.from_tables([2] * 5 * length, code + [(pair, link) for pair in pairs])
flips = cmpe.LogLinearModel.from_tables(
    [2] * 5 * length, [(pair, [[0, 1], [1, 0]]) for pair in pairs]
)

# %%
# The word of zeros is sent (the code is linear, so nothing is lost), and every bit is flipped with
# probability 8 %. The first two message bits are known to be 0, as usual.

evidence = np.full((blocks, 5 * length), -1)
evidence[:, received.ravel()] = rng.random((blocks, 2 * length)) < flip
evidence[:, :2] = 0

limits = (3, 5, 7, 9, 80)
shares = []
for limit in limits:
    answers = cmpe.solve(cmpe.Problem(model, [flips <= limit]), evidence)
    right = answers.feasible & (answers.assignments[:, :length] == 0).all(1)
    rejected = answers.status == cmpe.Status.INFEASIBLE
    shares.append((right.mean(), rejected.mean(), (answers.feasible & ~right).mean()))
    print(
        f"at most {limit:2} flips: decoded right {right.mean():.0%}, "
        f"rejected {rejected.mean():.0%}, {1e6 * answers.seconds.mean():.0f} us a block"
    )

# %%
# A tight limit rejects blocks that could have been decoded; without a limit, wrong messages pass.

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
bottom = np.zeros(len(limits))
for share, label, colour in zip(
    np.array(shares).T,
    ("decoded right", "rejected, proved", "another message"),
    ("tab:blue", "lightgrey", "tab:red"),
    strict=True,
):
    names = [f"{limit}" if limit < 80 else "no limit" for limit in limits]
    ax.bar(names, share, bottom=bottom, label=label, color=colour)
    bottom += share
ax.set_xlabel("most flips allowed")
ax.set_ylabel("share of blocks")
ax.set_title(f"{blocks} blocks of {length} message bits, {flip:.0%} of the sent bits flipped")
ax.legend(loc="lower right")
plt.show()
