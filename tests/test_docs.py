"""Every example in README.md and docs/ runs, in order, in one empty directory per file.

- A ```python block is executed; the blocks of a file share one namespace. A ```text block right
  after it is what it prints.
- In a ```console or ```bash block every command of COMMANDS_RUN is run; the lines below a `$`
  command are what it prints, and `$ echo $?` shows its exit code, which is 0 where it is not shown.
  Other commands are left alone.

In expected output `...` stands for anything, as in doctest.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import cmpe
from cmpe.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINKED = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
COMMAND = Path(sysconfig.get_path("scripts")) / "cmpe"
COMMANDS_RUN = {
    "cmpe ": [str(COMMAND)],
    "python -m study report ": [sys.executable, "-m", "study", "report"],
    "python -m study adversarial ": [sys.executable, "-m", "study", "adversarial"],
}
FENCE = re.compile(r"^```([\w{}-]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOTICE = re.compile(r"^cmpe: compiling .*\n", re.MULTILINE)  # of a cold cache
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    text: str
    output: str | None = None  # of a python block

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}, line {self.line}"


def blocks_of(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    found = list(FENCE.finditer(text))
    for match, after in zip(found, [*found, None][1:], strict=True):
        language, code = match.groups()
        is_output = after is not None and after[1] == "text"
        is_output = is_output and not text[match.end() : after.start()].strip()
        line = text.count("\n", 0, match.start(2)) + 1
        yield Block(page, line, language, code, after[2] if is_output else None)


def check_output(where: str, expected: str, found: str) -> None:
    if not doctest.OutputChecker().check_output(expected, found, OPTIONS):
        pytest.fail(f"{where}: expected\n{expected}\nfound\n{found}", pytrace=False)


def run_python(block: Block, namespace: dict[str, object]) -> None:
    printed = io.StringIO()
    # Blank lines first, so that a traceback names the line of the page.
    code = compile("\n" * (block.line - 1) + block.text, block.page, "exec")
    with contextlib.redirect_stdout(printed):
        exec(code, namespace)
    if block.output is not None:
        check_output(str(block), block.output, printed.getvalue())


def commands_of(block: Block) -> Iterator[tuple[str, str]]:
    """(command, expected output) pairs; without any `$` every line is a command."""
    lines = block.text.splitlines(keepends=True)
    if not any(line.startswith("$ ") for line in lines):
        lines = [f"$ {line}" for line in lines if line.strip()]
    command, output = "", ""
    for line in [*lines, "$ "]:
        if not line.startswith("$ "):
            output += line
            continue
        if command:
            yield command, output
        command, output = line[2:].strip(), ""


def run_commands(block: Block) -> None:
    code, shown = 0, True
    for command, expected in commands_of(block):
        if command == "echo $?":
            check_output(f"{block}: exit code", expected, f"{code}\n")
            shown = True
        elif start := next((s for s in COMMANDS_RUN if command.startswith(s)), None):
            assert shown, f"{block}: exit code {code} before {command!r}"
            words = [*COMMANDS_RUN[start], *shlex.split(command.removeprefix(start))]
            paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
            done = subprocess.run(
                words, capture_output=True, text=True, check=False,
                env={**os.environ, "PYTHONPATH": paths},
            )  # fmt: skip
            code, shown = done.returncode, done.returncode == 0
            if expected:
                printed = done.stdout + NOTICE.sub("", done.stderr)
                check_output(f"{block}: {command}", expected, printed)
            elif not shown:
                expected = done.stderr
    assert shown, f"{block}: exit code {code}: {expected}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
# What pgmpy and pyAgrum warn about when the reader's own code imports them is not ours.
@pytest.mark.filterwarnings("ignore", "error:::cmpe")
def test_examples(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks_of(page):
        if block.language == "python":
            run_python(block, namespace)
        elif block.language in ("console", "bash"):
            run_commands(block)


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.stem)
def test_links(page):
    prose = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in LINK.findall(prose):
        file, _, anchor = target.partition("#")
        if "://" in target:
            continue
        there = (page.parent / file).resolve() if file else page
        assert there.exists(), f"{page.name} links to {target}"
        if anchor:
            assert anchor in anchors_of(there), f"{page.name} links to {target}"


def anchors_of(page: Path) -> set[str]:
    headings = re.findall(r"^#+ +(.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_public_name_and_command_has_an_example():
    pages = sorted((ROOT / "docs").glob("reference-*.md"))
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    assert sorted(re.findall(r"^## (\w+)$", text, re.MULTILINE)) == sorted(cmpe.__all__)
    code = "\n".join(block.text for page in pages for block in blocks_of(page))
    assert [name for name in cmpe.__all__ if not re.search(rf"\b{name}\b", code)] == []
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL))
    assert set(sections) == set(COMMANDS)
    for name, text in sections.items():
        assert f":::{{command}} {name}\n" in text
        assert f"$ cmpe {name} " in text or f"$ cmpe {name}\n" in text


def test_every_page_is_found():
    assert {page.stem for page in PAGES} >= {"README", "architecture", "how-to", "tutorial"}
    assert any(block.language == "python" for block in blocks_of(ROOT / "README.md"))
