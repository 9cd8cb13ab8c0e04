"""rng: random numbers that are a function of the words a Philox generator gives.

Each instruction that runs draws a state for the generator from the source of the execution.
passes/expand/rng_expander.py states the same function in HLO; the two are changed together.
"""

from collections.abc import Sequence
from typing import Any, cast

import ml_dtypes
import numpy as np

from xla_contract.ops.random.rng import RandomDistribution, RngAttributes
from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Array, Frame, Value
from xla_server.ops.numerics.numeric import high_product
from xla_server.ops.numerics.scalar_function import round_to
from xla_server.ops.random.rng_bit_generator import philox_bits

STATE = Shape.array(ElementType.U64, (2,))
"""The shape of the state that an instruction draws."""

LOW_WORD = 2**32 - 1
"""The lower half of 64 bits."""


def drawn_state(frame: Frame) -> Array:
    """The state of the next generator."""
    return frame.random.integers(0, 2**64, STATE.dimensions, np.uint64)


def computed_type(element: ElementType) -> ElementType:
    """The type in which floats are made before they are rounded."""
    return ElementType.F64 if element is ElementType.F64 else ElementType.F32


def fraction_bits(computed: ElementType) -> int:
    """Bits of a number in [0, 1): as many as are exact, in numbers from 1/2 on and 1 - them."""
    return 53 if computed is ElementType.F64 else 24


def step_below(element: ElementType) -> tuple[float, float]:
    """Return the gap below a float, as a factor of it and a least gap.

    A number lower by that much is rounded to the next float: the gap is over half a step and under
    one and a half. Floats under the least gap are zeros, or there are none.
    """
    own: Any = ml_dtypes.finfo(element.dtype)  # type: ignore[no-untyped-call]
    computed = np.finfo(cast(Any, computed_type(element).dtype))
    least = max(float(own.smallest_subnormal), float(computed.smallest_normal))
    return 1.125 * 2.0 ** -(own.nmant + 1), least


def words_of(distribution: RandomDistribution, shape: Shape) -> Shape:
    """The random words for numbers of this shape: one for each, or in two rows.

    An integer has twice the bits that its type has, or 64, so no number of a range is seen to come
    more often than another.
    """
    element, sizes = shape.element_type, shape.dimensions
    is_wide = element.is_integer or element is ElementType.F64
    is_normal = distribution is RandomDistribution.NORMAL
    has_two = is_normal or (element.is_integer and element.bit_width == 64)
    word = ElementType.U64 if is_wide else ElementType.U32
    return Shape.array(word, (2, *sizes) if has_two else sizes)


def evaluate_rng(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
    """Uniform on [a, b), all a where that is empty, or normal with mean a and deviation b."""
    attributes: RngAttributes = instruction.attributes
    first, second = (cast(Array, operand) for operand in operands)
    shape = instruction.shape
    element = shape.element_type
    if not shape.element_count:
        return np.empty(shape.dimensions, element.dtype)
    drawn = words_of(attributes.distribution, shape)
    state = [int(word) for word in cast(Any, drawn_state(frame))]
    is_wide = drawn.element_type is ElementType.U64
    words: Any = philox_bits(state, drawn.dimensions, is_wide, frame)[1]
    if element.is_integer:
        return round_to(_uniform_integers(words, int(first), int(second), element), element.dtype)
    computed = computed_type(element)
    bounds = [cast(Any, bound.astype(computed.dtype)) for bound in (first, second)]
    fractions = _fractions(words, computed)
    if attributes.distribution is RandomDistribution.NORMAL:
        mean, deviation = bounds
        return round_to(mean + deviation * _normal(*fractions), element.dtype)
    low, high = bounds
    scale, least = step_below(element)
    number = computed.dtype.type
    step = np.maximum(np.abs(high) * number(scale), number(least))
    below: Any = round_to(high - step, element.dtype).astype(computed.dtype)
    mixed = low * (number(1) - fractions) + high * fractions
    # Rounding may reach the upper bound, or go below the lower one.
    mixed = np.where(mixed > below, below, mixed)
    return round_to(np.where(mixed < low, low, mixed), element.dtype)


def _uniform_integers(words: Any, low: int, high: int, element: ElementType) -> Any:
    """Words as fractions times the range, whole, and the lower bound added modulo 2**64."""
    range_: Any = np.uint64(max(high - low, 1))
    if element.bit_width < 64:
        offset = high_product(words, range_)
    else:
        upper, lower = words
        product = upper * range_
        carried = product + high_product(lower, range_) < product
        offset = high_product(upper, range_) + carried
    return offset + np.uint64(low % 2**64)


def _fractions(words: Any, computed: ElementType) -> Any:
    """Multiples of a power of two in [0, 1), from the upper bits of words."""
    bits = fraction_bits(computed)
    upper = words >> words.dtype.type(8 * words.itemsize - bits)
    return upper.astype(computed.dtype) * computed.dtype.type(2.0**-bits)


def _normal(u: Any, v: Any) -> Any:
    """Numbers from the standard normal distribution, by Box and Muller."""
    number = u.dtype.type
    radius = np.sqrt(number(-2) * np.log(number(1) - u))
    return radius * np.cos(number(2 * np.pi) * v)
