"""TensorBoard, where it is installed: the numbers of every epoch under RUN/tensorboard."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Board:
    """Writes the records of a run; does nothing without TensorBoard or without a directory."""

    def __init__(self, out: Path | None) -> None:
        self._writer: Any = None
        if out is None:
            return
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            return
        self._writer = SummaryWriter(str(out / "tensorboard"))

    def show(self, record: Mapping[str, Any]) -> None:
        """Add every number of an epoch's record."""
        if self._writer is None:
            return
        for name, value in record.items():
            if value is not None and name not in ("epoch", "epochs"):
                self._writer.add_scalar(name, value, record["epoch"])

    def close(self) -> None:
        """Flush what is buffered."""
        if self._writer is not None:
            self._writer.close()
