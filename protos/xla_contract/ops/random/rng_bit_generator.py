"""rng-bit-generator: random bits from a state, and the state that follows.

Semantics: XLA's RngBitGenerator and RngBitGeneratorExpander. The state is a key and a counter.
"""

import dataclasses
import enum
import operator
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import ShapeError
from xla_contract.ops.attribute_fields import Declared, EnumMember
from xla_contract.ops.rules import TypeSet, expect_type
from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape

THREE_FRY_PARITY = 0x1BD11BDA
THREE_FRY_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
"""ThreeFry 2x32: parity of the keys, and rotations in bits, by round (Salmon et al., SC 2011)."""


class RandomAlgorithm(enum.IntEnum):
    """Counter-based generators, by the numbers on the wire; the default one is Philox."""

    DEFAULT = 0
    THREE_FRY = 1
    PHILOX = 2


def _bits_in(shape: Shape) -> Shape:
    if shape.is_array:
        return shape.without_layout()
    if not shape.is_tuple or len(shape.tuple_shapes) != 2:
        raise ShapeError(f"the result must be a state and bits, got {shape.without_layout()}")
    return shape.tuple_shapes[1].without_layout()


@dataclasses.dataclass(frozen=True, slots=True)
class RngBitGeneratorAttributes:
    """The generator, the shape of the bits, without layout, and if the next state is a result."""

    algorithm: Annotated[RandomAlgorithm, EnumMember("rng_algorithm", RandomAlgorithm)]
    shape: Annotated[Shape, Declared(_bits_in)]
    has_state: Annotated[bool, Declared(operator.attrgetter("is_tuple"))] = True


UNSIGNED_OF_WIDTH = {t.bit_width: t for t in ElementType if t.is_array and t.is_unsigned_integer}
"""The unsigned type of each width that bits are made in: 1, 2, 4, 8, 16, 32 and 64."""

_BITS = TypeSet(
    "integral or floating, of 1, 2, 4, 8, 16, 32 or 64 bits",
    frozenset(
        t
        for t in ElementType
        if (t.is_integer or t.is_floating) and t.bit_width in UNSIGNED_OF_WIDTH
    ),
)


def infer_rng_bit_generator(
    operands: Sequence[Shape], attributes: RngBitGeneratorAttributes
) -> Shape:
    """Return (state, bits), or the bits alone.

    The state is u64[2], key and counter, or for Philox u64[3], whose counter has 128 bits.

    Raises:
        ShapeError: The algorithm has no such state, or no type holds the bits.
    """
    (state,) = operands
    shape = attributes.shape
    three_fry = attributes.algorithm is RandomAlgorithm.THREE_FRY
    lengths = ((2,),) if three_fry else ((2,), (3,))
    if (
        not state.is_array
        or state.element_type is not ElementType.U64
        or state.dimensions not in lengths
        or not state.is_static
    ):
        raise ShapeError(
            f"the state of {attributes.algorithm.name.lower()} must be "
            f"{'u64[2]' if three_fry else 'u64[2] or u64[3]'}, got {state.without_layout()}"
        )
    expect_type(shape, _BITS, "the random bits")
    if not shape.is_static:
        raise ShapeError(f"random bits must have a static shape, got {shape.without_layout()}")
    bits = shape.without_layout()
    return Shape.tuple_of([state.without_layout(), bits]) if attributes.has_state else bits
