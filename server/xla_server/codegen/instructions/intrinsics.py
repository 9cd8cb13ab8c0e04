"""The instructions kernels are written in: LLVM's own. Every operand keeps its type.

Semantics are XLA's CPU backend's: integers wrap, x / 0 is all ones, x % 0 is x.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from llvmlite import ir
from numba import types

from xla_server.codegen.instructions.instruction import Instruction, check_count, instruction

Builder = Any
Values = Sequence[Any]
Build = Callable[[Builder, Values, Any], Any]
"""Function from the LLVM builder, the operands and the numba type of the first one to the
result."""


def same_type(count: int, build: Build, result: Any = None) -> Any:
    """An intrinsic over `count` operands of one type, whose result has it too, or is `result`."""

    def define(_: Any, *operands: Any) -> Any:
        check_count(count, operands)
        signature = (result or operands[0])(*operands)
        return signature, lambda _context, b, _signature, args: build(b, args, operands[0])

    return instruction(define)


def is_float(numba_type: Any) -> bool:
    """Return whether a numba type is a real float."""
    return isinstance(numba_type, types.Float)


def is_signed(numba_type: Any) -> bool:
    """Return whether a numba type is a signed integer."""
    return isinstance(numba_type, types.Integer) and numba_type.signed


def call(builder: Builder, name: str, args: Values, *extra: Any) -> Any:
    """Call the LLVM intrinsic `name`, overloaded on the type of the first operand."""
    function = builder.module.declare_intrinsic(
        name,
        [args[0].type],
        ir.FunctionType(args[0].type, [arg.type for arg in [*args, *extra]]),
    )
    return builder.call(function, [*args, *extra])


def _by_kind(floating: str, integral: str, b: Builder, v: Values, t: Any) -> Any:
    return getattr(b, floating if is_float(t) else integral)(*v)


_SINGLE_BITS, _DOUBLE_BITS = 16, 32
"""Widest integers that are divided as f32 and as f64: a quotient of theirs that is no whole number
is further from one than the float rounds, and vectors have no integer division."""


def _is_float_division(divisor: Any, widest: int) -> bool:
    """Return whether integers of up to `widest` bits are divided as floats.

    Division by a constant is left to LLVM, which multiplies.
    """
    return divisor.type.width <= widest and not isinstance(divisor, ir.Constant)


def _quotient(b: Builder, x: Any, y: Any, t: Any) -> Any:
    """Return x / y towards zero by floats, for y not zero and a quotient within the type."""
    signed, is_single = is_signed(t), x.type.width <= _SINGLE_BITS
    number = ir.FloatType() if is_single else ir.DoubleType()
    numbers = [b.sitofp(v, number) if signed else b.uitofp(v, number) for v in (x, y)]
    convert = b.fptosi if signed or is_single else b.fptoui
    found = convert(b.fdiv(*numbers), ir.IntType(_DOUBLE_BITS))
    return b.trunc(found, x.type) if is_single else found


def _divide(widest: int, b: Builder, v: Values, t: Any) -> Any:
    if is_float(t):
        return b.fdiv(*v)
    x, y = v
    by_zero, safe = _safe_divisor(b, x, y, t)
    if _is_float_division(y, widest):
        quotient = _quotient(b, x, safe, t)
    else:
        quotient = b.sdiv(x, safe) if is_signed(t) else b.udiv(x, safe)
    return b.select(by_zero, ir.Constant(x.type, -1), quotient)


def _remainder(widest: int, b: Builder, v: Values, t: Any) -> Any:
    """Return the remainder of integers; that of floats is a function."""
    x, y = v
    by_zero, safe = _safe_divisor(b, x, y, t)
    if _is_float_division(y, widest):
        rest = b.sub(x, b.mul(_quotient(b, x, safe, t), safe))
    else:
        rest = b.srem(x, safe) if is_signed(t) else b.urem(x, safe)
    return b.select(by_zero, x, rest)


def _safe_divisor(b: Builder, x: Any, y: Any, t: Any) -> tuple[Any, Any]:
    """Return whether y is zero, and y, or 1 if x / y is undefined in LLVM."""
    by_zero = b.icmp_unsigned("==", y, ir.Constant(y.type, 0))
    is_unsafe = b.or_(by_zero, _overflows(b, x, y)) if is_signed(t) else by_zero
    return by_zero, b.select(is_unsafe, ir.Constant(y.type, 1), y)


def _overflows(b: Builder, x: Any, y: Any) -> Any:
    smallest = ir.Constant(x.type, -(2 ** (x.type.width - 1)))
    minus_one = ir.Constant(x.type, -1)
    return b.and_(b.icmp_signed("==", x, smallest), b.icmp_signed("==", y, minus_one))


def _absolute(b: Builder, v: Values, t: Any) -> Any:
    if is_float(t):
        return call(b, "llvm.fabs", v)
    (x,) = v
    return b.select(b.icmp_signed("<", x, ir.Constant(x.type, 0)), b.neg(x), x)


def _extreme(name: str, relation: str, b: Builder, v: Values, t: Any) -> Any:
    if is_float(t):
        return call(b, f"llvm.{name}", v)
    return b.select((b.icmp_signed if is_signed(t) else b.icmp_unsigned)(relation, *v), *v)


_ROUNDED = frozenset({"fadd", "fsub", "fmul", "fdiv"})
"""Instructions whose results are not subnormal, in the processor's mode for programs."""

