"""The stages that follow the pass of a trained network."""

from __future__ import annotations

from dataclasses import dataclass

from cmpe.errors import MethodError
from cmpe.learning.certificates import CERTIFICATES


@dataclass(frozen=True)
class Pipeline:
    """What runs after the forward pass, and which margins the network is asked to keep."""

    margins: tuple[float, ...] | None = None  # None: the calibrated one
    repair: bool = True
    certificate: str = "optimal"
    search_passes: int = 0  # passes of search over every row, where no time is given
    sweeps: int = 3  # rounds of repair: chains and exchanges, or linearisations of flips
    levels: bool = False  # adversarial answers in 8-bit levels

    def __post_init__(self) -> None:
        if self.certificate not in CERTIFICATES:
            raise MethodError(
                f"a certificate is one of {', '.join(CERTIFICATES)}; found {self.certificate!r}"
            )
        if self.margins is not None:
            object.__setattr__(self, "margins", tuple(float(m) for m in self.margins))
            if not self.margins:
                raise MethodError("margins must be None or at least one number, found none")
        if min(self.search_passes, self.sweeps) < 0:
            raise MethodError("search_passes and sweeps must be at least 0")

    def method(self, *, searches: bool) -> str:
        """The stages as `Solutions.method` names them."""
        passes = len(self.margins or ("calibrated",))
        parts = ["network" if passes == 1 else f"network x {passes}"]
        if searches:
            parts.append("search")
        elif self.repair:
            parts.append("repair")
        parts += [] if self.certificate == "none" else [f"{self.certificate} bound"]
        return " + ".join(parts)
