"""stochastic-convert: to integers, away from zero with the probability of the discarded fraction.

Semantics: XLA's StochasticConvertType.
"""

import ml_dtypes
import numpy as np

from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Array, of_operands
from xla_server.ops.numerics.numeric import narrowed, saturated, unsigned_bits


@of_operands
def evaluate_stochastic_convert(
    instruction: HloInstruction, operand: Array, random: Array
) -> Array:
    """Truncate, and add one away from zero where the random number is below the fraction."""
    target = instruction.shape.element_type
    random_type = instruction.operands[1].shape.element_type
    # F64 holds every operand and, scaled by up to 2**64, its fraction exactly.
    exact = operand.astype(np.float64)
    whole = np.trunc(exact)
    finite = np.isfinite(exact)
    fraction = np.ldexp(np.where(finite, np.abs(exact - whole), 0), random_type.bit_width)
    drawn = unsigned_bits(random, random_type)
    away = finite & (drawn < fraction.astype(np.uint64))
    bounds = ml_dtypes.iinfo(target.dtype)  # type: ignore[no-untyped-call]
    nearest = saturated(exact, target).astype(np.int64)
    moved = nearest + np.where(away, np.where(exact < 0, -1, 1), 0)
    at_bound = (exact >= float(bounds.max)) | (exact <= float(bounds.min))
    return narrowed(np.where(at_bound, nearest, moved), target)
