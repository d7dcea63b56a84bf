import pytest

from cmpe.errors import InputError, MissingExtra
from cmpe.reporting.figures import draw_trace, save
from cmpe.solvers.exact import TraceEvent

EVENTS = [
    TraceEvent(0.001, float("nan"), 12.0, 0),
    TraceEvent(0.003, 9.0, 11.0, 5),
    TraceEvent(0.002, 10.0, 10.0, 9),
]


def test_a_trace_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    figure = draw_trace(EVENTS)
    bound, incumbent = figure.axes[0].lines
    assert bound.get_ydata().tolist() == [12.0, 10.0, 10.0]  # by time, never rising
    assert incumbent.get_ydata().tolist() == [10.0, 9.0]
    for suffix in (".png", ".svg", ".pdf"):
        save(figure, tmp_path / f"trace{suffix}")
        assert (tmp_path / f"trace{suffix}").stat().st_size > 1000
    with pytest.raises(InputError, match="ending in"):
        save(figure, tmp_path / "trace.txt")
    with pytest.raises(InputError, match="cannot be written"):
        save(figure, tmp_path / "nowhere" / "trace.png")


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtra, match=r"cmpe\[report\]"):
        draw_trace(EVENTS)
