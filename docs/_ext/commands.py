"""The directive `command`: arguments and options of a sub-command, read from its function."""

import inspect
from collections.abc import Callable, Iterator
from enum import Enum
from importlib import import_module
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from docutils import nodes
from docutils.parsers.rst import Directive
from typer.models import ArgumentInfo

from cmpe.cli.main import HOMES


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("command", Command)
    return {"parallel_read_safe": True}


class Command(Directive):
    """What the command does, and a list: what is typed, and what it means."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The first paragraph of the docstring and the list."""
        name = self.arguments[0]
        function = getattr(import_module(f"cmpe.cli.{HOMES.get(name, name)}"), name)
        about = (inspect.getdoc(function) or "").split("\n\n")[0]
        return [
            nodes.paragraph("", " ".join(about.split())),
            nodes.definition_list("", *entries(function), classes=["options"]),
        ]


def entries(function: Callable[..., Any]) -> Iterator[nodes.definition_list_item]:
    """One for each argument and option."""
    hints = get_type_hints(function, include_extras=True)
    for name, parameter in inspect.signature(function).parameters.items():
        if get_origin(hints[name]) is Annotated:
            kind, info = get_args(hints[name])[:2]
            term = nodes.term("", "", nodes.literal("", typed(name, kind, info)))
            text = nodes.paragraph("", meaning(info.help or "", parameter.default))
            yield nodes.definition_list_item("", term, nodes.definition("", text))


def typed(name: str, kind: Any, info: Any) -> str:
    """As a person types it: `PROBLEM_DIR`, `--seed INTEGER`, `--force`."""
    if isinstance(info, ArgumentInfo):
        return name.upper()
    word = ", ".join(info.param_decls or ()) or f"--{name.strip('_').replace('_', '-')}"
    plain = [part for part in get_args(kind) or (kind,) if part is not NoneType]
    inner = get_args(plain[0])[0] if get_origin(plain[0]) is list else plain[0]
    if inner is bool:
        return word
    if isinstance(inner, type) and issubclass(inner, Enum):
        return f"{word} {'|'.join(str(choice.value) for choice in inner)}"
    names = {int: "INTEGER", float: "NUMBER", str: "TEXT"}
    return f"{word} {names.get(inner, 'PATH')}"


def meaning(text: str, default: Any) -> str:
    """The help, and the default where there is one."""
    text = " ".join(text.split())
    if default in (None, False, inspect.Parameter.empty):
        return text
    return f"{text} Default: {getattr(default, 'value', default)}."