_SMALLEST_ADDEND = 1e-20
"""Addends from this size on give differences of zero or of normal numbers, in f32 too."""


def _is_rounded(x: Any) -> bool:
    return isinstance(x, ir.Instruction) and x.opname in _ROUNDED


def _is_never_minus_zero(x: Any) -> bool:
    """Return whether `x` is a sum with a constant that is not zero: equal numbers cancel to +0."""
    if not isinstance(x, ir.Instruction) or x.opname not in ("fadd", "fsub"):
        return False
    addend = x.operands[1]
    return isinstance(addend, ir.Constant) and abs(addend.constant) >= _SMALLEST_ADDEND


def _x86_maximum(b: Builder, v: Values, t: Any) -> Any:
    if is_float(t) and all(map(_is_rounded, v)):
        for x, y in (v, v[::-1]):
            if _is_never_minus_zero(y):
                # MAXPS gives its second operand for two zeros, and where either is NaN.
                larger = b.select(b.fcmp_ordered(">", x, y), x, y)
                return b.select(b.fcmp_unordered("uno", x, x), x, larger)
    return _maximum(b, v, t)


_maximum = partial(_extreme, "maximum", ">")
_minimum = partial(_extreme, "minimum", "<")


def _clamp(b: Builder, v: Values, t: Any) -> Any:
    low, x, high = v
    return _minimum(b, [_maximum(b, [x, low], t), high], t)


def _compare(relation: str, b: Builder, v: Values, t: Any) -> Any:
    if is_float(t):
        # NaN differs from everything, itself included.
        compare = b.fcmp_unordered if relation == "!=" else b.fcmp_ordered
        return compare(relation, *v)
    return (b.icmp_signed if is_signed(t) else b.icmp_unsigned)(relation, *v)


def _of_32_bits(method: str, b: Builder, v: Values, t: Any) -> Any:
    """Return an unsigned operation on the low halves of integers of 64 bits."""
    parts = [b.trunc(each, ir.IntType(32)) for each in v]
    return b.zext(getattr(b, method)(*parts), v[0].type)


def _narrow_remainder(b: Builder, v: Values, t: Any) -> Any:
    """Return the unsigned remainder of integers of 64 bits that are below 2^31.

    LLVM vectorises a loop's variable modulo a power of two under a test, before the loop, that it
    never wraps. It does wrap, so that the scalar loop would run. Adding bit 31, which is zero,
    hides the variable from LLVM.
    """
    number, divisor = v
    if isinstance(divisor, ir.Constant) and divisor.constant.bit_count() == 1:
        number = b.add(number, b.lshr(number, ir.Constant(number.type, 31)))
    return _of_32_bits("urem", b, [number, divisor], t)


