"""Functions that only compiled code calls: compiled as a part of their callers.

Numba compiles every function as if Python might call it: with a wrapper for Python and one for C,
optimised by itself, made machine code and kept. Then it links the function into each caller and
optimises it again, up to the function that Python calls, so that what is deep in a tree of calls is
optimised once a level. An inner function is translated once and left there. Its outermost caller
is optimised with all of it, once, and is the only one that is kept. This takes a third off a cold
first answer (docs/compiling.md has the figures) and nothing off the speed of the code.

It leans on four names of numba that its documentation does not promise; `tests/compiling` has a
test of each effect, so that a new numba that changes them is noticed.
"""

from __future__ import annotations

from typing import Any

from llvmlite.ir import IRBuilder
from numba.core import cgutils
from numba.core.callconv import CPUCallConv
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_machinery import register_pass
from numba.core.imputils import fix_returning_optional, impl_ret_new_ref
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering

from cmpe.compiling.shared import Sharing

OPTIONS = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


class _Unfinished(JITCodeLibrary):  # type: ignore[misc]
    """Code to be linked into other code: neither optimised nor made machine code."""

    def _optimize_functions(self, ll_module: Any) -> None:
        """As numba's, for functions that are defined here: most are only declared."""
        ll_module.data_layout = self._codegen._data_layout
        for function in ll_module.functions:
            if not function.is_declaration:
                manager, builder = self._codegen._function_pass_manager()
                manager.run(function, builder)

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._finalized = True


class _Whole:
    """Arguments as they are: a tuple of arrays is one argument, where numba makes it a hundred.

    Packing and unpacking it at every call was a third of all instructions.
    """

    def __init__(self, context: Any, kinds: Any) -> None:
        self.argument_types = [context.get_value_type(kind) for kind in kinds]

    def as_arguments(self, builder: Any, values: Any) -> Any:
        return values

    def from_arguments(self, builder: Any, arguments: Any) -> Any:
        return arguments

    def assign_names(self, arguments: Any, names: Any) -> None:
        for argument, name in zip(arguments, names, strict=True):
            argument.name = name


class _Convention(CPUCallConv):  # type: ignore[misc]
    """How inner functions are called."""

    pass


def _declare(context: Any, module: Any, about: Any) -> Any:
    """The function in a module, as `context.declare_function` has it for others."""
    convention = _Convention(context)
    kind = convention.get_function_type(about.restype, about.argtypes)
    function = cgutils.get_or_insert_function(module, kind, about.mangled_name)
    context.apply_target_attributes(function, about.argtypes, about.restype)
    convention.decorate_function(function, about.args, about.argtypes, noalias=about.noalias)
    if about.inline:
        function.attributes.add("alwaysinline")
    return function


def _call(about: Any, library: Any) -> Any:
    """What a caller does, as `imputils.user_function` has it for others."""

    def call(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        function = _declare(context, builder.module, about)
        status, result = _Convention(context).call_function(
            builder, function, about.restype, about.argtypes, args
        )
        with cgutils.if_unlikely(builder, status.is_error):
            context.call_conv.return_status_propagate(builder, status)
        result = fix_returning_optional(context, builder, sig, status, result)
        return impl_ret_new_ref(context, builder, about.restype, result)

    call.signature, call.libs = about.argtypes, (library,)  # type: ignore[attr-defined]
    return call


class _Lower(Lower):  # type: ignore[misc]
    @property
    def call_conv(self) -> _Convention:
        return _Convention(self.context)

    def setup_function(self, fndesc: Any) -> None:
        self.function = _declare(self.context, self.module, fndesc)
        self.entry_block = self.function.append_basic_block("entry")
        self.builder = IRBuilder(self.entry_block)
        self.call_helper = self.call_conv.init_call_helper(self.builder)


@register_pass(mutates_CFG=True, analysis_only=False)
class _Translate(NativeLowering):  # type: ignore[misc]
    """From numba's own representation to LLVM's, and no further."""

    _name = "cmpe_translate"

    @property
    def lowering_class(self) -> type[_Lower]:
        """Lowering with another convention."""
        return _Lower

    def run_pass(self, state: Any) -> bool:
        state.flags.no_compile = True
        state.library = _Unfinished(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        super().run_pass(state)
        lowered = state["cr"]
        address = object()  # stands for the machine code that there is none of
        call = _call(lowered.fndesc, state.library)
        state.targetctx.insert_func_defn([(call, address, call.signature)])
        state["cr"] = lowered._replace(cfunc=address)
        return True


class Inner(Sharing):
    """Numba's passes, but for the last."""

    def define_pipelines(self) -> list[Any]:
        """One pipeline: as numba's, with another lowering."""
        [passes] = super().define_pipelines()
        passes.passes = [
            (_Translate, about) if kind is NativeLowering else (kind, about)
            for kind, about in passes.passes
        ]
        passes.finalize()
        return [passes]


def hide(dispatcher: Any) -> None:
    """Let compiled code call the function, and refuse Python."""
    name = dispatcher.py_func.__qualname__

    def add_overload(compiled: Any) -> None:
        dispatcher.overloads[tuple(compiled.signature.args)] = compiled

    def refuse(*arguments: Any, **named: Any) -> None:
        raise TypeError(f"{name} is an inner function: only compiled code can call it")

    dispatcher.add_overload, dispatcher._compile_for_args = add_overload, refuse
