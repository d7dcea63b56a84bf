"""From numba's representation to LLVM's, with a third of the instructions for what kernels are of.

Numba writes 40 instructions for `a[i, j]`, 90 for `for i in range(n)`, and stores a null where a
number is no longer needed. LLVM removes nearly all of them, after they were made, printed, read and
looked at by every pass. Here elements of arrays, loops over ranges and plain numbers are written as
LLVM leaves them; everything else is numba's. What is computed is the same: negative indices count
from the end, and loops end where they did.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir as llvm
from numba.core import cgutils, ir
from numba.core import types as numba_types
from numba.core.callwrapper import PyCallWrapper
from numba.core.lowering import Lower

types: Any = numba_types

_DATA, _SHAPE, _STRIDES = 4, 5, 6  # fields of an array
_ITER, _STOP, _STEP, _COUNT = range(4)  # fields of an iterator over a range
_COUNTED: dict[Any, bool] = {}  # types, and whether references are counted in them


class _Anonymous:
    """Where names of values need not differ."""

    def register(self, name: str, deduplicate: bool = False) -> str:
        """Take any name."""
        return name


class LeanLower(Lower):  # type: ignore[misc]
    """Numba's lowering, with few instructions for what there is most of."""

    def create_cpython_wrapper(self, release_gil: bool = False) -> None:
        """What Python calls. It runs once a call, so it is neither optimised nor inlined."""
        module = self.context.create_module("wrapper")
        kind = self.context.call_conv.get_function_type(self.fndesc.restype, self.fndesc.argtypes)
        callee = llvm.Function(module, kind, self.fndesc.llvm_func_name)
        wrapper, _ = PyCallWrapper(
            self.context, module, callee, self.fndesc, self.env, self.call_helper, release_gil
        ).build()
        wrapper.attributes.update(("noinline", "optnone"))
        self.library.add_ir_module(module)

    def setup_function(self, fndesc: Any) -> None:
        """Begin a function. Names of values do not matter: `fast.text` writes numbers."""
        super().setup_function(fndesc)
        self._borrowed: set[str] = set()  # variables that are arguments
        self.function.scope = self.entry_block.scope = _Anonymous()

    def lower_block(self, block: Any) -> None:
        """Some statements. Numba notes before each what an error would say."""
        self.pre_block(block)
        for inst in block.body:
            self.loc = inst.loc
            self.lower_inst(inst)
        self.post_block(block)

    def lower_inst(self, inst: Any) -> Any:
        """One statement."""
        if isinstance(inst, ir.Assign) and isinstance(inst.value, ir.Arg):
            self._take(inst)
        elif isinstance(inst, ir.Assign):
            value = self.lower_assign(self.typeof(inst.target.name), inst)
            self.storevar(value, inst.target.name)
        elif isinstance(inst, ir.Del):
            self.delvar(inst.value)
        elif isinstance(inst, ir.StaticSetItem) and isinstance(
            self.typeof(inst.target.name), types.Array
        ):
            signature = self.fndesc.calltypes[inst]
            self.lower_setitem(inst.target, inst.index_var, inst.value, signature)
        else:
            super().lower_inst(inst)

    def _take(self, inst: Any) -> None:
        """An argument. The caller holds it meanwhile: it is not counted by its own name."""
        name, own = inst.target.name, self.typeof(inst.target.name)
        is_only = len(self.func_ir._definitions[name]) == 1
        is_same = self.typeof("arg." + inst.value.name) == own
        if is_only and is_same and self._is_counted(own):
            self._borrowed.add(name)
            self._alloca_var(name, own)
            value = self.fnargs[inst.value.index]
            if name in self._singly_assigned_vars:
                self._blk_local_varmap[name] = value
            else:
                self.builder.store(value, self.getvar(name))
        else:
            self.storevar(self.lower_assign(own, inst), name, argidx=inst.value.index)

    def lower_expr(self, resty: Any, expr: Any) -> Any:
        """The value of an expression."""
        if expr.op in ("pair_first", "pair_second"):
            kind = self.typeof(expr.value.name)
            if isinstance(kind.first_type, types.Number):
                return self.builder.extract_value(
                    self.loadvar(expr.value.name), int(expr.op == "pair_second")
                )
        elif expr.op == "getiter" and self._is(expr.value, types.RangeType):
            return self._start_range(resty, self.loadvar(expr.value.name))
        elif expr.op == "iternext" and self._is(expr.value, types.RangeIteratorType):
            return self._next_of_range(resty, self.loadvar(expr.value.name))
        elif expr.op == "static_getitem" and self._is(expr.value, types.Array) and expr.index_var:
            signature = self.fndesc.calltypes[expr]
            return self.lower_getitem(resty, expr, expr.value, expr.index_var, signature)
        return super().lower_expr(resty, expr)

    def _is(self, variable: Any, kind: Any) -> bool:
        return isinstance(self.typeof(variable.name), kind)

    # elements of arrays

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
        """`value[index]`."""
        if not self._is_element(value, index):
            return super().lower_getitem(resty, expr, value, index, signature)
        kind = self.typeof(value.name)
        found = self.context.unpack_value(
            self.builder, kind.dtype, self._element(value, index, kind)
        )
        return self.context.cast(self.builder, found, kind.dtype, resty)

    def lower_setitem(self, target: Any, index: Any, value: Any, signature: Any) -> None:
        """`target[index] = value`."""
        if not self._is_element(target, index):
            super().lower_setitem(target, index, value, signature)
            return
        kind, own = self.typeof(target.name), self.typeof(value.name)
        number = self.context.cast(self.builder, self.loadvar(value.name), own, signature.args[2])
        number = self.context.cast(self.builder, number, signature.args[2], kind.dtype)
        self.context.pack_value(
            self.builder, kind.dtype, number, self._element(target, index, kind)
        )

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

    def _element(self, array: Any, index: Any, kind: Any) -> Any:
        """Where the element lies."""
        builder, of = self.builder, _indices(self.typeof(index.name))
        value = self.loadvar(index.name)
        parts = (
            [value]
            if kind.ndim == 1 and not isinstance(value.type, llvm.Aggregate)
            else [builder.extract_value(value, i) for i in range(kind.ndim)]
        )
        places = [self._place(array, i, part, of[i]) for i, part in enumerate(parts)]
        data = self._field(array, _DATA)
        if kind.layout == "C":
            place = places[0]
            for i in range(1, kind.ndim):
                place = builder.add(builder.mul(place, self._field(array, _SHAPE, i)), places[i])
            return builder.gep(data, [place])
        offset = None
        for i, place in enumerate(places):
            step = builder.mul(place, self._field(array, _STRIDES, i))
            offset = step if offset is None else builder.add(offset, step)
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
        """One number of an array, without loading the others."""
        known = self._blk_local_varmap.get(array.name)
        if known is not None:
            return self.builder.extract_value(known, path)
        pointer = cgutils.gep_inbounds(self.builder, self.getvar(array.name), 0, *path)
        return self.builder.load(pointer)

    # ranges

    def _lower_call_normal(self, fnty: Any, expr: Any, signature: Any) -> Any:
        made = signature.return_type
        if getattr(fnty, "typing_key", None) is not range or not isinstance(made, types.RangeType):
            return super()._lower_call_normal(fnty, expr, signature)
        given = self.fold_call_args(fnty, signature, expr.args, expr.vararg, expr.kws)
        kind = self.context.get_value_type(made)
        zero, one = kind.elements[0](0), kind.elements[0](1)
        start, stop, step = (zero, given[0], one) if len(given) == 1 else (*given, one)[:3]
        return self._struct(kind, (start, stop, step))

    def _struct(self, kind: Any, values: Any) -> Any:
        found = llvm.Constant(kind, llvm.Undefined)
        for i, value in enumerate(values):
            found = self.builder.insert_value(found, value, i)
        return found

    def _start_range(self, resty: Any, given: Any) -> Any:
        """How many steps there are, beforehand."""
        builder = self.builder
        start, stop, step = (builder.extract_value(given, i) for i in range(3))
        zero, one = start.type(0), start.type(1)
        is_down = builder.icmp_signed("<", step, zero)
        span = builder.select(is_down, builder.sub(start, stop), builder.sub(stop, start))
        size = builder.select(is_down, builder.sub(zero, step), step)
        steps = builder.add(builder.udiv(builder.sub(span, one), size), one)
        steps = builder.select(builder.icmp_signed(">", span, zero), steps, zero)
        slots = [cgutils.alloca_once(builder, start.type) for _ in range(2)]
        builder.store(start, slots[0])
        builder.store(steps, slots[1])
        kind = self.context.get_value_type(resty)
        return self._struct(kind, (slots[0], stop, step, slots[1]))

    def _next_of_range(self, resty: Any, iterator: Any) -> Any:
        """The next number, and whether there is one."""
        builder = self.builder
        slot, left = builder.extract_value(iterator, _ITER), builder.extract_value(iterator, _COUNT)
        number, count = builder.load(slot), builder.load(left)
        is_valid = builder.icmp_signed(">", count, count.type(0))
        builder.store(builder.sub(count, count.type(1), flags=["nsw"]), left)
        builder.store(builder.add(number, builder.extract_value(iterator, _STEP)), slot)
        return self._struct(self.context.get_value_type(resty), (number, is_valid))

    # variables

    def alloca_lltype(self, name: str, lltype: Any, datamodel: Any = None) -> Any:
        """Room for a variable. Numba asks LLVM for its size, for debuggers."""
        if datamodel is None or (self.context.enable_nrt and datamodel.contains_nrt_meminfo()):
            return cgutils.alloca_once(self.builder, lltype, zfill=False)
        with self.builder.goto_entry_block():
            return self.builder.alloca(lltype)

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        """Give a variable a value."""
        kind = self.typeof(name)
        is_local = name in self._singly_assigned_vars
        is_first = argidx is not None  # nothing was there before
        if is_local or (self._is_counted(kind) and not is_first):
            super().storevar(value, name)
        else:
            self._alloca_var(name, kind)
            self.builder.store(value, self.getvar(name))

    def delvar(self, name: str) -> None:
        """Forget a variable: where no references are counted in it, nothing is left to do."""
        if name not in self._borrowed and self._is_counted(self.typeof(name)):
            super().delvar(name)
        elif name not in self._blk_local_varmap:
            self._singly_assigned_vars.discard(name)

    def _is_counted(self, kind: Any) -> bool:
        if not self.context.enable_nrt:
            return False
        if kind not in _COUNTED:
            _COUNTED[kind] = self.context.data_model_manager[kind].contains_nrt_meminfo()
        return _COUNTED[kind]

    # operators

    def lower_binop(self, resty: Any, expr: Any, op: Any) -> Any:
        """An operator and two values."""
        if expr.static_lhs is not ir.UNDEFINED or expr.static_rhs is not ir.UNDEFINED:
            return super().lower_binop(resty, expr, op)
        context, asked = self.context.typing_context, self.fndesc.calltypes[expr]
        values = [
            self.context.cast(self.builder, self.loadvar(v.name), self.typeof(v.name), kind)
            for v, kind in zip((expr.lhs, expr.rhs), asked.args, strict=True)
        ]
        signature = context.resolve_function_type(op, asked.args, {})
        implementation = self.context.get_function(context.resolve_value_type(op), signature)
        found = implementation(self.builder, values)
        return self.context.cast(self.builder, found, asked.return_type, resty)


def _indices(kind: Any) -> tuple[Any, ...]:
    return tuple(kind.types) if isinstance(kind, types.BaseTuple) else (kind,)
