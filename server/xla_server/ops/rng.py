"""The evaluator of rng: random numbers from the source of the execution."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from xla_contract.ops.rng import RandomDistribution, RngAttributes
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Array, Frame, Value
from xla_server.ops.scalar_function import round_to


def evaluate_rng(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
    """Uniform on [a, b), all a where that is empty, or normal with mean a and deviation b."""
    attributes: RngAttributes = instruction.attributes
    first, second = (cast(Array, operand) for operand in operands)
    sizes = instruction.shape.dimensions
    element = instruction.shape.element_type
    source = frame.random
    if attributes.distribution is RandomDistribution.NORMAL:
        mean, deviation = float(first), float(second)
        return round_to(mean + deviation * source.standard_normal(sizes), element.dtype)
    if element.is_integer:
        low, high = int(first), int(second)
        bound = max(high - low, 1)
        drawn = source.integers(0, bound, sizes, np.uint64)
        # Modulo 2**64, which the sum of a signed bound and an unsigned draw needs.
        return round_to(drawn + np.uint64(low % 2**64), element.dtype)
    low_value, high_value = float(first), float(second)
    if not high_value > low_value:
        return np.full(sizes, first, element.dtype)
    spread = low_value + (high_value - low_value) * source.random(sizes)
    rounded: Any = round_to(spread, element.dtype)
    # Rounding may reach the excluded bound.
    return np.where(rounded < second, rounded, np.nextafter(second, first))
