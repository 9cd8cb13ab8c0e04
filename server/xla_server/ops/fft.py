"""The evaluator of fft: scipy's transforms, in the operand's precision."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import scipy.fft

from xla_contract.ops.fft import FftAttributes, FftType
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Array, Frame, Value
from xla_server.ops.scalar_function import round_to

_TRANSFORM: dict[FftType, Any] = {
    FftType.FFT: scipy.fft.fftn,
    FftType.IFFT: scipy.fft.ifftn,
    FftType.RFFT: scipy.fft.rfftn,
    FftType.IRFFT: scipy.fft.irfftn,
}


def evaluate_fft(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
    """The transform over the last dimensions; the inverse ones divide by the length."""
    attributes: FftAttributes = instruction.attributes
    shape = instruction.shape
    operand = cast(Array, operands[0])
    if not shape.element_count or not operand.size:
        return np.zeros(shape.dimensions, shape.element_type.dtype)
    axes = tuple(range(-len(attributes.length), 0))
    transformed = _TRANSFORM[attributes.type](operand, s=attributes.length, axes=axes)
    return round_to(transformed, shape.element_type.dtype)
