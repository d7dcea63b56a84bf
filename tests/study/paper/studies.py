"""A study small enough for tests: one grid, one percentile, a network of eight hidden units."""

from __future__ import annotations

from typing import Any

from cmpe.execution.local import InProcess
from study.paper.description import Study, study_of

TINY: dict[str, Any] = {
    "recipe": {"evidence_fraction": 0.6, "noise_variance": 0.1, "seed": 0},
    "datasets": {"grid": {"group": "uai", "stand_in": {"grid": [4, 4], "seed": 1}}},
    "methods": {
        "exact": {"solver": "exact"},
        "constant": {"solver": "constant"},
        "lagrangian": {"solver": "lagrangian"},
        "milp:highs": {"solver": "milp:highs", "few": True},
        "mse": {"network": "paper"},
        "ss_cmpe_pen": {"network": "paper", "grid": ["beta", "rho"]},
        "tuned": {"network": "tuned", "loss": "ss_cmpe"},
        "tuned+moves": {"repair": "tuned"},
        "tuned+repair": {"repair": "tuned", "kicks": 5},
    },
    "scales": {
        "tiny": {
            "datasets": ["grid"],
            "percentiles": [30],
            "seeds": [0, 1],
            "samples": 60,
            "few_rows": 2,
            "few_percentiles": [30],
            "budgets": [1.0, 5.0],
            "selection": {"folds": 2, "epochs": 1, "beta": [1.0, 5.0], "rho": [0.1]},
            "changes": {
                "paper": {"epochs": 2, "hidden": [8], "batch_size": 16, "evaluate_every": 1},
                "tuned": {"epochs": 2, "hidden": [8], "batch_size": 16, "margins": [0.0, 1.0]},
            },
        }
    },
}


def tiny(**changes: Any) -> Study:
    """The study with other fields of its scale."""
    scale = {**TINY["scales"]["tiny"], **changes}
    return study_of({**TINY, "scales": {"tiny": scale}}, "tiny")


class Counting(InProcess):
    """Counts how often each task runs, and breaks off after `most` of them."""

    def __init__(self, most: int | None = None) -> None:
        super().__init__()
        self.ran: list[str] = []
        self._most = most

    def next(self) -> Any:
        if len(self.ran) == self._most:
            raise KeyboardInterrupt
        outcome = super().next()
        self.ran.append(outcome.name)
        return outcome
