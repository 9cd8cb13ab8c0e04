"""Functions of the runtime libraries of compiler and C that LLVM calls implicitly.

If a number of F16 gets the sign of a number of F64, by way of F32, LLVM drops the conversions of
copysign's second operand. It then has to convert that operand from F64 to F16 itself, for which
processors have no instruction.

LLVM calls memcpy for loops that copy. That of the GNU C library uses the processor's string
instruction from 2 KiB on. On Zen 4 it takes up to 25 times as long as vectors where the target is
up to 31 bytes ahead of the source, modulo 4 KiB, as rows may be that a pad shifts by an element.
"""

from collections.abc import Mapping
from typing import Any

from llvmlite import ir

from xla_server.codegen.compiler.shared_functions import SharedFunction
from xla_server.codegen.functions.bits.half_floats import half_of_f64
from xla_server.codegen.functions.bits.words import I64, Word
from xla_server.codegen.kernel_ir.routine import Routine
from xla_server.target.machine import Machine


def _write_half_of_f64(code: Any, machine: Machine) -> None:
    builder = ir.IRBuilder(code.append_basic_block())
    builder.ret(half_of_f64(Word(builder, code.args[0]), machine).code)


_VECTOR_BYTES = 32
_STRING_BYTES = 2112
"""Smallest copies by the string instruction in the GNU C library 2.36, for these vectors."""

_AHEAD_BYTES, _PAGE_BYTES = 31, 4096
"""Distances of a target from its source, modulo the second, at which that instruction is slow."""


def _write_copy(code: Any, machine: Machine) -> None:
    """Write memcpy: a loop of vectors where the C library's is slow, else a call of its memmove."""
    builder = ir.IRBuilder(code.append_basic_block())
    target, source, count = (Word(builder, each) for each in code.args)
    ahead = (target - source) & (_PAGE_BYTES - 1)
    is_slow = (ahead - 1).unsigned("<", _AHEAD_BYTES) & count.unsigned(">=", _STRING_BYTES)
    with builder.if_else(is_slow.code) as (slow, usual):
        with usual:
            move = ir.Function(builder.module, code.function_type, "memmove")
            builder.call(move, code.args, tail=True)
        with slow:
            _write_vector_loop(target, source, count)
    builder.ret(target.code)


def _write_vector_loop(target: Word, source: Word, count: Word) -> None:
    """Copy by vectors: the first and the last wherever they are, aligned targets between them."""
    b, vector = target.builder, ir.VectorType(ir.IntType(8), _VECTOR_BYTES)

    def copy(offset: Word) -> None:
        read, written = (
            b.inttoptr((each + offset).code, ir.PointerType(vector)) for each in (source, target)
        )
        b.store(b.load(read, align=1), written, align=1)

    last = count - _VECTOR_BYTES
    copy(count.constant(0))
    copy(last)
    first, before = count.constant(_VECTOR_BYTES) - (target & (_VECTOR_BYTES - 1)), b.block
    inside, after = (b.append_basic_block(name) for name in ("copy", "end"))
    b.branch(inside)
    b.position_at_end(inside)
    offset = target.made(b.phi(target.type))
    copy(offset)
    following = offset + _VECTOR_BYTES
    offset.code.add_incoming(first.code, before)
    offset.code.add_incoming(following.code, inside)
    b.cbranch(following.unsigned("<", last).code, inside, after)
    b.position_at_end(after)


class _LibraryFunction(SharedFunction):
    """A function with the symbol and types that LLVM expects."""

    def __init__(self, symbol: str, form: ir.FunctionType, write: Any) -> None:
        super().__init__(Routine(symbol, ()), write)
        self.symbol, self._form = symbol, form


HALF_OF_F64 = "__truncdfhf2"
"""The symbol of the conversion from F64 to F16, which may be missing in a process."""

COPY = "memcpy"

COMPILER_LIBRARY: Mapping[str, SharedFunction] = {
    COPY: _LibraryFunction(COPY, ir.FunctionType(I64, [I64] * 3), _write_copy),
    HALF_OF_F64: _LibraryFunction(
        HALF_OF_F64, ir.FunctionType(ir.HalfType(), [ir.DoubleType()]), _write_half_of_f64
    ),
}
"""The functions by their symbols."""
