"""The tree that the site shows: every module, with what it is about."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
lines = runpy.run_path(str(ROOT / "docs" / "_ext" / "tree.py"))["lines"]


@pytest.mark.parametrize("folder", ["src/cmpe", "study", "benchmarks"])
def test_every_module_is_in_the_tree_with_a_sentence(folder):
    tree = list(lines(ROOT / folder))
    modules = [p for p in (ROOT / folder).rglob("*.py") if p.name != "__init__.py"]
    for module in modules:
        assert any(line.split()[0] == module.name for line in tree), module
    entries = [line for line in tree if line.split()[0].endswith((".py", "/"))]
    assert not [line for line in entries if len(line.split()) < 2]
    assert max(map(len, tree)) <= 100


def test_a_depth_leaves_out_what_is_in_folders(tmp_path):
    (tmp_path / "room" / "kernels").mkdir(parents=True)
    for name, about in (("__init__", "A room."), ("kernels/__init__", "Loops."), ("one", "One.")):
        (tmp_path / "room" / f"{name}.py").write_text(f'"""{about}"""\n')
    (tmp_path / "room" / "kernels" / "dual.py").write_text('"""The dual.\n\nMore."""\n')
    shown = [" ".join(line.split()) for line in lines(tmp_path / "room")]
    assert shown == [
        "room/ A room.",
        "one.py One.",
        "kernels/ Loops.",
        "dual.py The dual.",
    ]
    assert [" ".join(line.split()) for line in lines(tmp_path / "room", 1)] == shown[:3]


@pytest.mark.parametrize("page", ["architecture.md", "extending.md"])
def test_the_modules_that_a_page_names_are_there(page):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    named = re.findall(r"`([\w/.]+(?:\.py|/))`", text)
    assert named
    places = (ROOT, ROOT / "src", ROOT / "src" / "cmpe")
    missing = [n for n in named if not any((place / n).exists() for place in places)]
    assert not [n for n in missing if "NAME" not in n]
