"""The module of LLVM that a kernel becomes, and how it is optimised.

As numba does it, with two exceptions. Inner functions are linked into the kernel once each, before
anything is optimised. And no loop is unrolled once functions have been joined: kernels are many
short loops, and unrolling wrote 40 % more instructions without making any kernel that was measured
faster. Loops over a constant number of steps are unrolled before, function by function.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding
from numba.core import config
from numba.core.codegen import JITCodeLibrary, _parse_refprune_flags


class Library(JITCodeLibrary):  # type: ignore[misc]
    """A kernel and all it calls."""

    def finalize(self) -> None:
        """Link every function that is called, each once, and compile them together."""
        seen: set[Any] = set()
        waiting = list(reversed(self._linking_libraries))
        while waiting:
            library = waiting.pop()
            if library in seen:
                continue
            seen.add(library)
            if isinstance(library, Unfinished):
                self._final_module.link_in(library.own_module(), preserve=True)
                waiting += reversed(library._linking_libraries)
            else:
                self._final_module.link_in(library._get_module_for_linking(), preserve=True)
            self._reload_init.update(library._reload_init)
        self._optimize_final_module()
        self._final_module.verify()
        self._finalize_final_module()

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


class Unfinished(Library):
    """Code to be linked into other code: neither optimised nor made machine code."""

    _shared_module: Any

    def finalize(self) -> None:
        """Nothing is done before a kernel that calls this is compiled."""
        self._finalized = True

    def own_module(self) -> Any:
        """The function without what it calls; several kernels may have it."""
        if self._shared_module is None:
            for function in self._final_module.functions:
                if not function.is_declaration and function.linkage == binding.Linkage.external:
                    function.linkage = "linkonce_odr"
            self._shared_module = self._final_module
        return self._shared_module
