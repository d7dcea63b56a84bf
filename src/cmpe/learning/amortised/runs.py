"""A network for any question as a directory: config.json and weights.safetensors.

The files are those of `learning.runs`, but the hash is that of the models alone: neither q nor the
evidence variables belong to the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cmpe.arguments import real_number, whole_number
from cmpe.arrays import Floats
from cmpe.errors import EvidenceError, FormatError, InputError
from cmpe.formats.labels import models_digest
from cmpe.learning.amortised.config import AmortisedConfig
from cmpe.learning.amortised.messages import NUMBERS
from cmpe.learning.runs import (
    AMORTISED,
    CONFIG,
    FORMAT_VERSION,
    WEIGHTS,
    description,
    kept_weights,
    write_run,
)
from cmpe.problem import Problem

SCHEDULES = "schedules"


@dataclass(frozen=True)
class AmortisedRun:
    """What a run directory holds of such a network."""

    config: AmortisedConfig
    digest: str  # hash of the models
    schedules: Floats  # (K, NUMBERS), the tuned one first
    rooms: tuple[float, float] = (0.0, 1.0)  # of the questions tuned on (see `messages.Passed`)
    generations: int = 0
    finished: bool = True
    name: str = ""

    def __post_init__(self) -> None:
        single = self.schedules.astype(np.float32)  # as the file has them
        object.__setattr__(self, "schedules", single.astype(np.float64))

    def check_models(self, problem: Problem, who: str) -> None:
        """Refuse a problem with other models than those it was tuned on."""
        if models_digest(problem) == self.digest:
            return
        about = f" ({self.name})" if self.name else ""
        raise EvidenceError(
            f"{who}: trained for other models{about}: their sha256 is {self.digest[:12]}..., found "
            f"{models_digest(problem)[:12]}..."
        )

    def write(self, folder: Path | str) -> None:
        """Write the schedules, and the config that names them."""
        import torch

        described = {
            "format_version": FORMAT_VERSION,
            "kind": AMORTISED,
            "name": self.name,
            "models_sha256": self.digest,
            "generations": self.generations,
            "finished": self.finished,
            "training": self.config.to_json(),
            "rooms": list(self.rooms),
        }
        numbers = torch.as_tensor(self.schedules, dtype=torch.float32)
        write_run(folder, described, {SCHEDULES: numbers})

    @classmethod
    def read(cls, folder: Path | str) -> AmortisedRun:
        """Read a run directory; what does not fit its format, or is of an older one, is refused."""
        place = Path(folder)
        found = description(place / CONFIG, AMORTISED)
        try:
            config = AmortisedConfig.from_json(found["training"])
            low, high = (real_number("rooms", number) for number in found["rooms"])
            generations = whole_number("generations", found["generations"], 0)
            digest, name = str(found["models_sha256"]), str(found["name"])
        except (KeyError, TypeError, ValueError, InputError) as error:
            wrong = str(error) if isinstance(error, InputError) else repr(error)
            expected = "a network for any question of this version"
            raise FormatError.at(
                place / CONFIG, "the file", expected, f"{wrong}; train it again"
            ) from None
        weights = kept_weights(place / WEIGHTS, found.get("weights_sha256"))
        schedules = weights.get(SCHEDULES)
        if schedules is None or schedules.ndim != 2 or schedules.shape[1] != NUMBERS:
            wanted = f"schedules of {NUMBERS} numbers each"
            shape = "none" if schedules is None else f"shape {tuple(schedules.shape)}"
            raise FormatError.at(place / WEIGHTS, SCHEDULES, wanted, f"{shape}; train it again")
        numbers = schedules.double().numpy()
        return cls(config, digest, numbers, (low, high), generations, found["finished"], name)
