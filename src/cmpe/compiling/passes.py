"""The passes that kernels need, of the thirty that numba has, and nothing between two of them.

Numba looks through a function for closures, `with`, `literal_unroll` and much else that kernels do
not have, and after most of these passes finds anew where each variable is used. Kernels have loops,
branches, numbers, arrays and calls. A kernel that needs more is refused by one of these passes.
"""

from __future__ import annotations

from typing import Any

from numba.core import typed_passes as typed
from numba.core import untyped_passes as untyped
from numba.core.compiler_machinery import PassManager, _pass_registry, register_pass
from numba.core.postproc import PostProcessor

from cmpe.compiling.lowering import LeanLower

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
    """Numba's, with fewer instructions."""

    _name = "cmpe_lowering"

    @property
    def lowering_class(self) -> Any:
        """What writes LLVM's representation."""
        return LeanLower


class LeanManager(PassManager):  # type: ignore[misc]
    """Runs passes, and finds out where variables are used only if blocks have come or gone."""

    def _runPass(self, index: int, pss: Any, internal_state: Any) -> None:  # noqa: N802
        pss.analysis = self._analysis
        before = _blocks(internal_state)
        pss.run_initialization(internal_state)
        pss.run_pass(internal_state)
        pss.run_finalizer(internal_state)
        if before and before != _blocks(internal_state) and pss.name() != "ir_legalization":
            PostProcessor(internal_state.func_ir).run()


def _blocks(state: Any) -> list[int]:
    return [] if state.func_ir is None else sorted(state.func_ir.blocks)


def kernel_passes(lowering: Any) -> PassManager:
    """How a kernel is compiled; `lowering` is the last pass but one."""
    manager = LeanManager("cmpe")
    for each in (*PASSES, lowering, typed.NoPythonBackend):
        manager.add_pass(each, _pass_registry.get(each).pass_inst.name())
    manager.finalize()
    return manager
