"""The table of model formats: every suffix reads what it wrote, others are refused."""

from __future__ import annotations

import os
import threading
from importlib import import_module

import numpy as np
import pytest

import cmpe
from cmpe.errors import FormatError, InputError, ModelError
from cmpe.formats.registry import FORMATS, SUFFIXES, format_of
from tests.problems import random_cutset

PACKED = ("", ".gz", ".xz", ".bz2")
MODEL = cmpe.LogLinearModel.from_tables(
    [2, 3], [((0, 1), np.log(np.arange(1.0, 7.0).reshape(2, 3)))]
)
ROWS = [[0, 0], [1, 2], [0, 2]]


@pytest.mark.parametrize("known", FORMATS, ids=lambda known: known.suffixes[0])
def test_every_row_names_functions_that_exist(known):
    module = import_module(known.module)
    assert callable(getattr(module, known.reader))
    assert callable(getattr(module, known.writer))
    assert known.about


def test_no_suffix_belongs_to_two_formats():
    assert len(set(SUFFIXES)) == len(SUFFIXES)
    assert all(suffix in format_of(f"m{suffix}.gz").suffixes for suffix in SUFFIXES)


@pytest.mark.parametrize("packed", PACKED)
@pytest.mark.parametrize("suffix", [".uai", ".LG"])
def test_tables_come_back(tmp_path, suffix, packed):
    path = tmp_path / f"m{suffix}{packed}"
    cmpe.write_model(MODEL, path)
    np.testing.assert_allclose(cmpe.read_model(path).value(ROWS), MODEL.value(ROWS), atol=1e-15)


@pytest.mark.parametrize("packed", PACKED)
@pytest.mark.parametrize("suffix", [".json", ".npz"])
def test_networks_come_back(tmp_path, suffix, packed):
    network, path = random_cutset(3), tmp_path / f"m{suffix}{packed}"
    cmpe.write_model(network, path)
    back = cmpe.read_model(path)
    assert type(back) is cmpe.CutsetNetwork
    assert back.log_tables.tobytes() == network.log_tables.tobytes()
    assert len(list(tmp_path.iterdir())) == 2


def test_networks_become_tables_where_a_format_holds_nothing_else(tmp_path):
    network = random_cutset(3)
    cmpe.write_model(network, tmp_path / "m.LG")
    back = cmpe.read_model(tmp_path / "m.LG")
    rows = np.zeros((1, network.variables), dtype=int)
    assert type(back) is cmpe.LogLinearModel
    np.testing.assert_allclose(back.value(rows), network.value(rows), atol=1e-12)


def test_the_name_of_a_learned_model_is_enough(tmp_path):
    cmpe.write_network(random_cutset(3), tmp_path / "net.v2")
    assert cmpe.read_model(tmp_path / "net.v2").leaves == random_cutset(3).leaves


def test_a_pipe_holds_tables(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_text, args=("MARKOV 1 2 1 1 0 2 1 1",))
    writer.start()
    assert cmpe.read_model(path).cardinalities == (2,)
    writer.join()


@pytest.mark.parametrize(("name", "found"), [("m.txt", "'.txt'"), ("m", "'no suffix'")])
def test_an_unknown_suffix_is_refused_with_the_table(tmp_path, name, found):
    path = tmp_path / name
    path.write_text("MARKOV 1 2 0")
    listed = ".uai, .LG, .json, .npz, .bif, .xmlbif, .bifxml, .net, .erg, .wcsp or .cfn"
    for attempt in (lambda: cmpe.read_model(path), lambda: cmpe.write_model(MODEL, path)):
        with pytest.raises(FormatError) as caught:
            attempt()
        expected = f"ending in {listed} (also packed: .gz, .xz, .bz2), found {found}"
        assert str(caught.value) == f"{path}: expected a model file {expected}"
    assert path.read_text() == "MARKOV 1 2 0"


def test_tables_are_no_learned_model(tmp_path):
    with pytest.raises(ModelError, match=r"Chow-Liu tree or a cutset network; found .* LogLinear"):
        cmpe.write_model(MODEL, tmp_path / "m.json")
    assert not list(tmp_path.iterdir())


def test_a_missing_file_is_said_to_be_missing(tmp_path):
    for name in ("m.uai", "m"):
        with pytest.raises(InputError, match="cannot be read: No such file"):
            cmpe.read_model(tmp_path / name)
