"""The commands of the study: listed, and each with help of its own."""

from __future__ import annotations

import pytest


def test_help_lists_the_commands(call):
    code, text, err = call("--help")
    assert (code, err) == (0, "")
    assert all(name in text for name in ("report", "adversarial", "paper"))
    assert call() == (0, text, "")


@pytest.mark.parametrize("name", ["report", "adversarial", "paper"])
def test_help_of_a_command(call, name):
    code, text, err = call(name, "--help")
    assert (code, err) == (0, "")
    assert f"python -m study {name}" in text


def test_an_unknown_command_is_one_line(refused):
    assert refused("nonsense") == "No such command 'nonsense'."
