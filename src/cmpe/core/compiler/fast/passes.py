"""The passes of numba that kernels need: 13 of thirty.

Numba looks through a function for closures, `with`, `literal_unroll` and much else that kernels do
not have. Kernels have loops, branches, numbers, arrays and calls; one of these passes refuses
a kernel that needs more.
"""

from __future__ import annotations

from typing import Any

from numba.core import typed_passes as typed
from numba.core import untyped_passes as untyped
from numba.core.compiler_machinery import PassManager, _pass_registry, register_pass

from cmpe.core.compiler.fast.library import Library
from cmpe.core.compiler.fast.lowering import LeanLower

PASSES = (
    untyped.TranslateByteCode,
    untyped.FixupArgs,
    untyped.IRProcessing,
    untyped.RewriteSemanticConstants,
    untyped.DeadBranchPrune,
    untyped.GenericRewrites,
    untyped.ReconstructSSA,
    typed.NopythonTypeInference,
    typed.PreLowerStripPhis,
    typed.NopythonRewrites,
    typed.IRLegalization,
)


@register_pass(mutates_CFG=True, analysis_only=False)
class Lowering(typed.NativeLowering):  # type: ignore[misc]
    """Numba's lowering, into a library of this package."""

    _name = "cmpe_lowering"
    library: Any = Library

    def run_pass(self, state: Any) -> bool:
        """Translate a function to LLVM's representation."""
        state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()  # else it cannot be cached
        return bool(super().run_pass(state))

    @property
    def lowering_class(self) -> Any:
        """The class that writes LLVM's representation."""
        return LeanLower


def kernel_passes(lowering: Any) -> PassManager:
    """How a kernel is compiled; `lowering` is the last pass but one."""
    manager = PassManager("cmpe")
    for each in (*PASSES, lowering, typed.NoPythonBackend):
        manager.add_pass(each, _pass_registry.get(each).pass_inst.name())
    manager.finalize()
    return manager
