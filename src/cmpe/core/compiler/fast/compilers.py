"""Two compilers: of functions that Python calls, and of inner ones, which only compiled code calls.

Numba compiles every function as if Python might call it: with a wrapper for Python and one for C,
optimised by itself, made machine code and cached. Then it links the function into each caller and
optimises it again, up to the function that Python calls, so that what is deep in a tree of calls is
optimised once a level. An inner function is translated once and left there. Its outermost caller
is optimised with all of it, once, and is the only one that is cached.
"""

from __future__ import annotations

from typing import Any

from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import register_pass
from numba.core.typing.context import Context

from cmpe.core.compiler.fast.context import remembering
from cmpe.core.compiler.fast.library import Unfinished
from cmpe.core.compiler.fast.passes import Lowering, kernel_passes


@register_pass(mutates_CFG=True, analysis_only=False)
class _Translate(Lowering):
    """From numba's own representation to LLVM's, and no further."""

    _name = "cmpe_translate"
    library = Unfinished

    def run_pass(self, state: Any) -> bool:
        state.flags.no_compile = True
        super().run_pass(state)
        lowered = state["cr"]
        address = object()  # stands for the machine code that there is none of
        state.targetctx.insert_user_function(address, lowered.fndesc, [state.library])
        state["cr"] = lowered._replace(cfunc=address)
        return True


class Outer(CompilerBase):  # type: ignore[misc]
    """A compiler of functions that Python calls."""

    lowering: Any = Lowering

    def __init__(self, typingctx: Any, *rest: Any) -> None:
        super().__init__(typingctx, *rest)
        if type(typingctx) is Context:
            context = remembering(typingctx)
            self.state.typingctx = self.state.targetctx.typing_context = context

    def define_pipelines(self) -> list[Any]:
        """The passes."""
        return [kernel_passes(self.lowering)]


class Inner(Outer):
    """A compiler of inner functions."""

    lowering = _Translate


def hide(dispatcher: Any) -> None:
    """Let compiled code call the function, and refuse Python."""
    name = dispatcher.py_func.__qualname__

    def add_overload(compiled: Any) -> None:
        dispatcher.overloads[tuple(compiled.signature.args)] = compiled

    def refuse(*arguments: Any, **named: Any) -> None:
        raise TypeError(f"{name} is an inner function: only compiled code can call it")

    dispatcher.add_overload, dispatcher._compile_for_args = add_overload, refuse
