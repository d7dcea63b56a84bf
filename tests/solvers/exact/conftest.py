"""Small problems that `exact` must treat as too wide to eliminate."""

from __future__ import annotations

import pytest

from cmpe.bounds.splitting import Cut
from cmpe.solvers import exact, reduction
from cmpe.solvers.exact import complete
from cmpe.solvers.wide import race, turns


@pytest.fixture
def wide(monkeypatch):
    """Everything is too wide to eliminate, and reduction has to split and branch."""
    monkeypatch.setattr(exact, "MOST_BYTES", -1)
    monkeypatch.setattr(complete, "MOST_BYTES", -1)
    monkeypatch.setattr(turns, "MOST_BYTES", -1)
    monkeypatch.setattr(turns, "EXACT", turns.EXACT._replace(narrow_bytes=-1))
    monkeypatch.setattr(race.Race, "prove_at_once", lambda self: False)
    monkeypatch.setattr(reduction, "EXACT", reduction.EXACT._replace(narrow_bytes=0))
    monkeypatch.setattr(reduction, "EXACT", reduction.EXACT._replace(split_steps=10))
    monkeypatch.setattr(
        reduction, "by_size", lambda s, work, tied=2: Cut("leaves", 1, work.seed).relaxation(s)
    )
