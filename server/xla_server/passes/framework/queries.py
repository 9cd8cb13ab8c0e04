"""Properties of instructions, constants and computations that several passes test."""

from typing import Any

import ml_dtypes
import numpy as np

from xla_contract.ops.elementwise.elementwise import BINARY
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.ir.analysis.splat import literal_of as literal_of
from xla_server.ir.analysis.splat import splat as splat
from xla_server.ir.module import HloComputation
from xla_server.ops.elementwise.elementwise_table import COMBINING, ROUNDED_SUMS
from xla_server.ops.numerics.scalar_function import plain_opcode


def is_narrow_float(kind: ElementType) -> bool:
    """Return whether kernels compute in F32 for this type, and round each result to it."""
    return kind.is_floating and kind.bit_width < 32


FREE_ORDER = COMBINING - {Opcode.XOR}
"""Operations whose operands may be combined in any order, and that `neutral_of` knows."""

IDEMPOTENT = FREE_ORDER - ROUNDED_SUMS
"""Operations of FREE_ORDER that may combine an element twice. Each of them is exact."""


def neutral_of(opcode: Opcode | None, kind: ElementType) -> Any:
    """The neutral element of an operation, or None."""
    if opcode not in FREE_ORDER or kind.bit_width < 8:
        return None
    if kind.is_complex:
        return complex(-0.0, -0.0) if opcode is Opcode.ADD else None
    match opcode:
        case Opcode.ADD:
            return -0.0 if kind.is_floating else 0
        case Opcode.MULTIPLY:
            return 1
        case Opcode.OR:
            return 0
        case Opcode.AND:
            return np.invert(np.zeros((), kind.dtype))
    return _extremes(kind)[opcode is Opcode.MINIMUM]


def _extremes(kind: ElementType) -> tuple[Any, Any]:
    """The lowest and the highest value, the neutral elements of max and min; None if unknown."""
    if kind is ElementType.PRED:
        return False, True
    if kind.is_integer:
        info = ml_dtypes.iinfo(kind.dtype)  # type: ignore[no-untyped-call]
        return int(info.min), int(info.max)
    if kind in (ElementType.F16, ElementType.BF16, ElementType.F32, ElementType.F64):
        return -np.inf, np.inf
    return None, None


def combiner(computation: HloComputation) -> Opcode | None:
    """The operation that a computation of two scalars of one type is, or None."""
    opcode = plain_opcode(computation)
    types = {part.shape.element_type for part in (computation.root, *computation.parameters)}
    return opcode if opcode in BINARY and len(types) == 1 else None
