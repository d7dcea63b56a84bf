"""A piece of work that is repeated: as it is on a CPU, as a CUDA graph on a GPU."""

from __future__ import annotations

from collections.abc import Callable

import torch

WARM_UP = 3  # eager runs before a graph is captured


class Replay:
    """Call `work`; on a GPU capture it after a few eager calls, then launch it as one graph.

    Every call does the work exactly once. What `work` reads and writes must stay in its place.
    """

    def __init__(self, work: Callable[[], object], device: torch.device) -> None:
        self._work, self._on_gpu = work, device.type == "cuda"
        self._calls = 0
        self._graph: Callable[[], None] | None = None

    def forget(self) -> None:
        """Tensors have moved: capture again."""
        self._graph, self._calls = None, 0

    def __call__(self) -> None:
        """Do the work once."""
        if not self._on_gpu:
            self._work()
        elif self._calls < WARM_UP:
            self._aside()
        else:
            if self._graph is None:
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, stream=_own_stream()):
                    self._work()
                self._graph = graph.replay
            self._graph()
        self._calls += 1

    def _aside(self) -> None:
        """On another stream, as the warm-up before a capture must be."""
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self._work()
        torch.cuda.current_stream().wait_stream(side)


def _own_stream() -> torch.cuda.Stream | None:
    """The stream to capture on: the current one, unless it is the default, which cannot be.

    Matrix products keep scratch memory per stream, and a graph keeps that of the stream it was
    captured on: graphs that are to run at the same time must be captured on different ones.
    """
    here = torch.cuda.current_stream()
    return None if here == torch.cuda.default_stream() else here
