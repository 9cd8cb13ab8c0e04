"""Functions of the runtime libraries of compiler and C that LLVM calls implicitly.

If a number of F16 gets the sign of a number of F64, by way of F32, LLVM drops the conversions of
copysign's second operand. It then has to convert that operand from F64 to F16 itself, for which
processors have no instruction.

LLVM calls memcpy for loops that copy. The GNU C library copies 2 KiB and more by the processor's
string instruction. On Zen 4 it takes up to 25 times as long as vectors where the target is up to 31
bytes ahead of the source, modulo 4 KiB, as rows may be that a pad shifts by an element.
"""

from collections.abc import Mapping
from typing import Any

from llvmlite import ir
from numba import types

from xla_server.codegen.compiler.python_compiler import write_function
from xla_server.codegen.compiler.shared_functions import SharedFunction
from xla_server.codegen.functions.bits.half_floats import half_of_f64
from xla_server.codegen.functions.bits.words import I64, Word
from xla_server.codegen.instructions.instruction import instruction_of
from xla_server.codegen.instructions.intrinsics import whole_mod
from xla_server.codegen.instructions.memory import copy_bytes
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.routine import Offset, Read, Routine, Write
from xla_server.target.machine import Machine


def _write_half_of_f64(code: Any, machine: Machine) -> None:
    builder = ir.IRBuilder(code.append_basic_block())
    builder.ret(half_of_f64(Word(builder, code.args[0]), machine).code)


_VECTOR_BYTES = 32
_STRING_BYTES = 2112
"""Smallest copies by the string instruction in the GNU C library 2.36, for these vectors."""

_AHEAD_BYTES, _PAGE_BYTES = 31, 4096
"""Distances of a target from its source, modulo the second, at which that instruction is slow."""


@instruction_of(types.void(types.int64, types.int64, types.int64))
def _move_bytes(builder: Any, *args: Any) -> None:
    builder.call(ir.Function(builder.module, ir.FunctionType(I64, [I64] * 3), "memmove"), args)


def _copy(target: Write, source: Read, count: Offset) -> int:
    """Copy by vectors, to aligned ones but for the first and last, where the library is slow."""
    ahead = whole_mod(target - source, _PAGE_BYTES)
    if count < _STRING_BYTES or ahead == 0 or ahead > _AHEAD_BYTES:
        _move_bytes(target, source, count)
        return target
    last = count - _VECTOR_BYTES
    copy_bytes(target, source, _VECTOR_BYTES)
    copy_bytes(target + last, source + last, _VECTOR_BYTES)
    at = _VECTOR_BYTES - whole_mod(target, _VECTOR_BYTES)
    while at < last:
        copy_bytes(target + at, source + at, _VECTOR_BYTES)
        at += _VECTOR_BYTES
    return target


class _LibraryFunction(SharedFunction):
    """A function with the symbol and types that LLVM expects."""

    def __init__(
        self, symbol: str, form: ir.FunctionType, write: Any, effort: Effort = Effort.WRITTEN
    ) -> None:
        super().__init__(Routine(symbol, ()), write, effort)
        self.symbol, self._form = symbol, form


HALF_OF_F64 = "__truncdfhf2"
"""The symbol of the conversion from F64 to F16, which may be missing in a process."""

COPY = "memcpy"

COMPILER_LIBRARY: Mapping[str, SharedFunction] = {
    COPY: _LibraryFunction(
        COPY,
        ir.FunctionType(I64, [I64] * 3),
        lambda code, machine: write_function(code, machine, _copy),
        Effort.PLAIN,
    ),
    HALF_OF_F64: _LibraryFunction(
        HALF_OF_F64, ir.FunctionType(ir.HalfType(), [ir.DoubleType()]), _write_half_of_f64
    ),
}
"""The functions by their symbols."""
