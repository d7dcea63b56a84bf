"""A module of LLVM as text, as `str` of it has it but for the names of values.

Numba's names are long and made unique one by one; LLVM reads each, keeps it and makes more of them
in every pass. Here arguments, blocks and instructions have numbers, as LLVM itself counts them, and
the instructions that there are most of are written without going through four methods each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from llvmlite.ir import instructions as of

_REFERENCE = "_StringReferenceCaching__cached_refstr"  # where llvmlite keeps what a value is called
_VOID = ir.VoidType


def text(module: Any) -> str:
    """What LLVM is to read."""
    lines = [
        f'target triple = "{module.triple}"',
        f'target datalayout = "{module.data_layout}"',
        *(each.get_declaration() for each in module.get_identified_types().values()),
    ]
    for each in module.globals.values():
        if isinstance(each, ir.Function) and each.blocks:
            _function(each, lines)
        else:
            lines.append(str(each))
    lines += module._get_metadata_lines()
    return "\n".join(lines)


def _function(function: Any, lines: list[str]) -> None:
    _number(function)
    head: list[str] = []
    function.descr_prototype(head)
    lines += (*head, "{")
    for block in function.blocks:
        lines.append(block.get_reference()[1:] + ":")
        for each in block.instructions:
            write = _WRITERS.get(type(each))
            written = _any(each) if write is None or each.metadata else write(each)
            if isinstance(each.type, _VOID):
                lines.append(written)
            else:
                lines.append(f"{each.get_reference()} = {written}")
    lines.append("}")


def _number(function: Any) -> None:
    """Let everything in a function be called by its number."""
    count = 0
    for argument in function.args:
        setattr(argument, _REFERENCE, f"%{count}")
        count += 1
    for block in function.blocks:
        setattr(block, _REFERENCE, f"%{count}")
        count += 1
        for each in block.instructions:
            if not isinstance(each.type, _VOID):
                setattr(each, _REFERENCE, f"%{count}")
                count += 1


def _any(each: Any) -> str:
    """As llvmlite writes it."""
    parts: list[str] = []
    each.descr(parts)
    return "".join(parts).rstrip()


def _load(each: Any) -> str:
    (place,) = each.operands
    align = "" if each.align is None else f", align {each.align}"
    return f"load {each.type}, {place.type} {place.get_reference()}{align}"


def _store(each: Any) -> str:
    value, place = each.operands
    align = "" if each.align is None else f", align {each.align}"
    return (
        f"store {value.type} {value.get_reference()}, {place.type} {place.get_reference()}{align}"
    )


def _extract(each: Any) -> str:
    whole = each.aggregate
    path = ", ".join(map(str, each.indices))
    return f"extractvalue {whole.type} {whole.get_reference()}, {path}"


def _insert(each: Any) -> str:
    whole, part = each.aggregate, each.value
    path = ", ".join(map(str, each.indices))
    return (
        f"insertvalue {whole.type} {whole.get_reference()}, "
        f"{part.type} {part.get_reference()}, {path}"
    )


_WRITERS: dict[Any, Callable[[Any], str]] = {
    of.LoadInstr: _load,
    of.StoreInstr: _store,
    of.ExtractValue: _extract,
    of.InsertValue: _insert,
}
