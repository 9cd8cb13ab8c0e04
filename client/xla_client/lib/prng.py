"""Random numbers from keys: the same key always gives the same numbers.

The generator is Threefry-2x32 with 20 rounds ("Parallel random numbers: as easy as 1, 2, 3", Salmon
et al. 2011) over a counter that numbers the elements of the result. A key is u32[2]. Keys, splits
and bits are those of `jax.random` with its default, partitionable threefry2x32.
"""

import functools
import math

import ml_dtypes
import numpy as np

from xla_client import ops
from xla_client.coercion.shapes import ShapeLike, as_shape
from xla_client.lib import constants, slicing
from xla_client.lib.special import erf_inv
from xla_client.programs.arguments.checked import checked
from xla_client.programs.builder import Builder, Dimensions, Op, integers
from xla_client.programs.computation import Computation
from xla_contract.errors import InvalidArgumentError, ShapeError
from xla_contract.ops.random.rng_bit_generator import THREE_FRY_PARITY, THREE_FRY_ROTATIONS
from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape

_U32, _U64 = ElementType.U32, ElementType.U64
_UNSIGNED = {8: ElementType.U8, 16: ElementType.U16, 32: _U32, 64: _U64}


@checked
def key(builder: Builder, seed: int) -> Op:
    """The key of a seed.

    Args:
        builder: The builder of the program.
        seed: An integer of 64 bits, signed or not.

    Returns:
        The key, u32[2].

    Raises:
        InvalidArgumentError: The seed has more than 64 bits.

    Example:
        >>> lib.prng.key(Builder("example"), 42)
        %constant.1: u32[2]

    See https://docs.jax.dev/en/latest/_autosummary/jax.random.key.html
    """
    if not -(1 << 63) <= seed < 1 << 64:
        raise InvalidArgumentError(f"a seed must have 64 bits, got {seed}", op="key")
    return builder.constant(np.array([seed >> 32 & 0xFFFFFFFF, seed & 0xFFFFFFFF], np.uint32))


@checked
def key_of(seed: Op) -> Op:
    """The key of a seed that is known when the program runs.

    Args:
        seed: An integer scalar.

    Returns:
        The key, u32[2].

    Raises:
        ShapeError: The seed is no integer scalar.

    Example:
        >>> seed = Builder("example").parameter(0, "u64[]")
        >>> print(lib.prng.key_of(seed).shape)
        u32[2]

    See https://docs.jax.dev/en/latest/_autosummary/jax.random.key.html
    """
    shape = seed.shape
    if not shape.is_scalar or not shape.element_type.is_integer:
        raise ShapeError(f"a seed must be an integer scalar, got {shape}").at("key_of")
    wide = ops.convert_element_type(seed, _U64)
    halves = [ops.shift_right_logical(wide, 32), wide]
    return ops.concat_in_dim(
        [ops.reshape(ops.convert_element_type(half, _U32), [1]) for half in halves], 0
    )


@checked
def split(key: Op, count: int = 2) -> Op:
    """New keys made of one, which must not be used again.

    Args:
        key: A key, u32[2].
        count: The number of new keys.

    Returns:
        The keys, u32[count,2].

    Raises:
        ShapeError: The key is not u32[2].
        InvalidArgumentError: The count is negative or too large.

    Example:
        >>> key = lib.prng.key(Builder("example"), 42)
        >>> print(lib.prng.split(key, 3).shape)
        u32[3,2]

    See https://docs.jax.dev/en/latest/_autosummary/jax.random.split.html
    """
    return ops.concat_in_dim([ops.reshape(half, [count, 1]) for half in _blocks(key, (count,))], 1)


@checked
def fold_in(key: Op, number: int) -> Op:
    """The key that belongs to a number among those made of one key.

    Args:
        key: A key, u32[2].
        number: An integer of 32 bits, from 0.

    Returns:
        The key, u32[2].

    Raises:
        ShapeError: The key is not u32[2].
        InvalidArgumentError: The number is negative or has more than 32 bits.

    Example:
        >>> key = lib.prng.key(Builder("example"), 42)
        >>> print(lib.prng.fold_in(key, 7).shape)
        u32[2]

    See https://docs.jax.dev/en/latest/_autosummary/jax.random.fold_in.html
    """
    if not 0 <= number < 1 << 32:
        raise InvalidArgumentError(f"a number of 32 bits is needed, got {number}", op="fold_in")
    low, high = key.builder.constant(np.uint32(0)), key.builder.constant(np.uint32(number))
    halves = threefry_2x32(key, low, high)
    return ops.concat_in_dim([ops.reshape(half, [1]) for half in halves], 0)


