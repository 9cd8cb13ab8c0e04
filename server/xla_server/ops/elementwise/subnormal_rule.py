"""The elementwise operations that keep subnormal numbers; the others take them for zeros.

Semantics: XLA's CPU backend, which sets the processor to flush them: arithmetic takes subnormal
operands for zeros of their sign and makes zeros of subnormal results. Operations that only move
or change bits keep them, as do functions that are their operand near zero, and C's fmod and pow.
F16 is computed in F32, where its subnormal numbers are ordinary. docs/FUNCTIONS.md has the rule.
"""

import numpy as np

from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.ir.analysis.splat import splat
from xla_server.ir.module import HloInstruction
from xla_server.ops.elementwise.elementwise_table import COMBINING, ROWS
from xla_server.ops.numerics.numeric import FLUSHED

_EXACT_POWERS = (-1, 0.5, 2, 3, 4)
"""Constant exponents of powers that are a quotient, a root or products, which flush operands."""


def flushes_operands(instruction: HloInstruction) -> bool:
    """Return whether an elementwise operation takes subnormal operands for zeros."""
    opcode, kind = instruction.opcode, instruction.operands[0].shape.element_type
    if kind not in FLUSHED:
        return False
    if opcode is Opcode.POWER:
        exponent = splat(instruction.operands[1])
        return exponent is not None and float(exponent) in _EXACT_POWERS
    if opcode is Opcode.TANH and kind is ElementType.F64:
        return True
    row = ROWS.get(opcode)
    return row is None or not row.keeps_subnormals


def flushes_results(instruction: HloInstruction) -> bool:
    """Return whether an elementwise operation makes zeros of subnormal results."""
    is_of_power = instruction.opcode is Opcode.POWER
    kind = instruction.operands[0].shape.element_type
    return kind in FLUSHED and (is_of_power or flushes_operands(instruction))


def unchanged_operand(instruction: HloInstruction) -> int | None:
    """Return the number of the operand that an operation on real floats gives back as it is.

    Such operations are left out of compiled programs, so that subnormal numbers stay.
    """
    opcode, operands = instruction.opcode, instruction.operands
    if opcode in (Opcode.MAXIMUM, Opcode.MINIMUM, Opcode.CLAMP) and len(set(operands)) == 1:
        return 0
    row = ROWS.get(opcode)
    if row is None or row.neutral is None:
        return None
    for number in (0, 1) if opcode in COMBINING else (0,):
        value = splat(operands[1 - number])
        if value is not None and _is_equal(value, row.neutral):
            return number
    return None


def _is_equal(value: "np.generic", number: float) -> bool:
    plain = float(value)
    return plain == number and bool(np.signbit(plain)) is bool(np.signbit(number))
