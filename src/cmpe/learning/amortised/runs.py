"""A network for any question as a directory: config.json and weights.safetensors.

The files are those of `learning.runs`, but the hash is that of the models alone: neither q nor the
evidence variables belong to the run. A network trained on many models has no hash, and answers
any model.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from cmpe.arguments import real_number, whole_number
from cmpe.errors import EvidenceError, FormatError, InputError
from cmpe.formats.labels import models_digest
from cmpe.learning.amortised.config import AmortisedConfig
from cmpe.learning.amortised.tuning.schedules import NUMBERS, scheduled
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
    digest: str  # hash of the models; empty: any
    parameters: dict[str, Tensor]
    depths: tuple[float, float] = (0.0, 1.0)  # of the questions trained on (see `questions`)
    updates: int = 0
    finished: bool = True
    name: str = ""
    schedules: Tensor | None = None  # (K, NUMBERS): changes of the parameters, each asked

    @property
    def weights(self) -> list[dict[str, Tensor]]:
        """Those of every network that is asked, the best first."""
        if self.schedules is None:
            return [self.parameters]
        return [scheduled(self.parameters, numbers) for numbers in self.schedules]

    def check_models(self, problem: Problem, who: str) -> None:
        """Refuse a problem with other models than those it was trained on."""
        if not self.digest or models_digest(problem) == self.digest:
            return
        about = f" ({self.name})" if self.name else ""
        raise EvidenceError(
            f"{who}: trained for other models{about}: their sha256 is {self.digest[:12]}..., found "
            f"{models_digest(problem)[:12]}..."
        )

    def write(self, folder: Path | str) -> None:
        """Write weights, and the config that names them."""
        described = {
            "format_version": FORMAT_VERSION,
            "kind": AMORTISED,
            "name": self.name,
            "models_sha256": self.digest,
            "updates": self.updates,
            "finished": self.finished,
            "training": self.config.to_json(),
            "depths": list(self.depths),
        }
        schedules = {} if self.schedules is None else {SCHEDULES: self.schedules}
        write_run(folder, described, {**self.parameters, **schedules})

    @classmethod
    def read(cls, folder: Path | str) -> AmortisedRun:
        """Read a run directory; what does not fit its format is refused."""
        place = Path(folder)
        found = description(place / CONFIG, AMORTISED)
        try:
            config = AmortisedConfig.from_json(found["training"])
            low, high = (real_number("depths", number) for number in found["depths"])
            updates = whole_number("updates", found["updates"], 0)
            digest, name = str(found["models_sha256"]), str(found["name"])
        except (KeyError, TypeError, ValueError, InputError) as error:
            wrong = str(error) if isinstance(error, InputError) else repr(error)
            raise FormatError.at(place / CONFIG, "the file", "a trained solver", wrong) from None
        weights = kept_weights(place / WEIGHTS, found.get("weights_sha256"))
        schedules = weights.pop(SCHEDULES, None)
        if config.tuned and (schedules is None or schedules.shape[1:] != (NUMBERS,)):
            wanted = f"schedules of {NUMBERS} numbers each"
            found_shape = "none" if schedules is None else f"shape {tuple(schedules.shape)}"
            raise FormatError.at(
                place / WEIGHTS, SCHEDULES, wanted, f"{found_shape}; train it again"
            )
        return cls(
            config, digest, weights, (low, high), updates, found["finished"], name, schedules
        )
