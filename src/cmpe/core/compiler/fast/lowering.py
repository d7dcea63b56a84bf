"""Elements of arrays with few instructions, and arguments whose references are not counted.

Numba writes 40 instructions for `a[i, j]`. LLVM removes nearly all of them, after every pass has
read them. Here elements are written as LLVM leaves them. The result is the same: negative indices
count from the end.

Numba counts a reference to each array that a function is given. Its caller holds the array
meanwhile, so here arguments are not counted.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir as llvm
from numba.core import cgutils, ir
from numba.core import types as numba_types
from numba.core.lowering import Lower

types: Any = numba_types

_DATA, _SHAPE, _STRIDES = 4, 5, 6  # fields of an array


class LeanLower(Lower):  # type: ignore[misc]
    """Numba's lowering, but for elements of arrays and for arguments."""

    def setup_function(self, fndesc: Any) -> None:
        """Begin a function."""
        super().setup_function(fndesc)
        self._borrowed: set[str] = set()  # variables that are arguments

    def lower_inst(self, inst: Any) -> Any:
        """One statement."""
        if isinstance(inst, ir.Assign) and isinstance(inst.value, ir.Arg) and self._borrows(inst):
            return
        if isinstance(inst, ir.StaticSetItem) and self._is_array(inst.target):
            signature = self.fndesc.calltypes[inst]
            self.lower_setitem(inst.target, inst.index_var, inst.value, signature)
        else:
            super().lower_inst(inst)

    def lower_expr(self, resty: Any, expr: Any) -> Any:
        """The value of an expression."""
        if expr.op == "static_getitem" and expr.index_var and self._is_array(expr.value):
            signature = self.fndesc.calltypes[expr]
            return self.lower_getitem(resty, expr, expr.value, expr.index_var, signature)
        return super().lower_expr(resty, expr)

    # arguments

    def _borrows(self, inst: Any) -> bool:
        """Use an argument without counting it, where its variable is never assigned again."""
        name = inst.target.name
        kind = self.typeof(name)
        is_only = len(self.func_ir._definitions[name]) == 1
        if not is_only or self.typeof("arg." + inst.value.name) != kind:
            return False
        if not self.context.data_model_manager[kind].contains_nrt_meminfo():
            return False
        self._borrowed.add(name)
        self._alloca_var(name, kind)
        value = self.fnargs[inst.value.index]
        if name in self._singly_assigned_vars:
            self._blk_local_varmap[name] = value
        else:
            self.builder.store(value, self.getvar(name))
        return True

    def delvar(self, name: str) -> None:
        """Forget a variable. Nothing is left to do for an argument that was not counted."""
        if name not in self._borrowed:
            super().delvar(name)
        elif name not in self._blk_local_varmap:
            self._singly_assigned_vars.discard(name)

    # elements of arrays

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
        """`value[index]`."""
        if not self._is_element(value, index):
            return super().lower_getitem(resty, expr, value, index, signature)
        dtype = self.typeof(value.name).dtype
        element = self.context.unpack_value(self.builder, dtype, self._element(value, index))
        return self.context.cast(self.builder, element, dtype, resty)

    def lower_setitem(self, target: Any, index: Any, value: Any, signature: Any) -> None:
        """`target[index] = value`."""
        if not self._is_element(target, index):
            super().lower_setitem(target, index, value, signature)
            return
        given, expected = self.typeof(value.name), signature.args[2]
        dtype = self.typeof(target.name).dtype
        number = self.context.cast(self.builder, self.loadvar(value.name), given, expected)
        number = self.context.cast(self.builder, number, expected, dtype)
        self.context.pack_value(self.builder, dtype, number, self._element(target, index))

    def _is_array(self, variable: Any) -> bool:
        return isinstance(self.typeof(variable.name), types.Array)

    def _is_element(self, array: Any, index: Any) -> bool:
        kind, indices = self.typeof(array.name), _indices(self.typeof(index.name))
        return (
            type(kind) is types.Array
            and kind.aligned
            and isinstance(kind.dtype, (types.Number, types.Boolean))
            and len(indices) == kind.ndim
            and all(isinstance(i, types.Integer) for i in indices)
            and not self.context.enable_boundscheck
        )

    def _element(self, array: Any, index: Any) -> Any:
        """The address of an element."""
        builder, kind = self.builder, self.typeof(array.name)
        value = self.loadvar(index.name)
        is_number = kind.ndim == 1 and not isinstance(value.type, llvm.Aggregate)
        axes, kinds = range(kind.ndim), _indices(self.typeof(index.name))
        parts = [value] if is_number else [builder.extract_value(value, i) for i in axes]
        places = [self._place(array, axis, parts[axis], kinds[axis]) for axis in axes]
        data = self._field(array, _DATA)
        if kind.layout == "C":
            place = places[0]
            for i in range(1, kind.ndim):
                place = builder.add(builder.mul(place, self._field(array, _SHAPE, i)), places[i])
            return builder.gep(data, [place])
        offset = llvm.Constant(places[0].type, 0)
        for i, place in enumerate(places):
            offset = builder.add(offset, builder.mul(place, self._field(array, _STRIDES, i)))
        return cgutils.pointer_add(builder, data, offset)

    def _place(self, array: Any, axis: int, index: Any, kind: Any) -> Any:
        """An index along one axis, counted from the beginning."""
        if not kind.signed:
            return self.context.cast(self.builder, index, kind, types.uintp)
        index = self.context.cast(self.builder, index, kind, types.intp)
        if isinstance(index, llvm.Constant) and index.constant >= 0:
            return index
        is_negative = self.builder.icmp_signed("<", index, index.type(0))
        from_end = self.builder.add(index, self._field(array, _SHAPE, axis))
        return self.builder.select(is_negative, from_end, index)

    def _field(self, array: Any, *path: int) -> Any:
        """One number of an array's description, without loading the others."""
        value = self._blk_local_varmap.get(array.name)
        if value is not None:
            return self.builder.extract_value(value, path)
        pointer = cgutils.gep_inbounds(self.builder, self.getvar(array.name), 0, *path)
        return self.builder.load(pointer)


def _indices(kind: Any) -> tuple[Any, ...]:
    return tuple(kind.types) if isinstance(kind, types.BaseTuple) else (kind,)
