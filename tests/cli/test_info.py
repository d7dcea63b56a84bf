"""`cmpe info`: facts of models and of directories, for a person or a program."""

from __future__ import annotations

import json

from tests.cli.test_cli import output


def test_info_of_a_model_and_of_a_directory(model, problem):
    facts = json.loads(output("info", model, "--format", "json"))
    assert facts["variables"] == 12
    assert facts["factors"] == 12 + 17
    assert facts["edges"] == 17
    facts = json.loads(output("info", problem, "--format", "json"))
    assert facts["free variables"] == 6
    assert facts["test rows"].startswith("6 ")
    lines = output("info", problem).splitlines()
    assert any(line.split()[:2] == ["variables", "12"] for line in lines)
