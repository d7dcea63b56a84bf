"""Functions that only compiled code calls: compiled as a part of their callers.

Numba compiles every function as if Python might call it: with a wrapper for Python and one for C,
optimised by itself, made machine code and kept. Then it links the function into each caller and
optimises it again, up to the function that Python calls, so that what is deep in a tree of calls is
optimised once a level. An inner function is translated once and left there. Its outermost caller
is optimised with all of it, once, and is the only one that is kept. This takes a third off a cold
first answer and nothing off the speed of the code.

It relies, as `core.compiler.fast.shared` does, on names of numba that its documentation does not
promise; `tests/core/compiler/fast` has a test of each effect, which notices a numba that changes
them.
"""

from __future__ import annotations

from typing import Any

from numba.core import types as numba_types
from numba.core.compiler import DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering

from cmpe.core.compiler.fast.library import Unfinished
from cmpe.core.compiler.fast.passes import Lowering
from cmpe.core.compiler.fast.shared import Sharing

types: Any = numba_types
OPTIONS = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


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


class Inner(Sharing):
    """A compiler of functions that others are made of."""

    lowering = _Translate


class Joined(Inner):
    """A compiler of numba's own functions, which need all of numba's passes."""

    def define_pipelines(self) -> list[Any]:
        """Numba's passes, but for the last."""
        super().define_pipelines()
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [
            (_Translate, about) if kind is NativeLowering else (kind, about)
            for kind, about in passes.passes
        ]
        passes.finalize()
        return [passes]


def join(dispatcher: Any) -> None:
    """Make a function of numba, about to be compiled for a kernel, an inner one."""
    compiler = dispatcher._compiler
    if compiler.pipeline_class is not Joined:
        compiler.pipeline_class = Joined
        compiler.targetoptions = compiler.targetoptions | OPTIONS
        hide(dispatcher)


def generalise(dispatcher: Any) -> None:
    """Compile a function for an int, not once more for each number that code calls it with.

    LLVM still sees the number wherever it inlines the call.
    """
    template = dispatcher.get_call_template

    def get_call_template(arguments: Any, named: Any) -> Any:
        plain = {name: types.unliteral(kind) for name, kind in named.items()}
        return template([types.unliteral(kind) for kind in arguments], plain)

    dispatcher.get_call_template = get_call_template


def hide(dispatcher: Any) -> None:
    """Let compiled code call the function, and refuse Python."""
    name = dispatcher.py_func.__qualname__

    def add_overload(compiled: Any) -> None:
        dispatcher.overloads[tuple(compiled.signature.args)] = compiled

    def refuse(*arguments: Any, **named: Any) -> None:
        raise TypeError(f"{name} is an inner function: only compiled code can call it")

    dispatcher.add_overload, dispatcher._compile_for_args = add_overload, refuse
