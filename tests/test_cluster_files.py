"""The launch files in docs/cluster/ are what their tools and our command can read."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import typer

from cmpe.cli.main import make_app

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "cluster"
# Fields of a RayJob and below, as KubeRay's own example has them.
JOB = {"entrypoint", "shutdownAfterJobFinishes", "ttlSecondsAfterFinished", "backoffLimit"}
JOB |= {"rayClusterSpec"}
GROUP = {"groupName", "replicas", "minReplicas", "maxReplicas", "rayStartParams", "template"}


def parsed(words):
    """The options that our command reads from a command line."""
    command = typer.main.get_command(make_app(["solve"])).commands["solve"]
    return command.make_context("solve", list(words)).params


def test_the_rayjob_has_the_fields_of_one():
    yaml = pytest.importorskip("yaml")
    job = yaml.safe_load((FOLDER / "kuberay.yaml").read_text(encoding="utf-8"))
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    assert set(job["spec"]) == JOB
    cluster = job["spec"]["rayClusterSpec"]
    assert set(cluster) == {"rayVersion", "headGroupSpec", "workerGroupSpecs"}
    assert set(cluster["headGroupSpec"]) == {"rayStartParams", "template"}
    [group] = cluster["workerGroupSpecs"]
    assert set(group) == GROUP
    assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
    for template in (cluster["headGroupSpec"]["template"], group["template"]):
        [container] = template["spec"]["containers"]
        assert set(container) <= {"name", "image", "resources", "volumeMounts"}
    name, _, *words = shlex.split(job["spec"]["entrypoint"])
    options = parsed(words)
    assert name == "cmpe"
    assert (options["executor"], options["address"], options["resume"]) == ("ray", "auto", True)


def test_the_slurm_script_is_sound():
    script = FOLDER / "slurm.sh"
    subprocess.run(["bash", "-n", str(script)], check=True)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", str(script)], check=True)
    text = script.read_text(encoding="utf-8")
    call = text[text.index("cmpe solve") :].replace("\\\n", " ")
    options = parsed(shlex.split(call)[2:])
    assert (options["executor"], options["address"]) == ("ray", "$address:$port")
    assert options["resume"]
