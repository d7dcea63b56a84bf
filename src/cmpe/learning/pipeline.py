"""The stages that follow the pass of a trained network."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_type_hints

from cmpe.errors import MethodError
from cmpe.learning.certificates import CERTIFICATES


@dataclass(frozen=True)
class Pipeline:
    """What runs after the forward pass, and which margins the network is asked to keep."""

    margins: tuple[float, ...] | None = None  # None: those that calibration chose
    repair: bool = True
    certificate: str = "optimal"
    search_passes: int = 0  # passes of search over every row, where no time is given
    sweeps: int = 3  # rounds of repair: chains and exchanges

    def __post_init__(self) -> None:
        if self.certificate not in CERTIFICATES:
            raise MethodError(
                f"a certificate is one of {', '.join(CERTIFICATES)}; found {self.certificate!r}"
            )
        if self.margins is not None:
            object.__setattr__(self, "margins", tuple(float(m) for m in self.margins))
            if not self.margins:
                raise MethodError("margins must be None or at least one number, found none")
            if not all(map(math.isfinite, self.margins)):
                raise MethodError(f"margins must be finite, found {self.margins}")
        if min(self.search_passes, self.sweeps) < 0:
            raise MethodError("search_passes and sweeps must be at least 0")

    def method(self, calibrated: int = 1, *, searches: bool) -> str:
        """The stages as `Solutions.method` names them; `calibrated` passes unless others are."""
        passes = len(self.margins or ()) or calibrated
        parts = ["network" if passes == 1 else f"network x {passes}"]
        if searches:
            parts.append("search")
        elif self.repair:
            parts.append("repair")
        parts += [] if self.certificate == "none" else [f"{self.certificate} bound"]
        return " + ".join(parts)


def parse_stages(text: str) -> dict[str, Any]:
    """The stages in text as `repair=no,sweeps=2,margins=0:1.2`, for `NeuralSolver.with_stages`."""
    types = get_type_hints(Pipeline)
    found: dict[str, Any] = {}
    for pair in text.split(","):
        name, equals, value = (word.strip() for word in pair.partition("="))
        if not equals or name not in types or name in found:
            raise MethodError(
                f"stages are NAME=VALUE, each NAME once of {', '.join(types)}; found {pair!r}"
            )
        read, expected = _VALUES[types[name]]
        try:
            found[name] = read(value)
        except (KeyError, ValueError):
            raise MethodError(f"stage {name} is {expected}; found {value!r}") from None
    Pipeline(**found)  # refuses what no run could do
    return found


# How a value of each type is written, and the words for it.
_VALUES: dict[Any, tuple[Callable[[str], Any], str]] = {
    bool: ({"yes": True, "no": False}.__getitem__, "yes or no"),
    int: (int, "a whole number"),
    str: (str, "a word"),
    tuple[float, ...] | None: (lambda text: tuple(map(float, text.split(":"))), "as in 0:1.2"),
}
