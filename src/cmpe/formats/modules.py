"""Torch modules in files: arrays of weights, and how the module is made again.

A module of common layers is described by its layers, so that nothing of the user's is needed to
read it. Another one is made by a function that an import path `package.module:name` names; the
weights then replace its own. Objects are never unpickled.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cmpe.errors import InputError, ModelError

if TYPE_CHECKING:
    from torch import nn

# The layers that a description may have, with the arguments that make them.
LAYERS: Mapping[str, tuple[str, ...]] = {
    "Linear": ("in_features", "out_features"),
    "Conv2d": ("in_channels", "out_channels", "kernel_size", "stride", "padding"),
    "MaxPool2d": ("kernel_size", "stride", "padding"),
    "BatchNorm1d": ("num_features",),
    "LayerNorm": ("normalized_shape",),
    "Dropout": ("p",),
    "Flatten": ("start_dim", "end_dim"),
    "Unflatten": ("dim", "unflattened_size"),
    "Identity": (),
    "ReLU": (),
    "GELU": (),
    "Tanh": (),
    "Sigmoid": (),
    "Softplus": (),
}


def described(module: nn.Module) -> str | None:
    """The layers of a module as JSON; None where it has others."""
    found = _described(module)
    return None if found is None else json.dumps(found)


def _described(module: nn.Module) -> list[Any] | None:
    from torch import nn

    name = type(module).__name__
    if type(module) is nn.Sequential:
        inner = [_described(part) for part in module]
        return None if None in inner else ["Sequential", inner]
    if name not in LAYERS or type(module) is not getattr(nn, name):
        return None
    arguments = {key: _plain(getattr(module, key)) for key in LAYERS[name]}
    if name in ("Linear", "Conv2d"):
        arguments["bias"] = "bias" in dict(module.named_parameters())
    made = _built([name, arguments])
    same = made.extra_repr() == module.extra_repr() and _shapes(made) == _shapes(module)
    return [name, arguments] if same else None


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _shapes(module: nn.Module) -> list[tuple[str, Any]]:
    return [(name, tuple(value.shape)) for name, value in module.state_dict().items()]


def built(description: str) -> nn.Module:
    """The module of a description."""
    try:
        return _built(json.loads(description))
    except (ValueError, TypeError, KeyError, AttributeError, RuntimeError) as error:
        raise ModelError(f"a description of layers could not be read: {error}") from None


def _built(found: Any) -> nn.Module:
    from torch import nn

    name, arguments = found
    if name == "Sequential":
        return nn.Sequential(*map(_built, arguments))
    if name not in LAYERS or set(arguments) - {*LAYERS[name], "bias"}:
        raise ValueError(f"unknown layer {name!r:.60}")
    tuples = {k: tuple(v) if isinstance(v, list) else v for k, v in arguments.items()}
    made: nn.Module = getattr(nn, name)(**tuples)
    return made


def imported(path: str) -> Callable[..., Any]:
    """The function that an import path names, from this environment or the folder one is in."""
    module, colon, name = path.partition(":")
    if not (colon and all(part.isidentifier() for part in (*module.split("."), name))):
        raise InputError(f"an import path is package.module:name, found {path!r:.80}")
    here = os.getcwd()
    added = here not in sys.path
    if added:
        sys.path.insert(0, here)
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InputError(f"{path}: {error}") from None
    finally:
        if added:
            sys.path.remove(here)
    if not callable(found):
        raise InputError(f"{path}: expected a function, found {type(found).__name__}")
    called: Callable[..., Any] = found
    return called


def weights_of(module: nn.Module) -> dict[str, NDArray[Any]]:
    """Parameters and buffers by name."""
    return {name: value.detach().cpu().numpy() for name, value in module.state_dict().items()}


def with_weights(module: nn.Module, weights: Mapping[str, NDArray[Any]]) -> nn.Module:
    """The module with these weights; others than its own are refused."""
    import torch

    wanted = {name: tuple(value.shape) for name, value in module.state_dict().items()}
    given = {name: value.shape for name, value in weights.items()}
    if wanted != given:
        odd = sorted(name for name in {*wanted, *given} if wanted.get(name) != given.get(name))
        raise ModelError(f"the weights do not fit the module: see {odd[0]!r}")
    module.load_state_dict({name: torch.as_tensor(np.array(v)) for name, v in weights.items()})
    return module
