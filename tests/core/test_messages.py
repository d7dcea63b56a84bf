"""Messages of one table, all lanes at once, against log-sum-exp."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp

from cmpe.core.compiler.functions import njit
from cmpe.core.lanes import LANES, load
from cmpe.core.messages import soft_message


@njit(cache=False)
def sent(messages, work, cavity, size, axis, numbers):
    how = load(numbers, 0), load(numbers, 1), load(numbers, 2)
    soft_message(messages, work, cavity, size, axis, how)


@pytest.mark.parametrize("shape", [(2,), (3, 2), (2, 3, 4), (1, 2)])
@pytest.mark.parametrize("temperature", [0.1, 1.0])
def test_messages_are_soft_maxima(shape, temperature):
    rng = np.random.default_rng(0)
    size, damping = int(np.prod(shape)), 0.25
    for axis, card in enumerate(shape):
        stride = int(np.prod(shape[axis + 1 :]))
        table = rng.normal(size=(size, LANES)).astype(np.float32)
        heard = rng.normal(size=(card + 1, LANES)).astype(np.float32)
        old = rng.normal(size=(card + 2, LANES)).astype(np.float32)
        work = np.concatenate([table, np.zeros((card, LANES), dtype=np.float32)])
        numbers = np.zeros((3, LANES), dtype=np.float32)
        numbers[:] = np.array([temperature, 1.0 / temperature, damping])[:, np.newaxis]
        messages = old.copy()
        sent(messages, work, heard, size, (2, card, stride, 1), numbers)
        others = tuple(i for i in range(len(shape)) if i != axis)
        scaled = table.reshape(*shape, LANES).astype(float) / temperature
        total = temperature * logsumexp(scaled, axis=others) if others else temperature * scaled
        total -= heard[1:]
        wanted = total - total.max(axis=0)
        np.testing.assert_allclose(
            messages[2:], wanted + damping * (old[2:] - wanted), rtol=1e-5, atol=1e-5
        )
        assert (messages[:2] == old[:2]).all()
