"""LLVM reads the same code from the text with numbers as from llvmlite's own."""

from __future__ import annotations

from llvmlite import binding, ir

from cmpe.core.compiler.fast.text import text

LONG, REAL = ir.IntType(64), ir.DoubleType()


def module():
    """One function with each kind of instruction that is written here, and some others."""
    made = ir.Module("a module")
    made.triple, made.data_layout = binding.get_default_triple(), ""
    pair = ir.LiteralStructType([LONG, REAL])
    kind = ir.FunctionType(REAL, [LONG, REAL.as_pointer()])
    function = ir.Function(made, kind, "a function")
    other = ir.Function(made, ir.FunctionType(ir.VoidType(), [LONG]), "only declared")
    constant = ir.GlobalVariable(made, LONG, "a constant")
    constant.initializer, constant.global_constant = LONG(7), True
    builder = ir.IRBuilder(function.append_basic_block("a block"))
    end = function.append_basic_block("an \\ end")
    slot = builder.alloca(pair, name="a slot")
    value = builder.insert_value(ir.Constant(pair, ir.Undefined), function.args[0], 0, name="same")
    value = builder.insert_value(value, builder.load(function.args[1]), 1, name="same")
    builder.store(value, slot)
    builder.store(ir.Constant(pair, None), slot).align = 8
    builder.call(other, [builder.load(constant)])
    loaded = builder.load(slot)
    loaded.align = 8
    number = builder.extract_value(loaded, 1)
    marked = builder.load(function.args[1])
    marked.set_metadata("invariant.load", made.add_metadata([]))
    builder.cbranch(builder.icmp_signed("<", function.args[0], LONG(0)), end, end)
    builder.position_at_end(end)
    builder.ret(builder.fadd(number, marked))
    return made


def plain(written):
    """What LLVM makes of a text, without the names of values."""
    parsed = binding.parse_assembly(written)
    parsed.verify()
    function = parsed.get_function("a function")
    return [i.opcode for b in function.blocks for i in b.instructions], parsed


def test_the_code_is_the_same():
    theirs, _ = plain(str(module()))
    found, parsed = plain(text(module()))
    assert found == theirs
    again = str(parsed)
    assert "align 8" in again
    assert "!invariant.load" in again
    assert "%0" in again
    assert "a slot" not in again
    assert '@"only declared"' in again
