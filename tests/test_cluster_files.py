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
# KubeRay's own fields of a RayJob, as its custom resource definition has them; pod templates are
# Kubernetes's. docs/cluster.md says how both were validated.
TEXT, COUNT, FLAG = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
TEXTS = {"type": "object", "additionalProperties": TEXT}


def fields(required, **known):
    """The schema of an object with these fields and no others."""
    return {"type": "object", "properties": known, "additionalProperties": False,
            "required": required.split()}  # fmt: skip


GROUP = {"rayStartParams": TEXTS, "template": {"type": "object", "required": ["spec"]}}
HEAD = fields("rayStartParams template", **GROUP, enableIngress=FLAG, serviceType=TEXT)
WORKERS = fields(
    "groupName minReplicas maxReplicas rayStartParams template", **GROUP, groupName=TEXT,
    replicas=COUNT, minReplicas=COUNT, maxReplicas=COUNT, numOfHosts=COUNT,
)  # fmt: skip
CLUSTER = fields(
    "headGroupSpec", headGroupSpec=HEAD, rayVersion=TEXT, enableInTreeAutoscaling=FLAG,
    workerGroupSpecs={"type": "array", "items": WORKERS},
)  # fmt: skip
JOB = fields(
    "entrypoint", entrypoint=TEXT, rayClusterSpec=CLUSTER, shutdownAfterJobFinishes=FLAG,
    ttlSecondsAfterFinished=COUNT, backoffLimit=COUNT, submissionMode=TEXT, suspend=FLAG,
)  # fmt: skip


def parsed(words):
    """The options that our command reads from a command line."""
    command = typer.main.get_command(make_app(["solve"])).commands["solve"]
    return command.make_context("solve", list(words)).params


def test_the_rayjob_has_the_fields_of_one():
    yaml, jsonschema = pytest.importorskip("yaml"), pytest.importorskip("jsonschema")
    job = yaml.safe_load((FOLDER / "kuberay.yaml").read_text(encoding="utf-8"))
    assert (job["apiVersion"], job["kind"]) == ("ray.io/v1", "RayJob")
    jsonschema.validate(job["spec"], JOB)
    cluster = job["spec"]["rayClusterSpec"]
    [group] = cluster["workerGroupSpecs"]
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
