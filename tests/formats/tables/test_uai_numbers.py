"""The quick reader agrees with the careful one, or leaves the file to it."""

import numpy as np
import pytest

from cmpe.formats import uai
from cmpe.formats.tables.uai_numbers import read_at_once
from cmpe.formats.uai import read_uai, write_uai
from cmpe.models.loglinear import Factor, LogLinearModel
from tests.problems import random_problem


@pytest.mark.parametrize("seed", range(20))
def test_both_readers_agree(seed, tmp_path, monkeypatch):
    for name in ("m.uai", "m.LG"):
        file = tmp_path / name
        write_uai(random_problem(seed)[0].objective, file)
        quick = read_at_once(file.read_text(), name.endswith("LG"))
        assert quick is not None or "e-" in file.read_text()
        with monkeypatch.context() as patch:
            patch.setattr(uai, "read_at_once", lambda *_: None)
            assert quick is None or quick == read_uai(file)


def test_scopes_of_many_variables(tmp_path):
    rng = np.random.default_rng(0)
    scopes = [tuple(rng.permutation(9)[:k].tolist()) for k in (9, 0, 1, 8, 2)] * 7
    model = LogLinearModel((2,) * 9, tuple(Factor(s, rng.random((2,) * len(s))) for s in scopes))
    write_uai(model, tmp_path / "m.LG")
    quick = read_at_once((tmp_path / "m.LG").read_text(), True)
    assert quick == model
    assert not quick.factors[0].log_table.flags.writeable


@pytest.mark.parametrize(
    "text",
    [
        "",
        "MARKOV",
        "MARKOV\n1 2 1 1 0 2 1",
        "MARKOV 1 2 1 1 0 2 1 1 1",
        "MARKOV 1 2.0 1 1 0 2 1 1",
        "MARKOV 1 2 1 1 0 2 1 x",
        "MARKOV 1 2 1 1 0 2 1 1_0",
        "MARKOV 1 2 1 1 0 2 1 1e-400",
        "MARKOV 1 2 1 1 0 2 1 -1",
        "MARKOV 1 2 1 1 0 2 1 nan",
        "MARKOV 1 2 1 1 0 3 1 1 1",
        "MARKOV 1 2 1 1 1 2 1 1",
        "MARKOV 1 2 1 2 0 0 4 1 1 1 1",
        "MARKOV 2 2 9999999 1 1 0 2 1 1",
        "MARKOV 0 0",
        "MARKOV 3 1000000 1000000 1000000 1 3 0 1 2 5 1 1 1",
        "MARKOV 1 2 99999999999999999999 1 0 2 1 1",
        "BAYESIAN 1 2 1 1 0 2 1 1",
    ],
)
def test_what_is_odd_is_left_to_the_other_reader(text):
    assert read_at_once(text, False) is None
