"""`make browser` installs a browser or says that it cannot; it never fails and never asks."""

from __future__ import annotations

import shutil
import subprocess
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
