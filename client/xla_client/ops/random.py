"""Random numbers. Semantics: XLA's RngUniform, RngNormal and RngBitGenerator."""

from xla_client.coercion.records import choice
from xla_client.coercion.shapes import ShapeLike, as_shape
from xla_client.programs.arguments.checked import Choice, checked
from xla_client.programs.arguments.scalars import Scalar
from xla_client.programs.builder import Builder, Op, builder_of, promoted
from xla_contract.ops.random.rng import RandomDistribution, RngAttributes
from xla_contract.ops.random.rng_bit_generator import (
    UNSIGNED_OF_WIDTH,
    RandomAlgorithm,
    RngBitGeneratorAttributes,
)
from xla_contract.types.opcode import Opcode


@checked
def rng_uniform(
    a: Op | Scalar, b: Op | Scalar, shape: ShapeLike, builder: Builder | None = None
) -> Op:
    """Random numbers, uniformly distributed over [a, b).

    They differ from run to run, unless `Client.compile` is given a `seed`.

    Args:
        a: The lower bound, which is included: a number, or a scalar of the result's type.
        b: The upper bound, which is excluded.
        shape: The shape of the numbers, as "f32[2,3]".
        builder: The builder of the program; needed if both bounds are numbers.

    Returns:
        The numbers.

    Raises:
        InvalidArgumentError: The shape is malformed, or a number does not fit its element type.

    Example:
        >>> b = Builder("example")
        >>> ops.rng_uniform(0.0, 1.0, "f32[2,3]", b)
        %rng.3: f32[2,3]

    See https://openxla.org/xla/operation_semantics#rnguniform
    """
    return _rng(RandomDistribution.UNIFORM, a, b, shape, builder)


@checked
def rng_normal(
    mu: Op | Scalar, sigma: Op | Scalar, shape: ShapeLike, builder: Builder | None = None
) -> Op:
    """Random numbers of a normal distribution.

    They differ from run to run, unless `Client.compile` is given a `seed`.

    Args:
        mu: The mean: a number, or a scalar of the result's type.
        sigma: The standard deviation: a number, or a scalar of the result's type.
        shape: The shape of the numbers, as "f32[2,3]".
        builder: The builder of the program; needed if `mu` and `sigma` are numbers.

    Returns:
        The numbers.

    Raises:
        InvalidArgumentError: The shape is malformed, or a number does not fit its element type.

    Example:
        >>> b = Builder("example")
        >>> ops.rng_normal(0.0, 1.0, "f32[2,3]", b)
        %rng.3: f32[2,3]

    See https://openxla.org/xla/operation_semantics#rngnormal
    """
    return _rng(RandomDistribution.NORMAL, mu, sigma, shape, builder)


@checked
def rng_bit_generator(
    algorithm: RandomAlgorithm | Choice, initial_state: Op, shape: ShapeLike
) -> Op:
    """Random bits made from a state, and the state for the next call.

    The same state gives the same bits.

    Args:
        algorithm: "three_fry", "philox" or "default", which is Philox.
        initial_state: The state: u64[2], or for Philox also u64[3].
        shape: The shape of the bits, as "u32[3]"; of its element type only the width counts.

    Returns:
        A tuple of the next state and the bits, as unsigned integers.

    Raises:
        ShapeError: The algorithm has no such state, or the type is pred, complex or of 6 bits.
        InvalidArgumentError: The name of the algorithm is unknown, or the shape malformed.

    Example:
        >>> state = Builder("example").parameter(0, "u64[2]")
        >>> ops.rng_bit_generator("three_fry", state, "u32[3]")
        %rng-bit-generator.2: (u64[2], u32[3])

    See https://openxla.org/xla/operation_semantics#rngbitgenerator
    """
    shape = as_shape(shape).without_layout()
    if shape.is_array and (shape.element_type.is_integer or shape.element_type.is_floating):
        width = shape.element_type.bit_width
        shape = shape.with_element_type(UNSIGNED_OF_WIDTH.get(width, shape.element_type))
    generator = choice(RandomAlgorithm, "algorithm", algorithm)
    attributes = RngBitGeneratorAttributes(generator, shape)
    return initial_state.builder.instruction(Opcode.RNG_BIT_GENERATOR, [initial_state], attributes)


def _rng(
    distribution: RandomDistribution,
    a: Op | Scalar,
    b: Op | Scalar,
    shape: ShapeLike,
    builder: Builder | None,
) -> Op:
    result = as_shape(shape).without_layout()
    builder = builder or builder_of(a, b)
    operands = [promoted(builder, each, result) for each in (a, b)]
    return builder.instruction(Opcode.RNG, operands, RngAttributes(distribution, result))
