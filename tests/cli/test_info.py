"""`cmpe info`: facts for a person or for a program."""

from __future__ import annotations

import json

from tests.cli.commands import output


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


def test_a_table_has_every_fact_of_the_json(problem):
    facts = json.loads(output("info", problem, "--format", "json"))
    lines = output("info", problem).splitlines()
    assert len(lines) == len(facts)
    width = max(map(len, facts)) + 2
    for line, (name, value) in zip(lines, facts.items(), strict=True):
        assert line[:width].rstrip() == name
        shown = line[width:]
        assert (json.loads(shown) if isinstance(value, dict | list) else shown) in (
            value,
            str(value),
        )
