"""Maximum and minimum of floats for processors that compare in one direction.

The larger of two zeros is +0, and with an operand that is NaN the result is one, of any sign, as in
XLA. An x86 processor's own instruction gives its second operand where it cannot decide. In both
orders of operands the results differ for zeros and NaN alone, and one logical instruction joins the
two: `or` keeps a NaN and the sign of -0. LLVM's lowering orders the operands by their signs before
it compares them, in twice as many instructions.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from llvmlite import ir

from xla_server.codegen.instructions.instruction import Instruction, instruction
from xla_server.codegen.instructions.intrinsics import Values, is_float, maximum, minimum
from xla_server.target.machine import Machine

_Join: TypeAlias = Callable[[Any, Any, Any], Any]
"""Function from the builder and the bits of both results to those of one."""


def extremes(machine: Machine) -> Mapping[str, Any]:
    """Return the instructions of a machine that are better than LLVM's lowering."""
    found = {}
    if machine.is_x86:
        found["minimum"] = _extreme(minimum, "<", lambda b, one, other: b.or_(one, other))
    if machine.has("avx512f"):
        found["maximum"] = _extreme(maximum, ">", _common_sign)
    return found


def _common_sign(b: Any, one: Any, other: Any) -> Any:
    """`or` but for the sign, which is `and`: an instruction of three operands in AVX-512."""
    without_sign = ir.Constant(one.type, 2 ** (one.type.width - 1) - 1)
    return b.or_(b.and_(one, other), b.and_(b.or_(one, other), without_sign))


def _extreme(plain: Instruction, relation: str, join: _Join) -> Any:
    """An instruction for floats that are no constants, and `plain` for all other operands.

    LLVM has as few instructions where the sign of an operand is known.
    """

    def define(context: Any, *operands: Any) -> Any:
        signature = plain.signature(context, operands)
        otherwise = plain.code(signature)

        def generate(context: Any, builder: Any, signature: Any, args: Values) -> Any:
            if not is_float(operands[0]) or any(isinstance(each, ir.Constant) for each in args):
                return otherwise(context, builder, signature, args)
            x, y = args
            word = ir.IntType({"float": 32, "double": 64}[str(x.type)])
            found = [
                builder.select(builder.fcmp_ordered(relation, first, second), first, second)
                for first, second in ((x, y), (y, x))
            ]
            bits = join(builder, *(builder.bitcast(each, word) for each in found))
            return builder.bitcast(bits, x.type)

        return signature, generate

    return instruction(define)
