"""The module of LLVM that a kernel becomes, and how it is optimised.

As numba does it, with two exceptions. Functions that are only declared are not looked at. And no
loop is unrolled once functions have been joined: kernels are many short loops, and unrolling wrote
40 % more instructions, which took a quarter of LLVM's seconds and nothing off the time of any
kernel that was measured (docs/architecture.md). Loops over a constant number of steps are unrolled
before, function by function.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding
from numba.core import config
from numba.core.codegen import JITCodeLibrary, _parse_refprune_flags


class Library(JITCodeLibrary):  # type: ignore[misc]
    """A kernel and all it calls."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout
        for function in ll_module.functions:
            if not function.is_declaration:
                manager, builder = self._codegen._function_pass_manager()
                manager.run(function, builder)

    def _optimize_final_module(self) -> None:
        manager, builder = self._codegen._module_pass_manager(
            loop_vectorize=self._codegen._loopvect,
            slp_vectorize=False,
            opt=self._codegen._opt_level,
            cost="cheap",
        )
        manager.run(self._final_module, builder)
        options = binding.create_pipeline_tuning_options(speed_level=int(config.OPT))
        options.loop_vectorization = bool(config.LOOP_VECTORIZE)
        options.slp_vectorization = bool(config.SLP_VECTORIZE)
        options.loop_unrolling = False
        builder = binding.create_pass_builder(self._codegen._tm, options)
        manager = builder.getModulePassManager()
        manager.add_refprune_pass(_parse_refprune_flags())
        manager.run(self._final_module, builder)
