"""Two small models and two rows in the folder of a test."""

import pytest

import cmpe
from cmpe.generation import grid


@pytest.fixture
def models(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    h = grid(3, 3, seed=1)
    cmpe.write_uai(h, "h.uai")
    cmpe.write_uai(h.perturb(0.3, 2), "t.uai")
    (tmp_path / "e.evid").write_text("2\n1 0 1\n1 0 0\n")
    return ["--objective", "h.uai", "--constraint", "t.uai", "--at-most", "8"]
