"""Functions as arrays: what a problem directory keeps in a `.npz` file instead of tables.

Learned models are those of `network`. Beside `kind` and `cardinalities` the others hold

    distance      pairs (P, 2), weights (P,)
    class-margin  original (n,), changed (n,), and weights_k, biases_k of layer k of the network
    neural        scope (n,), largest, state.NAME for each weight of the module, and `layers`
                  (JSON) or `factory` (an import path) to make the module (see `modules`)

All of them come back bit for bit; objects are never unpickled. A factory is imported and called:
read such files only from people whose programs you would run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import singledispatch
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cmpe.errors import FormatError, InputError, ModelError
from cmpe.formats.modules import built, described, imported, weights_of, with_weights
from cmpe.formats.network import LEARNED, load_arrays, parse_network, save_arrays
from cmpe.models.distance import Distance
from cmpe.models.function import Function
from cmpe.models.neural import ClassMargin, NeuralFunction
from cmpe.models.relu import ReluNetwork


def write_function(function: Function, path: Path | str) -> str:
    """Write a function that is no model, all of it or nothing; the sha256 of the file."""
    sizes = np.array(function.cardinalities, dtype=np.int64)
    return save_arrays(path, {"cardinalities": sizes, **_arrays(function)})


@singledispatch
def _arrays(function: Function) -> dict[str, NDArray[Any]]:
    """The word for a kind of function, and its arrays."""
    raise ModelError(f"no file format holds a function of kind {type(function).__name__}")


@_arrays.register
def _arrays_of_distance(function: Distance) -> dict[str, NDArray[Any]]:
    pairs = np.stack(function.columns, axis=1).astype(np.int64)
    return {"kind": np.array("distance"), "pairs": pairs, "weights": np.array(function.weights)}


@_arrays.register
def _arrays_of_margin(function: ClassMargin) -> dict[str, NDArray[Any]]:
    network = function.network
    return {
        "kind": np.array("class-margin"),
        "original": np.array(function.original, dtype=np.int64),
        "changed": np.array(function.changed, dtype=np.int64),
        **{f"weights_{k}": weights for k, weights in enumerate(network.weights)},
        **{f"biases_{k}": biases for k, biases in enumerate(network.biases)},
    }


@_arrays.register
def _arrays_of_neural(function: NeuralFunction) -> dict[str, NDArray[Any]]:
    layers = described(function.module)
    if layers is None and not function.factory:
        raise ModelError(
            f"a module of kind {type(function.module).__name__} is written with an import path: "
            'NeuralFunction(..., factory="package.module:name") of a function that makes it'
        )
    made = {"factory": function.factory} if layers is None else {"layers": layers}
    state = {f"state.{name}": value for name, value in weights_of(function.module).items()}
    return {
        "kind": np.array("neural"),
        "scope": np.array(function.scope, dtype=np.int64),
        "largest": np.array([function.largest]),
        **({"features": np.array([function.features])} if function.features else {}),
        **{name: np.frombuffer(text.encode(), dtype=np.uint8) for name, text in made.items()},
        **state,
    }


def function_at(path: str) -> Function:
    """The function that the function at an import path makes."""
    made = imported(path)()
    if not (hasattr(made, "cardinalities") and hasattr(made, "value")):
        raise InputError(f"{path}: expected a function of cmpe, found {type(made).__name__}")
    whole: Function = replace(made, factory=path) if isinstance(made, NeuralFunction) else made
    return whole


def read_function(path: Path | str) -> Function:
    """The function in a `.npz` file, of any kind that is kept as arrays."""
    file = _ArrayFile(path, load_arrays(path))
    kind = str(file.arrays.get("kind", "nothing"))
    if kind in LEARNED:
        return parse_network(path, file.arrays)
    if kind not in _READERS:
        kinds = " or ".join((*LEARNED, *_READERS))
        raise FormatError.at(path, "array 'kind'", kinds, repr(kind[:40]))
    try:
        return _READERS[kind](file)
    except (ModelError, ValueError) as error:
        raise FormatError(f"{path}: {error}") from None


@dataclass(frozen=True)
class _ArrayFile:
    """The arrays of a file, each checked when it is taken."""

    path: Path | str
    arrays: Mapping[str, NDArray[Any]]

    def whole(self, name: str, axes: int = 1) -> list[Any]:
        """An array of whole numbers, as lists."""
        return list(self._taken(name, "iu", f"whole numbers along {axes} axes", axes).tolist())

    def real(self, name: str, axes: int = 1) -> NDArray[Any]:
        """An array of floating-point numbers."""
        return self._taken(name, "f", f"floating-point numbers along {axes} axes", axes)

    def _taken(self, name: str, kinds: str, expected: str, axes: int) -> NDArray[Any]:
        array = self.arrays.get(name)
        if array is None or array.dtype.kind not in kinds or array.ndim != axes:
            found = "nothing" if array is None else f"{array.dtype} of shape {array.shape}"
            raise FormatError.at(self.path, f"array {name!r}", expected, found)
        return array

    def text(self, name: str) -> str:
        """A text as bytes."""
        array = self._taken(name, "u", "bytes of a text", 1)
        return array.astype(np.uint8).tobytes().decode("utf-8", "replace")

    def cardinalities(self) -> tuple[int, ...]:
        """How many values each variable has."""
        sizes = tuple(self.whole("cardinalities"))
        if min(sizes, default=1) < 1:
            place, found = "array 'cardinalities'", str(min(sizes))
            raise FormatError.at(self.path, place, "numbers of at least 1", found)
        return sizes


def _distance(file: _ArrayFile) -> Distance:
    pairs = file.whole("pairs", 2)
    if any(len(pair) != 2 for pair in pairs[:1]):
        raise FormatError.at(file.path, "array 'pairs'", "two columns", str(len(pairs[0])))
    weights = file.real("weights")
    if len(weights) != len(pairs):  # none would stand for weights of 1
        raise FormatError.at(file.path, "array 'weights'", f"{len(pairs)}", f"{len(weights)}")
    return Distance(file.cardinalities(), tuple(map(tuple, pairs)), tuple(weights.tolist()))


def _class_margin(file: _ArrayFile) -> ClassMargin:
    layers = range(sum(name.startswith("weights_") for name in file.arrays))
    network = ReluNetwork(
        tuple(file.real(f"weights_{k}", 2) for k in layers),
        tuple(file.real(f"biases_{k}") for k in layers),
    )
    original, changed = (tuple(file.whole(name)) for name in ("original", "changed"))
    return ClassMargin(network, original, changed, file.cardinalities())


def _neural(file: _ArrayFile) -> NeuralFunction:
    state = {
        name.removeprefix("state."): array
        for name, array in file.arrays.items()
        if name.startswith("state.")
    }
    (largest,) = file.real("largest")
    scope = tuple(file.whole("scope"))
    (features,) = file.whole("features") if "features" in file.arrays else (0,)
    factory = "" if "layers" in file.arrays else file.text("factory")
    if not factory:
        module = with_weights(built(file.text("layers")), state)
        return NeuralFunction(
            module, file.cardinalities(), scope, float(largest), features=int(features)
        )
    made = function_at(factory)
    if not isinstance(made, NeuralFunction):
        found = type(made).__name__
        raise FormatError.at(file.path, f"factory {factory}", "a NeuralFunction", found)
    module = with_weights(made.module, state)
    return NeuralFunction(
        module,
        file.cardinalities(),
        scope,
        float(largest),
        factory=factory,
        features=int(features),
    )


_READERS: dict[str, Callable[[_ArrayFile], Function]] = {
    "distance": _distance,
    "class-margin": _class_margin,
    "neural": _neural,
}
