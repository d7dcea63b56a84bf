"""functions: distances and class margins come back bit for bit; what does not fit is refused."""

from __future__ import annotations

import io
import os
import zipfile

import numpy as np
import pytest
import torch
from torch import nn

from cmpe.errors import FormatError, InputError, ModelError
from cmpe.formats.functions import function_at, read_function, write_function
from cmpe.formats.network import write_arrays
from cmpe.models.distance import Distance
from cmpe.models.neural import ClassMargin, NeuralFunction
from cmpe.models.relu import ReluNetwork
from tests.problems import random_cutset
from tests.refusals import fill_disk, refused

CARDS = (2, 2, 3, 2, 2)


def network():
    rng = np.random.default_rng(3)
    sizes = [(4, 2), (3, 4), (3, 3)]
    return ReluNetwork(
        tuple(rng.normal(size=size) for size in sizes),
        tuple(rng.normal(size=size[0]) for size in sizes),
    )


def distance():
    return Distance(CARDS, ((0, 3), (4, 1)), (0.1, 1 / 3))


def margin():
    return ClassMargin(network(), (0, 4), (3, 1), CARDS)


@pytest.mark.parametrize(
    "made", [distance(), Distance.between((1,), (0,), 2), Distance((2, 5), ())]
)
def test_distances_come_back(tmp_path, made):
    write_function(made, tmp_path / "f.npz")
    back = read_function(tmp_path / "f.npz")
    assert type(back) is Distance
    assert (back.cardinalities, back.pairs, back.weights) == (
        made.cardinalities, made.pairs, made.weights,
    )  # fmt: skip


def test_class_margins_come_back(tmp_path):
    made = margin()
    write_function(made, tmp_path / "f.npz")
    back = read_function(tmp_path / "f.npz")
    assert type(back) is ClassMargin
    for name in ("original", "changed", "cardinalities"):
        assert getattr(back, name) == getattr(made, name)
    for name in ("weights", "biases"):
        pairs = zip(getattr(back.network, name), getattr(made.network, name), strict=True)
        assert all(a.tobytes() == b.tobytes() and a.shape == b.shape for a, b in pairs)


def test_learned_models_are_arrays_too(tmp_path):
    made = random_cutset(2)
    write_arrays(made, tmp_path / "f.npz")
    assert read_function(tmp_path / "f.npz").log_tables.tobytes() == made.log_tables.tobytes()


def test_equal_functions_give_equal_files(tmp_path):
    digests = {write_function(margin(), tmp_path / f"{k}.npz") for k in range(2)}
    assert len(digests) == 1


def test_other_kinds_have_no_file():
    class Odd:
        cardinalities = (2,)

    with pytest.raises(ModelError, match="no file format holds a function of kind Odd"):
        write_function(Odd(), "never.npz")


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    fill_disk(monkeypatch)
    with pytest.raises(InputError, match="No space left"):
        write_function(margin(), tmp_path / "f.npz")
    assert os.listdir(tmp_path) == []


BROKEN_DISTANCE = {
    "kind": (np.array("forest"), "array 'kind': expected chow-liu or cutset or distance or class"),
    "cardinalities": (np.array([2, 2, 0, 2, 2]), "numbers of at least 1, found 0"),
    "pairs": (np.array([[0, 9], [4, 1]]), "variables from 0 to 4"),
    "weights": (np.array([np.nan, 1.0]), "every pair needs one finite weight"),
}
BROKEN_DISTANCE_SHAPES = {
    "cardinalities": (np.array([2.0] * 5), "array 'cardinalities': expected whole numbers along 1"),
    "pairs": (np.array([[0, 1, 3], [0, 1, 3]]), "array 'pairs': expected two columns, found 3"),
    "weights": (np.zeros(0), "array 'weights': expected 2, found 0"),
}
BROKEN_MARGIN = {
    "weights_0": (np.full((4, 2), np.nan), "layer 0: weights and biases must be finite"),
    "weights_1": (np.zeros((3, 5)), "layer 1 reads 5 numbers of 4"),
    "biases_1": (np.zeros(2), "layer 1: weights (outputs, inputs) and biases (outputs,) must fit"),
    "biases_2": (
        None,
        "array 'biases_2': expected floating-point numbers along 1 axes, found noth",
    ),
    "weights_2": (np.zeros((3, 3), dtype=complex), "found complex128 of shape (3, 3)"),
    "weights_9": (np.zeros((3, 3)), "array 'weights_3': expected floating-point"),
    "original": (np.array([0]), "original: the network reads 2 variables, found 1"),
    "changed": (np.array([3, 5]), "changed must be variables from 0 to 4"),
}
BROKEN_MARGIN_SHAPES = {
    "original": (np.array([0.0, 4.0]), "array 'original': expected whole numbers along 1 axes"),
    "changed": (np.array([3, 2]), "two values"),
    "weights_0": (np.zeros((4, 0)), "layer 0: needs inputs and outputs, found (4, 0)"),
}
CASES = [
    (make, name, value, message)
    for make, cases in (
        (distance, BROKEN_DISTANCE),
        (distance, BROKEN_DISTANCE_SHAPES),
        (margin, BROKEN_MARGIN),
        (margin, BROKEN_MARGIN_SHAPES),
    )
    for name, (value, message) in cases.items()
]


