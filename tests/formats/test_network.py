"""network: what is written is read back bit for bit; what does not fit is refused."""

from __future__ import annotations

import io
import json
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings

from cmpe import ChowLiuTree, CutsetNetwork, learn_chow_liu, read_network, write_network
from cmpe.errors import FormatError, InputError
from cmpe.formats import network
from cmpe.formats.network import load_arrays, write_arrays
from tests.problems import random_cutset, seeds
from tests.refusals import fill_disk, refused


def assert_same(back, network):
    assert type(back) is type(network)
    assert back.cardinalities == network.cardinalities
    for name in ("parents", "log_tables", "contexts", "log_weights"):
        if hasattr(network, name):
            assert getattr(back, name).tobytes() == getattr(network, name).tobytes()


@given(seeds)
@settings(max_examples=30)
def test_networks_come_back(tmp_path_factory, seed):
    folder = tmp_path_factory.mktemp("networks")
    network = random_cutset(seed)
    write_network(network, folder / "model.json", {"log_likelihood": {"train": -1.5}})
    assert_same(read_network(folder / "model.json"), network)
    assert_same(read_network(folder / "model.npz"), network)
    facts = json.loads((folder / "model.json").read_text())
    assert facts["kind"] == "cutset"
    assert facts["leaves"] == network.leaves
    assert facts["log_likelihood"] == {"train": -1.5}


@pytest.mark.parametrize("name", ["tree", "tree.json", "tree.npz"])
def test_trees_come_back(tmp_path, name):
    tree = learn_chow_liu(np.random.default_rng(0).integers(0, 3, (40, 5)))
    write_network(tree, tmp_path / name)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["tree.json", "tree.npz"]
    assert_same(read_network(tmp_path / "tree.json"), tree)
    first = (tmp_path / "tree.npz").read_bytes()
    write_network(tree, tmp_path / name)
    assert (tmp_path / "tree.npz").read_bytes() == first


@pytest.fixture
def written(tmp_path):
    write_network(random_cutset(1), tmp_path / "m.json")
    return tmp_path / "m.json"


def changed(path, **fields):
    facts = json.loads(path.read_text())
    path.write_text(json.dumps({**facts, **fields}))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"format_version": 2}, "format_version"),
        ({"arrays": "../m.npz"}, "a file name"),
        ({"arrays": 3}, "a file name"),
        ({"arrays": "other.npz"}, "cannot be read"),
        ({"sha256": "0"}, "sha256"),
    ],
)
def test_descriptions_that_do_not_fit(written, fields, message):
    changed(written, **fields)
    with pytest.raises(InputError, match=message):
        read_network(written)


def test_arrays_that_do_not_fit(tmp_path):
    network = random_cutset(1)
    path = tmp_path / "m.npz"
    write_arrays(network, path)
    arrays = dict(np.load(path))
    for name, value, message in [
        ("kind", np.array("forest"), "chow-liu or cutset"),
        ("log_weights", np.zeros(99), "shape"),
        ("contexts", arrays["contexts"] + 9, "context"),
        ("log_tables", np.full(arrays["log_tables"].shape, np.nan), "finite"),
    ]:
        np.savez(path, **{**arrays, name: value})
        with pytest.raises(FormatError, match=message):
            read_network(path)
    np.savez(path, **{k: v for k, v in arrays.items() if k != "parents"})
    with pytest.raises(FormatError, match="no parents"):
        read_network(path)
    np.savez(path, kind=np.array([{}], dtype=object))
    with pytest.raises(FormatError, match=r"kind\.npy: the array: expected numbers, found dtype"):
        read_network(path)
    for junk in (b"", b"PK", b"not a zip file at all"):
        path.write_bytes(junk)
        with pytest.raises(FormatError, match="expected the arrays"):
            read_network(path)


def test_an_archive_that_unpacks_too_far(tmp_path):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("kind.npy", bytes(2000))
    (tmp_path / "bomb.npz").write_bytes(buffer.getvalue())
    with pytest.raises(FormatError, match="at most 1000 bytes"):
        load_arrays(tmp_path / "bomb.npz", most=1000)


HOSTILE = {
    "cardinalities": [np.zeros((), "S3"), np.array([np.nan, 2.0]), np.array([2**62, 2])],
    "parents": [np.array(["a", "b"]), np.array([1j, 0]), np.array([2**40, -1]), np.zeros(0)],
    "log_tables": [np.array(["x"]), np.zeros((2, 2, 2), np.int64), np.zeros((9, 9, 9))],
    "kind": [np.zeros(3), np.array("cutset"), np.array("cut\u2028set")],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_arrays_of_another_kind_are_refused(tmp_path, name):
    tree = learn_chow_liu([[0, 1], [1, 1], [0, 0]])
    path = tmp_path / "m.npz"
    arrays = {"kind": np.array("chow-liu"), "cardinalities": np.array(tree.cardinalities)}
    arrays |= {"parents": tree.parents, "log_tables": tree.log_tables}
    for wrong in HOSTILE[name]:
        np.savez(path, **(arrays | {name: wrong}))
        refused(lambda: read_network(path), kind=FormatError)


@pytest.mark.parametrize("packing", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_packings_that_cannot_be_unpacked_in_pieces_are_refused(tmp_path, packing):
    with zipfile.ZipFile(tmp_path / "m.npz", "w", packing) as archive:
        archive.writestr("kind.npy", bytes(2000))
    refused(lambda: read_network(tmp_path / "m.npz"), "as NumPy packs them", FormatError)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "m\0.npz", 3, None])
def test_the_arrays_are_a_file_beside_the_description(tmp_path, name):
    write_network(random_cutset(6), tmp_path / "m")
    facts = json.loads((tmp_path / "m.json").read_bytes())
    (tmp_path / "m.json").write_text(json.dumps({**facts, "arrays": name}))
    refused(lambda: read_network(tmp_path / "m.json"), "file name|cannot be read")


def test_more_leaves_than_can_be_compared_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(network, "MOST_LEAVES", 1)
    write_network(random_cutset(6), tmp_path / "m")
    refused(lambda: read_network(tmp_path / "m.npz"), "at most 1 leaves", FormatError)


def test_classes_are_told_apart(tmp_path):
    tree = learn_chow_liu([[0, 1], [1, 1]])
    write_network(tree, tmp_path / "a")
    write_network(tree.network, tmp_path / "b")
    assert isinstance(read_network(tmp_path / "a.json"), ChowLiuTree)
    assert isinstance(read_network(tmp_path / "b.json"), CutsetNetwork)


@pytest.mark.parametrize("name", ["m", "m.json.gz"])
def test_a_full_disk_leaves_the_old_model(tmp_path, monkeypatch, name):
    write_network(random_cutset(6), tmp_path / name)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    fill_disk(monkeypatch)
    message = "cannot be written: No space left"
    refused(lambda: write_network(random_cutset(7), tmp_path / name), message)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before