def _llvm(name: str, b: Builder, v: Values, t: Any) -> Any:
    return call(b, f"llvm.{name}", v)


def _is_finite(b: Builder, v: Values, t: Any) -> Any:
    (x,) = v
    return b.fcmp_ordered("<", call(b, "llvm.fabs", v), ir.Constant(x.type, float("inf")))


add = same_type(2, partial(_by_kind, "fadd", "add"))
sub = same_type(2, partial(_by_kind, "fsub", "sub"))
mul = same_type(2, partial(_by_kind, "fmul", "mul"))
div = same_type(2, partial(_divide, _DOUBLE_BITS))
rem = same_type(2, partial(_remainder, _DOUBLE_BITS))
neg = same_type(1, partial(_by_kind, "fneg", "neg"))
absolute = same_type(1, _absolute)
maximum = same_type(2, _maximum)
minimum = same_type(2, _minimum)
clamp = same_type(3, _clamp)
bit_and = same_type(2, lambda b, v, t: b.and_(*v))
bit_or = same_type(2, lambda b, v, t: b.or_(*v))
bit_xor = same_type(2, lambda b, v, t: b.xor(*v))
bit_not = same_type(1, lambda b, v, t: b.not_(*v))
floor = same_type(1, partial(_llvm, "floor"))
ceil = same_type(1, partial(_llvm, "ceil"))
round_even = same_type(1, partial(_llvm, "nearbyint"))
round_away = same_type(1, partial(_llvm, "round"))
sqrt = same_type(1, partial(_llvm, "sqrt"))
copysign = same_type(2, partial(_llvm, "copysign"))
fma = same_type(3, lambda b, v, t: b.fma(*v))
is_finite = same_type(1, _is_finite, types.boolean)
whole_div = same_type(2, lambda b, v, t: b.udiv(*v))
whole_mod = same_type(2, lambda b, v, t: b.urem(*v))
narrow_div = same_type(2, partial(_of_32_bits, "udiv"))
narrow_mod = same_type(2, _narrow_remainder)
eq = same_type(2, partial(_compare, "=="), types.boolean)
ne = same_type(2, partial(_compare, "!="), types.boolean)
lt = same_type(2, partial(_compare, "<"), types.boolean)
le = same_type(2, partial(_compare, "<="), types.boolean)
gt = same_type(2, partial(_compare, ">"), types.boolean)
ge = same_type(2, partial(_compare, ">="), types.boolean)


def _reassociable(method: str, b: Builder, v: Values, t: Any) -> Any:
    combine = partial(getattr(b, method), flags=("reassoc", "nsz"))
    if not isinstance(t, types.Complex):
        return combine(*v)
    # By parts: additions only.
    result = v[0]
    for number in (0, 1):
        parts = [b.extract_value(each, number) for each in v]
        result = b.insert_value(result, combine(*parts), number)
    return result


REASSOCIATED = {
    "add_in_any_order": same_type(2, partial(_reassociable, "fadd")),
    "mul_in_any_order": same_type(2, partial(_reassociable, "fmul")),
}
"""Sums and products whose elements LLVM may combine in any order."""


@instruction
def select(typing_context, predicate, on_true, on_false):  # type: ignore[no-untyped-def]
    """on_true if the predicate holds, else on_false; both are computed."""
    signature = on_true(types.boolean, on_true, on_true)
    return signature, lambda _context, b, _signature, args: b.select(*args)


ARITHMETIC = {
    name: value
    for name, value in list(globals().items())
    if not name.startswith("_") and isinstance(value, Instruction)
}
"""Every instruction of this module by its name in kernels."""

X86_ARITHMETIC = {"maximum": same_type(2, _x86_maximum)}
"""The maximum in three instructions instead of six, if zeros need not be ordered by sign."""

WORD_DIVISION = {
    "div": same_type(2, partial(_divide, _SINGLE_BITS)),
    "rem": same_type(2, partial(_remainder, _SINGLE_BITS)),
}
"""Division for processors with few units for f64: that of 32 bits is one of integers."""
