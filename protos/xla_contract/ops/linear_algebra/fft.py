"""fft: discrete Fourier transforms over the last one to three dimensions. Semantics: XLA's Fft."""

import dataclasses
import enum
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import ShapeError
from xla_contract.ops.attribute_fields import EnumMember, Repeated
from xla_contract.ops.rules import any_dynamic
from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape


class FftType(enum.IntEnum):
    """The transforms, by their numbers on the wire."""

    FFT = 0
    IFFT = 1
    RFFT = 2
    IRFFT = 3


@dataclasses.dataclass(frozen=True, slots=True)
class FftAttributes:
    """The transform and the real-side lengths of the last dimensions."""

    type: Annotated[FftType, EnumMember("fft_type", FftType)]
    length: Annotated[tuple[int, ...], Repeated("fft_length")]


def infer_fft(operands: Sequence[Shape], attributes: FftAttributes) -> Shape:
    """The transformed shape; RFFT keeps n // 2 + 1 of the last n, IRFFT gives n back."""
    (operand,) = operands
    kind, length = attributes.type, attributes.length
    count = len(length)
    if not 1 <= count <= 3 or operand.rank < count or min(length) < 0:
        raise ShapeError(
            f"fft_length must name one to three last dimensions, got {list(length)} for {operand}"
        )
    real = kind is FftType.RFFT
    if real != (operand.element_type in (ElementType.F32, ElementType.F64)) or not (
        real or operand.element_type.is_complex
    ):
        raise ShapeError(
            f"{kind.name} must be applied to {'f32 or f64' if real else 'c64 or c128'}, got "
            f"{operand}"
        )
    half = (*length[:-1], length[-1] // 2 + 1 if length[-1] else 0)
    expected = half if kind is FftType.IRFFT else length
    if operand.dimensions[-count:] != expected:
        raise ShapeError(
            f"{kind.name} of length {list(length)} must be applied to last dimensions "
            f"{list(expected)}, got {operand}"
        )
    element = operand.element_type
    if real:
        element = element.complex_of
    elif kind is FftType.IRFFT:
        element = element.real_component
    last = half if real else length
    flags = (*any_dynamic([operand])[:-count], *(False for _ in last))
    return Shape.array(element, (*operand.dimensions[:-count], *last), None, flags)
