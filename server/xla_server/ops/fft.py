"""The evaluator of fft: scipy's transforms, in the operand's precision."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from xla_contract.ops.fft import FftAttributes, FftType
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Array, Frame, Value
from xla_server.ops.scalar_function import round_to

_NAMES = {
    FftType.FFT: "fftn",
    FftType.IFFT: "ifftn",
    FftType.RFFT: "rfftn",
    FftType.IRFFT: "irfftn",
}
"""Names of the transforms in scipy.fft."""


def evaluate_fft(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
    """The transform over the last dimensions; the inverse ones divide by the length."""
    attributes: FftAttributes = instruction.attributes
    shape = instruction.shape
    operand = cast(Array, operands[0])
    if not shape.element_count or not operand.size:
        return np.zeros(shape.dimensions, shape.element_type.dtype)
    axes = tuple(range(-len(attributes.length), 0))
    # The server listens before scipy is loaded.
    import scipy.fft

    transform: Any = getattr(scipy.fft, _NAMES[attributes.type])
    transformed = transform(operand, s=attributes.length, axes=axes)
    return round_to(transformed, shape.element_type.dtype)
