"""The numbers of a message network that are tuned: its *schedule*, and weights that follow it."""

from __future__ import annotations

import torch
from torch import Tensor

NUMBERS = 18
LEAN = 12  # which of them is how far answers lean over the limit


def scheduled(weights: dict[str, Tensor], numbers: Tensor) -> dict[str, Tensor]:
    """Weights of a message network with changes of its schedule; all 0: as it was."""
    out = {name: value.clone() for name, value in weights.items()}
    rounds = len(out["damping"])
    along = torch.linspace(0.0, 1.0, rounds)
    a = numbers.float()
    out["log_temperature"] += a[0] + a[1] * along
    out["log_temperature_by"] += torch.stack([a[2], a[3]])
    out["damping"] += a[4] + a[5] * along
    out["damping_by"][:, 0] += a[6]
    out["price_step"] *= torch.exp(a[7] + a[8] * along)
    out["first_price"] += a[9]
    for name in ("first_in", "first_out"):
        out[name].zero_()
    out["first_in"][0, 0] = out["first_in"][1, 1] = 1.0  # the room, and the share of free ones
    out["first_out"][:2] = a[10:12]
    out["lean"] = a[LEAN : LEAN + 3].clone()
    out["price_step_by"] += a[15:17]
    out["damping_by"][:, 1] += a[17]
    return out
