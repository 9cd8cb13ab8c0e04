"""The evaluator of fft: scipy's transforms, in the operand's precision."""

from typing import Any

import numpy as np

from xla_contract.ops.linear_algebra.fft import FftAttributes
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Array, of_operands
from xla_server.ops.numerics.scalar_function import round_to


@of_operands
def evaluate_fft(instruction: HloInstruction, operand: Array) -> Array:
    """The transform over the last dimensions; the inverse ones divide by the length."""
    attributes: FftAttributes = instruction.attributes
    shape = instruction.shape
    if not shape.element_count or not operand.size:
        return np.zeros(shape.dimensions, shape.element_type.dtype)
    axes = tuple(range(-len(attributes.length), 0))
    # The server listens before scipy is loaded.
    import scipy.fft

    transform: Any = getattr(scipy.fft, f"{attributes.type.name.lower()}n")
    transformed = transform(operand, s=attributes.length, axes=axes)
    return round_to(transformed, shape.element_type.dtype)
