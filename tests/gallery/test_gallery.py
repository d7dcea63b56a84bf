"""Every script of the gallery runs in its quick form and draws."""

from __future__ import annotations

import ast
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted((ROOT / "gallery").glob("*.py"))
pyplot = pytest.importorskip("matplotlib.pyplot", reason="the gallery needs the extra report")


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
@pytest.mark.filterwarnings("ignore:answers hardly differ", "ignore:.*same answer")
def test_the_quick_form_runs_and_draws(script, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CMPE_QUICK", "1")
    monkeypatch.setattr(pyplot, "show", lambda: None)
    pyplot.switch_backend("Agg")
    pyplot.close("all")
    runpy.run_path(str(script), run_name="__main__")
    figures = [pyplot.figure(number) for number in pyplot.get_fignums()]
    assert figures
    for figure in figures:
        assert any(axes.has_data() for axes in figure.axes)
        figure.canvas.draw()
        words = [text for text in figure.findobj(pyplot.Text) if text.get_text()]
        assert min(text.get_fontsize() for text in words) >= 9
    pyplot.close("all")
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr().out


def test_there_are_enough_of_them_and_each_has_a_title():
    assert len(SCRIPTS) >= 10
    for script in SCRIPTS:
        title, line, *rest = (ast.get_docstring(ast.parse(script.read_text())) or "").split("\n")
        assert line == "=" * len(title), script.name
        assert len(" ".join(rest)) > 100, script.name


def test_each_has_its_place_on_the_ladder():
    order = runpy.run_path(str(ROOT / "docs" / "_ext" / "ladder.py"))["SCRIPTS"]
    assert sorted(order) == [script.name for script in SCRIPTS]
