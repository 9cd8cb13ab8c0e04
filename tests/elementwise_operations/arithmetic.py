"""Arithmetic, extremes, signs, whole numbers and the parts of complex ones."""

from collections.abc import Mapping

import numpy as np

from tests.elementwise_operations.operation import (
    ANY,
    COMPONENT,
    EXACT,
    FLOATING,
    NUMERIC,
    ORDERED,
    SIGNED,
    WAVES,
    Operation,
    Ulps,
    both,
)
from xla_contract.types.opcode import Opcode

OPERATIONS: Mapping[Opcode, Operation] = {
    # XLA computes sizes of complex numbers by an expansion of its own.
    Opcode.ABS: both("Abs", SIGNED, Ulps(f32=2, f64=2), np.abs, bit=lambda x, _: abs(x)),
    Opcode.ADD: both("Add", ANY, EXACT, np.add, bit=lambda x, y: x + y),
    Opcode.CEIL: Operation("Ceil", FLOATING, real=np.ceil),
    Opcode.COMPLEX: Operation("Complex", COMPONENT),
    Opcode.DIVIDE: both(
        "Div", NUMERIC, Ulps(c64=4, c128=4), np.divide, bit=lambda x, y: x * y if y else -1
    ),
    Opcode.FLOOR: Operation("Floor", FLOATING, real=np.floor),
    Opcode.IMAG: Operation("Imag", WAVES),
    Opcode.IS_FINITE: Operation("IsFinite", FLOATING, real=np.isfinite),
    Opcode.MAXIMUM: Operation(
        "Max",
        ANY,
        real=lambda x, y: np.where((x == 0) & (y == 0), x + y, np.maximum(x, y)),
        bit=max,
    ),
    Opcode.MINIMUM: Operation(
        "Min",
        ANY,
        real=lambda x, y: np.where((x == 0) & (y == 0), -(-x - y), np.minimum(x, y)),
        bit=min,
    ),
    Opcode.MULTIPLY: both("Mul", ANY, Ulps(c64=2, c128=2), np.multiply, bit=lambda x, y: x * y),
    Opcode.NEGATE: Operation("Neg", NUMERIC, real=np.negative, bit=lambda x, _: -x),
    Opcode.REAL: Operation("Real", WAVES),
    Opcode.REMAINDER: Operation("Rem", ORDERED, real=np.fmod, bit=lambda x, y: 0 if y else x),
    Opcode.ROUND_NEAREST_AFZ: Operation(
        "Round", FLOATING, real=lambda x: np.trunc(x + np.copysign(0.5, x))
    ),
    Opcode.ROUND_NEAREST_EVEN: Operation("RoundNearestEven", FLOATING, real=np.rint),
    Opcode.SIGN: Operation(
        "Sign",
        SIGNED,
        Ulps(c64=4, c128=4),
        real=lambda x: np.where((x == 0) | np.isnan(x), x, np.sign(x)),
        complex=lambda z: z / np.abs(z),
        bit=lambda x, _: x,
    ),
    Opcode.SUBTRACT: both("Sub", NUMERIC, EXACT, np.subtract, bit=lambda x, y: x - y),
}
"""The rows by opcode."""
