"""Random numbers. Semantics: XLA's RngUniform, RngNormal and RngBitGenerator."""

from xla_client.builder import Op
from xla_contract.opcode import Opcode
from xla_contract.ops.rng import RandomDistribution, RngAttributes
from xla_contract.ops.rng_bit_generator import (
    UNSIGNED_OF_WIDTH,
    RandomAlgorithm,
    RngBitGeneratorAttributes,
)
from xla_contract.shape import Shape


def rng_uniform(a: Op, b: Op, shape: Shape) -> Op:
    """Numbers spread evenly over [a, b), both scalars of the result's type."""
    return _rng(RandomDistribution.UNIFORM, a, b, shape)


def rng_normal(mu: Op, sigma: Op, shape: Shape) -> Op:
    """Normal numbers of this mean and deviation, both scalars of the result's type."""
    return _rng(RandomDistribution.NORMAL, mu, sigma, shape)


def rng_bit_generator(algorithm: RandomAlgorithm, initial_state: Op, shape: Shape) -> Op:
    """A tuple of the state that follows and random bits of `shape`.

    The state is u64[2], or u64[3] with Philox; the same state gives the same bits. The bits come
    as unsigned integers as wide as the element type of `shape`, as from XlaBuilder. Raises
    ShapeError for another state and for pred, complex and 6-bit types.
    """
    shape = shape.without_layout()
    if shape.is_array and (shape.element_type.is_integer or shape.element_type.is_floating):
        width = shape.element_type.bit_width
        shape = shape.with_element_type(UNSIGNED_OF_WIDTH.get(width, shape.element_type))
    attributes = RngBitGeneratorAttributes(RandomAlgorithm(algorithm), shape)
    return initial_state.builder.instruction(Opcode.RNG_BIT_GENERATOR, [initial_state], attributes)


def _rng(distribution: RandomDistribution, a: Op, b: Op, shape: Shape) -> Op:
    attributes = RngAttributes(distribution, shape.without_layout())
    return a.builder.instruction(Opcode.RNG, [a, b], attributes)
