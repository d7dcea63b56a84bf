"""The passes that kernels need, of the thirty that numba has, and nothing between two of them.

Numba looks through a function for closures, `with`, `literal_unroll` and much else that kernels do
not have, and after most of these passes finds anew where each variable is used, which only the
last one asks for. Kernels have loops, branches, numbers, arrays and calls. A kernel that needs more
is refused by one of these passes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import ir, transforms
from numba.core import typed_passes as typed
from numba.core import types as numba_types
from numba.core import untyped_passes as untyped
from numba.core.compiler_machinery import PassManager, _pass_registry, register_pass
from numba.core.ir_utils import build_definitions
from numba.core.rewrites import rewrite_registry
from numba.core.ssa import reconstruct_ssa

from cmpe.core.compiler.fast.library import Library
from cmpe.core.compiler.fast.lowering import LeanLower

types: Any = numba_types


@register_pass(mutates_CFG=True, analysis_only=False)
class _Canonical(untyped.IRProcessing):  # type: ignore[misc]
    """Blocks that nothing reaches go."""

    _name = "cmpe_canonical"

    def run_pass(self, state: Any) -> bool:
        _canonicalise(state)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class _ConstantIndices(untyped.GenericRewrites):  # type: ignore[misc]
    """Numba's rewrites before types are known: constant indices, messages of errors."""

    _name = "cmpe_constant_indices"

    def run_pass(self, state: Any) -> bool:
        blocks = state.func_ir.blocks
        for kind in rewrite_registry.rewrites["before-inference"]:
            rewrite, waiting = kind(state), list(blocks)
            while waiting:
                key = waiting.pop()
                if rewrite.match(state.func_ir, blocks[key], state.typemap, state.calltypes):
                    blocks[key] = rewrite.apply()
                    waiting.append(key)
        return True


@register_pass(mutates_CFG=False, analysis_only=False)
class _SingleAssignment(untyped.ReconstructSSA):  # type: ignore[misc]
    _name = "cmpe_single_assignment"

    def run_pass(self, state: Any) -> bool:
        state.func_ir = reconstruct_ssa(state.func_ir)
        self._patch_locals(state)
        state.func_ir._definitions = build_definitions(state.func_ir.blocks)
        return True


@register_pass(mutates_CFG=False, analysis_only=False)
class _NoPhis(typed.PreLowerStripPhis):  # type: ignore[misc]
    _name = "cmpe_no_phis"

    def run_pass(self, state: Any) -> bool:
        state.func_ir = self._strip_phi_nodes(state.func_ir)
        state.func_ir._definitions = build_definitions(state.func_ir.blocks)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class _ArrayExpressions(typed.NopythonRewrites):  # type: ignore[misc]
    """Numba's rewrites of `a + b` for arrays, where there is one."""

    _name = "cmpe_array_expressions"

    def run_pass(self, state: Any) -> bool:
        has_one = any(
            _is_of_arrays(each, state.typemap)
            for block in state.func_ir.blocks.values()
            for each in block.find_insts(ir.Assign)
        )
        return has_one and bool(super().run_pass(state))


def _is_of_arrays(assigned: Any, typemap: Any) -> bool:
    found = assigned.value
    if not isinstance(found, ir.Expr) or not isinstance(typemap[assigned.target.name], types.Array):
        return False
    if found.op == "call":
        return isinstance(getattr(typemap[found.func.name], "typing_key", None), np.ufunc)
    return found.op in ("binop", "unary", "inplace_binop")


PASSES = (
    untyped.TranslateByteCode,
    untyped.FixupArgs,
    _Canonical,
    untyped.RewriteSemanticConstants,
    untyped.DeadBranchPrune,
    _ConstantIndices,
    _SingleAssignment,
    typed.NopythonTypeInference,
    _NoPhis,
    _ArrayExpressions,
    typed.IRLegalization,
)


@register_pass(mutates_CFG=True, analysis_only=False)
class Lowering(typed.NativeLowering):  # type: ignore[misc]
    """Numba's, with fewer instructions."""

    _name = "cmpe_lowering"
    library: Any = Library

    def run_pass(self, state: Any) -> bool:
        """As numba's, into a library of this package."""
        state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()  # else it cannot be kept
        return bool(super().run_pass(state))

    @property
    def lowering_class(self) -> Any:
        """What writes LLVM's representation."""
        return LeanLower


class LeanManager(PassManager):  # type: ignore[misc]
    """Runs passes, and tidies up after those that add or remove blocks."""

    def _runPass(self, index: int, pss: Any, internal_state: Any) -> None:  # noqa: N802
        pss.analysis = self._analysis
        before = _blocks(internal_state)
        pss.run_initialization(internal_state)
        pss.run_pass(internal_state)
        pss.run_finalizer(internal_state)
        if before and before != _blocks(internal_state) and pss.name() != "ir_legalization":
            _canonicalise(internal_state)


def _canonicalise(state: Any) -> None:
    state.func_ir.blocks = transforms.canonicalize_cfg(state.func_ir.blocks)


def _blocks(state: Any) -> list[int]:
    return [] if state.func_ir is None else sorted(state.func_ir.blocks)


def kernel_passes(lowering: Any) -> PassManager:
    """How a kernel is compiled; `lowering` is the last pass but one."""
    manager = LeanManager("cmpe")
    for each in (*PASSES, lowering, typed.NoPythonBackend):
        manager.add_pass(each, _pass_registry.get(each).pass_inst.name())
    manager.finalize()
    return manager
