"""What `make` runs: a browser that may be installed, a package that can be read anywhere."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / ".ci" / "browser"
pytestmark = pytest.mark.skipif(not shutil.which("timeout"), reason="needs coreutils")


@pytest.fixture
def run(tmp_path):
    """Run the script where only these commands exist: name -> shell script."""
    for name in ("bash", "timeout"):
        (tmp_path / name).symlink_to(shutil.which(name))

    def running(**commands):
        for name, body in commands.items():
            file = tmp_path / name.replace("_", "-")
            file.write_text(f"#!{tmp_path / 'bash'}\n{body}\n")
            file.chmod(0o755)
        words = [str(tmp_path / "bash"), str(SCRIPT)]
        return subprocess.run(words, env={"PATH": str(tmp_path)}, capture_output=True, text=True)

    return running


def test_nothing_to_do(run):
    done = run(chromium="", chromedriver="", id="echo 0", apt_get="echo no >&2; exit 1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_not_root_or_not_debian(run):
    for commands in ({"id": "echo 0"}, {"id": "echo 1000", "apt_get": "exit 1"}):
        done = run(**commands)
        assert done.returncode == 0
        assert done.stdout.startswith("no chromium and chromedriver here")


def test_a_failed_install_is_tried_after_an_update_and_is_no_failure(run, tmp_path):
    done = run(id="echo 0", apt_get=f'echo "$*" >> {tmp_path}/log; [[ "$*" == *update ]]')
    assert done.returncode == 0
    assert "could not be installed" in done.stdout
    tried = (tmp_path / "log").read_text().splitlines()
    assert [line.split()[-1] for line in tried] == ["chromium-driver", "update", "chromium-driver"]


def test_the_readme_of_an_index_page_has_no_link_into_the_repository():
    spec = spec_from_file_location("hatch_build", SCRIPT.parents[1] / "hatch_build.py")
    hook = module_from_spec(spec)
    pytest.importorskip("hatchling", reason="the build needs hatchling")
    spec.loader.exec_module(hook)
    text = hook.for_an_index((SCRIPT.parents[1] / "README.md").read_text(encoding="utf-8"))
    targets = re.findall(r"\]\(([^)]*)\)", text)
    assert all(target.startswith("https://") for target in targets)
    assert "![" not in text
    assert "<img" not in text
    assert "<!--" not in text
    assert hook.for_an_index("a [b](docs/c.md) [d](https://e)") == "a b [d](https://e)"
    assert hook.for_an_index("a ([b](c.md), [d\ne](f.md)) g (h)") == "a g (h)"


def test_the_version_is_the_same_everywhere():
    root = SCRIPT.parents[1]
    version = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    assert f"version: {version}\n" in (root / "CITATION.cff").read_text()
    changes = re.findall(r"^## \[(.+?)\](.*)$", (root / "CHANGELOG.md").read_text(), re.MULTILINE)
    newest = next(entry for entry in changes if entry[0] != "Unreleased")
    assert newest[0] == version
    assert re.fullmatch(r" - \d{4}-\d\d-\d\d", newest[1])