@checked
def threefry_2x32(key: Op, first: Op, second: Op) -> tuple[Op, Op]:
    """The Threefry-2x32 hash of pairs of words under a key.

    Args:
        key: A key, u32[2].
        first: An array of u32: the first word of each pair.
        second: An array of the same shape: the second word of each pair.

    Returns:
        Both words of the hashes, each of the shape of `first`.

    Raises:
        ShapeError: The key is not u32[2], or the words are not u32 of equal dimensions.

    Example:
        >>> b = Builder("example")
        >>> key, x = lib.prng.key(b, 42), b.parameter(0, "u32[3]")
        >>> lib.prng.threefry_2x32(key, x, x)
        (%get-tuple-element.8: u32[3], %get-tuple-element.9: u32[3])

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/prng.h
    """
    if key.shape.without_layout() != Shape.array(_U32, (2,)):
        raise ShapeError(f"a key must be u32[2], got {key.shape}").at("threefry_2x32")
    words = [slicing.index_in_dim(key, number, keep_dimension=False) for number in range(2)]
    pair = ops.call(_threefry(first.shape.dimensions), [*words, first, second])
    return ops.get_tuple_element(pair, 0), ops.get_tuple_element(pair, 1)


@checked
def random_bits(key: Op, bit_width: int, dimensions: Dimensions) -> Op:
    """Random unsigned integers.

    Args:
        key: A key, u32[2].
        bit_width: 8, 16, 32 or 64.
        dimensions: The dimensions of the result.

    Returns:
        The integers, all equally likely.

    Raises:
        ShapeError: The key is not u32[2].
        InvalidArgumentError: The bit width is another number, or a size is negative or too large.

    Example:
        >>> key = lib.prng.key(Builder("example"), 42)
        >>> print(lib.prng.random_bits(key, 32, [2, 3]).shape)
        u32[2,3]

    See https://docs.jax.dev/en/latest/_autosummary/jax.random.bits.html
    """
    element_type = _UNSIGNED.get(bit_width)
    if element_type is None:
        raise InvalidArgumentError(
            f"the bit width must be 8, 16, 32 or 64, got {bit_width}", op="random_bits"
        )
    high, low = _blocks(key, integers(dimensions))
    if element_type is _U64:
        upper = ops.shift_left(ops.convert_element_type(high, _U64), 32)
        return ops.or_(upper, ops.convert_element_type(low, _U64))
    bits = ops.xor(high, low)
    return bits if element_type is _U32 else ops.convert_element_type(bits, element_type)


@checked
def uniform(key: Op, shape: ShapeLike, low: float = 0.0, high: float = 1.0) -> Op:
    """Random numbers of a uniform distribution over [low, high).

    Args:
        key: A key, u32[2].
        shape: The shape of the result, of f16, bf16, f32 or f64.
        low: The lower bound.
        high: The upper bound.

    Returns:
        The numbers.

    Raises:
        ShapeError: The key is not u32[2].
        InvalidArgumentError: The shape has another element type, or its text is malformed.

    Example:
        >>> key = lib.prng.key(Builder("example"), 42)
        >>> print(lib.prng.uniform(key, "f32[2,3]").shape)
        f32[2,3]

    See https://docs.jax.dev/en/latest/_autosummary/jax.random.uniform.html
    """
    shape = as_shape(shape)
    element_type = shape.element_type
    dtype = _real_dtype("uniform", element_type)
    width = element_type.bit_width
    mantissa = ml_dtypes.finfo(dtype).nmant  # type: ignore[no-untyped-call]
    # Random mantissa bits under the exponent of one make numbers in [1, 2).
    drawn = 8 if mantissa < 8 else width
    bits = random_bits(key, drawn, shape.dimensions)
    if drawn != width:
        bits = ops.convert_element_type(bits, _UNSIGNED[width])
    unit = key.builder.constant(np.ones((), dtype).view(f"u{width // 8}"))
    in_one_two = ops.or_(ops.shift_right_logical(bits, drawn - mantissa), unit)
    numbers = ops.bitcast_convert_type(in_one_two, element_type) - 1.0
    if (low, high) == (0.0, 1.0):
        return numbers
    # Rounding must not put a number below the lowest.
    scale = np.subtract(np.asarray(high, dtype), np.asarray(low, dtype))
    return ops.max(numbers * float(scale) + low, low)


@checked
def normal(key: Op, shape: ShapeLike) -> Op:
    """Random numbers of a normal distribution of mean 0 and deviation 1.

    Args:
        key: A key, u32[2].
        shape: The shape of the result, of f16, bf16, f32 or f64.

    Returns:
        The numbers.

    Raises:
        ShapeError: The key is not u32[2].
        InvalidArgumentError: The shape has another element type, or its text is malformed.

    Example:
        >>> key = lib.prng.key(Builder("example"), 42)
        >>> print(lib.prng.normal(key, "f32[2,3]").shape)
        f32[2,3]

    See https://docs.jax.dev/en/latest/_autosummary/jax.random.normal.html
    """
    shape = as_shape(shape)
    dtype = _real_dtype("normal", shape.element_type)
    above_minus_one = float(np.nextafter(np.asarray(-1, dtype), np.asarray(0, dtype)))
    return erf_inv(uniform(key, shape, above_minus_one, 1.0)) * math.sqrt(2)


