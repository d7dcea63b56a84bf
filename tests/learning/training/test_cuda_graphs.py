"""Repeated work is done once a call, eagerly or as a graph."""

from __future__ import annotations

import pytest
import torch

from cmpe.learning.training.cuda_graphs import WARM_UP, Replay


def test_on_a_cpu_work_is_called_as_it_is():
    calls = []
    replay = Replay(lambda: calls.append(len(calls)), torch.device("cpu"))
    for _ in range(WARM_UP + 2):
        replay()
    replay.forget()
    replay()
    assert calls == list(range(WARM_UP + 3))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_on_a_gpu_every_call_does_the_work_once():
    counter = torch.zeros((), device="cuda")
    replay = Replay(lambda: counter.add_(1), torch.device("cuda"))
    for done in range(1, WARM_UP + 5):
        replay()
        assert counter.item() == done
    replay.forget()
    replay()
    assert counter.item() == WARM_UP + 5