@pytest.mark.parametrize(("make", "name", "value", "message"), CASES)
def test_arrays_that_do_not_fit(tmp_path, make, name, value, message):
    path = tmp_path / "f.npz"
    write_function(make(), path)
    arrays = {**np.load(path), name: value}
    np.savez(path, **{key: array for key, array in arrays.items() if array is not None})
    line = refused(lambda: read_function(path), kind=FormatError)
    assert line.startswith(f"{path}: ")
    assert message in line


def header(shape):
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.mark.parametrize("shape", ["(999999999,)", "(10**30,)", "(9, 999999999999)", "(-1,)"])
def test_an_array_is_not_allocated_because_it_says_so(tmp_path, shape):
    path = tmp_path / "f.npz"
    write_function(distance(), path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("other.npy", header(shape) + bytes(8))
    assert "other.npy: " in refused(lambda: read_function(path), kind=FormatError)


def test_archives_that_are_none(tmp_path):
    path = tmp_path / "f.npz"
    write_function(margin(), path)
    whole = path.read_bytes()
    broken = bytearray(whole)
    broken[100] ^= 0xFF  # within the first member
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("kind.npy", np.array("distance").tobytes())
    for junk in (b"", whole[:-30], bytes(broken), buffer.getvalue()):
        path.write_bytes(junk)
        assert str(path) in refused(lambda: read_function(path), kind=FormatError)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("kind.npy", b"")
        archive.infolist()[0].flag_bits |= 1
    assert str(path) in refused(lambda: read_function(path), kind=FormatError)
    np.savez(path, kind=np.array([{}], dtype=object))
    assert "expected numbers, found dtype object" in refused(lambda: read_function(path))


class Odd(nn.Module):
    """Layers that no description has."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(3, 1)

    def forward(self, x):
        return self.last(torch.sin(x))


def odd():
    """What an import path names."""
    return NeuralFunction(Odd(), (2, 3), largest=4.0)


@pytest.mark.parametrize(
    "module",
    [
        nn.Linear(3, 1, bias=False),
        nn.Sequential(nn.Flatten(), nn.Linear(3, 4), nn.Tanh(), nn.Dropout(0.2), nn.Linear(4, 1)),
        nn.Sequential(
            nn.Sequential(nn.Unflatten(1, (1, 1, 3)), nn.Conv2d(1, 2, (1, 2), padding=(0, 1))),
            nn.ReLU(), nn.MaxPool2d((1, 2)), nn.Flatten(), nn.LayerNorm(4), nn.BatchNorm1d(4),
            nn.GELU(), nn.Linear(4, 1), nn.Softplus(), nn.Identity(), nn.Sigmoid(),
        ),
    ],
)  # fmt: skip
def test_neural_functions_of_common_layers_come_back(tmp_path, module):
    made = NeuralFunction(module, (2, 3, 2), (2, 1), largest=2.5)
    write_function(made, tmp_path / "f.npz")
    back = read_function(tmp_path / "f.npz")
    z = np.indices((2, 3, 2)).reshape(3, -1).T
    np.testing.assert_array_equal(back.value(z), made.value(z))
    assert (back.scope, back.largest, back.cardinalities) == ((2, 1), 2.5, (2, 3, 2))


def test_other_neural_functions_need_an_import_path(tmp_path):
    with pytest.raises(ModelError, match="is written with an import path"):
        write_function(odd(), tmp_path / "f.npz")
    path = f"{__name__}:odd"
    made = function_at(path)
    write_function(made, tmp_path / "f.npz")
    back = read_function(tmp_path / "f.npz")
    assert (back.factory, back.largest) == (path, 4.0)
    z = np.indices((2, 3)).reshape(2, -1).T
    np.testing.assert_array_equal(back.value(z), made.value(z))
    with pytest.raises(InputError, match="expected a function of cmpe, found str"):
        function_at("os:getcwd")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"layers": b'["Linear", {"in_features": 3}]'}, "description of layers"),
        ({"layers": b'["Bilinear", {}]'}, "unknown layer 'Bilinear'"),
        ({"layers": b'["Linear", {"in_features": 2, "out_features": 1}]'}, "do not fit the module"),
        ({"layers": b"[" * 2000}, "description of layers"),
        ({"scope": b""}, "array 'scope'"),
        ({"layers": None, "factory": b"os:getcwd"}, "expected a function of cmpe"),
        ({"layers": None, "factory": b"os.getcwd()"}, "an import path is"),
    ],
)
def test_damaged_neural_functions_are_refused(tmp_path, changes, said):
    write_function(NeuralFunction(nn.Linear(3, 1), (2, 3)), tmp_path / "f.npz")
    with np.load(tmp_path / "f.npz") as kept:
        arrays = dict(kept)
    for name, text in changes.items():
        if text is None:
            del arrays[name]
        else:
            arrays[name] = np.frombuffer(text, dtype=np.uint8).astype(np.uint8)
    if "scope" in changes:
        arrays["scope"] = np.zeros(2)
    np.savez(tmp_path / "f.npz", **arrays)
    with pytest.raises(InputError, match=said):
        read_function(tmp_path / "f.npz")