@checked
def bernoulli(key: Op, probability: float, dimensions: Dimensions) -> Op:
    """Random preds of a Bernoulli distribution.

    Args:
        key: A key, u32[2].
        probability: The probability of true, which is compared in f32.
        dimensions: The dimensions of the result.

    Returns:
        The preds.

    Raises:
        ShapeError: The key is not u32[2].
        InvalidArgumentError: A size is negative or too large.

    Example:
        >>> key = lib.prng.key(Builder("example"), 42)
        >>> print(lib.prng.bernoulli(key, 0.5, [2, 3]).shape)
        pred[2,3]

    See https://docs.jax.dev/en/latest/_autosummary/jax.random.bernoulli.html
    """
    numbers = uniform(key, Shape.array(ElementType.F32, dimensions))
    return ops.lt(numbers, float(probability))


@checked
def uniform_integers(key: Op, shape: ShapeLike, low: int, high: int) -> Op:
    """Random integers of a uniform distribution over [low, high).

    Twice the bits of the type are drawn, which makes the bias of the remainder small. Integers of
    32 and 64 bits are those of `jax.random.randint`.

    Args:
        key: A key, u32[2].
        shape: The shape of the result, of an integer type of 8 to 64 bits.
        low: The least integer.
        high: The bound above the greatest integer.

    Returns:
        The integers.

    Raises:
        ShapeError: The key is not u32[2].
        InvalidArgumentError: The shape has another element type, or the range is empty or exceeds
            the type.

    Example:
        >>> key = lib.prng.key(Builder("example"), 42)
        >>> print(lib.prng.uniform_integers(key, "s32[2,3]", 0, 10).shape)
        s32[2,3]

    See https://docs.jax.dev/en/latest/_autosummary/jax.random.randint.html
    """
    shape = as_shape(shape)
    element_type = shape.element_type
    width = element_type.bit_width if element_type.is_integer else 0
    least = -(1 << (width - 1)) if element_type.is_signed_integer else 0
    if width not in _UNSIGNED or not least <= low < high <= least + (1 << width):
        raise InvalidArgumentError(
            "a range of integers of 8 to 64 bits must not be empty and fit the type, got "
            f"[{low}, {high}) for {element_type.text}",
            op="uniform_integers",
        )
    unsigned, count = _UNSIGNED[width], high - low
    halves = split(key)
    upper, lower = (
        random_bits(
            slicing.index_in_dim(halves, number, keep_dimension=False), width, shape.dimensions
        )
        for number in range(2)
    )
    offset = lower
    if count < 1 << width:
        offset = _remainder(upper, lower, count)
    start = constants.scalar(key.builder, low % (1 << width), unsigned)
    return ops.bitcast_convert_type(offset + start, element_type)


def _remainder(upper: Op, lower: Op, count: int) -> Op:
    """Return the remainder of the numbers that these unsigned high and low halves form."""
    element_type = upper.shape.element_type
    half = element_type.bit_width // 2
    wide, factor = element_type, (1 << 2 * half) % count
    if element_type.bit_width < 32:
        wide = _U32
    else:
        # There is no wider type for the product, and jax.random takes this for the factor: the
        # square of 2^half, which is 0 where the remainder leaves it as it is.
        factor = ((1 << half) % count) ** 2 % (1 << 2 * half) % count
    upper, lower = (ops.convert_element_type(each, wide) for each in (upper, lower))
    offset = ((upper % count) * factor + lower % count) % count
    return ops.convert_element_type(offset, element_type)


def _real_dtype(function: str, element_type: ElementType) -> "np.dtype[np.generic]":
    if element_type not in (ElementType.F16, ElementType.BF16, ElementType.F32, ElementType.F64):
        raise InvalidArgumentError(
            f"the element type must be f16, bf16, f32 or f64, got {element_type.text}", op=function
        )
    return element_type.dtype


def _blocks(key: Op, dimensions: tuple[int, ...]) -> tuple[Op, Op]:
    """Both words of the encrypted number of each element."""
    size = math.prod(dimensions)
    numbers = constants.iota(key.builder, _U64, size)
    upper = ops.convert_element_type(ops.shift_right_logical(numbers, 32), _U32)
    first, second = threefry_2x32(key, upper, ops.convert_element_type(numbers, _U32))
    return ops.reshape(first, dimensions), ops.reshape(second, dimensions)


@functools.lru_cache(maxsize=64)
def _threefry(dimensions: tuple[int, ...]) -> Computation:
    builder = Builder("threefry_2x32")
    word, block = Shape.scalar(_U32), Shape.array(_U32, dimensions)
    key_0, key_1, x, y = (
        builder.parameter(number, shape) for number, shape in enumerate((word, word, block, block))
    )
    keys = (key_0, key_1, ops.xor(ops.xor(key_0, key_1), THREE_FRY_PARITY))
    x, y = x + keys[0], y + keys[1]
    for group in range(5):
        for distance in THREE_FRY_ROTATIONS[group % 2]:
            x = x + y
            y = ops.xor(x, _rotated(y, distance))
        x = x + keys[(group + 1) % 3]
        y = y + (keys[(group + 2) % 3] + (group + 1))
    return builder.build(ops.tuple([x, y]))


def _rotated(word: Op, distance: int) -> Op:
    return ops.or_(ops.shift_left(word, distance), ops.shift_right_logical(word, 32 - distance))
