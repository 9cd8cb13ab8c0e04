"""Functions of the compiler's runtime library that LLVM calls implicitly.

If a number of F16 gets the sign of a number of F64, by way of F32, LLVM drops the conversions of
copysign's second operand. It then has to convert that operand from F64 to F16 itself, for which
processors have no instruction.
"""

from collections.abc import Mapping
from typing import Any

from llvmlite import ir

from xla_server.codegen.compiler.shared_functions import SharedFunction
from xla_server.codegen.functions.bits.half_floats import half_of_f64
from xla_server.codegen.functions.bits.words import Word
from xla_server.codegen.kernel_ir.routine import Routine
from xla_server.target.machine import Machine


def _write_half_of_f64(code: Any, machine: Machine) -> None:
    builder = ir.IRBuilder(code.append_basic_block())
    builder.ret(half_of_f64(Word(builder, code.args[0]), machine).code)


class _LibraryFunction(SharedFunction):
    """A function with the symbol and types that LLVM expects."""

    def __init__(self, symbol: str, form: ir.FunctionType, write: Any) -> None:
        super().__init__(Routine(symbol, ()), write)
        self.symbol, self._form = symbol, form


HALF_OF_F64 = "__truncdfhf2"
"""The symbol of the conversion from F64 to F16, which may be missing in a process."""

COMPILER_LIBRARY: Mapping[str, SharedFunction] = {
    HALF_OF_F64: _LibraryFunction(
        HALF_OF_F64, ir.FunctionType(ir.HalfType(), [ir.DoubleType()]), _write_half_of_f64
    )
}
"""The functions by their symbols."""
