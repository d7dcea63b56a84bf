import pytest

from cmpe.errors import InputError, MissingExtra
from cmpe.pictures.figures import draw_learning, draw_trace, save
from cmpe.solvers.exact.trace import TraceEvent

EVENTS = [
    TraceEvent(0.001, float("nan"), 12.0, 0),
    TraceEvent(0.003, 9.0, 11.0, 5),
    TraceEvent(0.002, 10.0, 10.0, 9),
]
RECORDS = [
    {"epoch": 1, "relaxed_violation": 0.5},  # no look at the validation rows
    {
        "epoch": 2,
        "loss": 7.5,
        "relaxed_violation": 0.25,
        "validation_regret": 3.0,
        "validation_violation": 0.1,
    },
    {"epoch": 3, "relaxed_violation": 0.0, "validation_regret": None, "validation_violation": 1.0},
    {
        "epoch": 4,
        "loss": 6.5,
        "relaxed_violation": 0.1,
        "validation_regret": 2.0,
        "validation_violation": 0.0,
    },
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


def test_a_learning_curve_is_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    figure = draw_learning(RECORDS)
    first, above, below = figure.axes
    assert list(first.lines[0].get_xdata()) == [2, 4]
    assert list(first.lines[0].get_ydata()) == [7.5, 6.5]
    [regret] = above.lines
    relaxed, violation = below.lines
    assert (list(regret.get_xdata()), list(regret.get_ydata())) == ([2, 4], [3.0, 2.0])
    assert (list(violation.get_xdata()), list(violation.get_ydata())) == ([2, 4], [10.0, 0.0])
    assert list(relaxed.get_xdata()) == [1, 2, 3, 4]
    assert list(relaxed.get_ydata()) == [50.0, 25.0, 0.0, 10.0]
    assert [text.get_text() for axes in figure.axes for text in axes.texts] == ["2 nats", "0 %"]
    for suffix in (".png", ".svg"):
        save(figure, tmp_path / f"curve{suffix}")
        assert (tmp_path / f"curve{suffix}").stat().st_size > 1000


def test_a_run_without_validation_rows_is_drawn_too(tmp_path):
    pytest.importorskip("matplotlib")
    figure = draw_learning(RECORDS[:1])
    assert [len(line.get_xdata()) for axes in figure.axes for line in axes.lines] == [0, 0, 1, 0]
    save(figure, tmp_path / "curve.png")
