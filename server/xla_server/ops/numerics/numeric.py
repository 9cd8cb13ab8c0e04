"""The types arithmetic is done in, and the bits of integers.

XLA's CPU backend computes floats narrower than F32 in F32 and rounds once per operation;
integers narrower than a byte are computed in a byte and wrap.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

from xla_contract.types.element_type import ElementType

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


def computation_dtype(element_type: ElementType) -> "np.dtype[Any]":
    """The numpy type in which values of this element type are computed."""
    if element_type.is_floating and element_type.bit_width < 32:
        return np.dtype(np.float32)
    if element_type.is_integer and element_type.bit_width < 8:
        return np.dtype(np.int8 if element_type.is_signed_integer else np.uint8)
    return element_type.dtype


def widened(array: Array, element_type: ElementType) -> Array:
    """The same numbers in the type they are computed in."""
    return array.astype(computation_dtype(element_type), copy=False)


def narrowed(array: Any, element_type: ElementType) -> Array:
    """The result of a computation as an array of `element_type`: rounded, or wrapped.

    `array` may be a numpy scalar, which is what ufuncs make of arrays of rank 0. Where the type
    has no NaN it becomes -0, as in XLA.
    """
    if element_type in WITHOUT_NAN:
        # ml_dtypes lets the sign of the NaN decide about the sign of the zero.
        array = np.where(np.isnan(array), np.nan, array)
    return np.asarray(array).astype(element_type.dtype, copy=False)


def saturated(floats: Any, target: ElementType) -> Array:
    """Floats as integers: towards zero, the nearest bound where too large, NaN as 0."""
    bounds = ml_dtypes.iinfo(target.dtype)  # type: ignore[no-untyped-call]
    low, high = int(bounds.min), int(bounds.max)
    whole = np.trunc(floats)
    # high + 1 is a power of two and so exact in every float type; high itself may not be.
    inside = (whole >= low) & (whole < float(high + 1))
    wide = np.int64 if low else np.uint64
    numbers = np.where(inside, whole, 0).astype(wide)
    numbers = np.where(whole >= float(high + 1), wide(high), numbers)
    return narrowed(np.where(whole < low, wide(low), numbers), target)


WITHOUT_NAN = (ElementType.F4E2M1FN, ElementType.F6E2M3FN, ElementType.F6E3M2FN)


FLUSHED = (ElementType.BF16, ElementType.F32, ElementType.F64)
"""The types whose subnormal numbers are so in the type they are computed in."""


def flushed(floats: Array) -> Array:
    """Numbers of F32 or F64 with subnormal ones replaced by zeros of the same sign.

    XLA's CPU backend runs programs with denormals-are-zero and flush-to-zero.
    """
    small = np.abs(floats) < np.finfo(floats.dtype).smallest_normal
    if not np.any(small):
        return floats
    return np.where(small, np.copysign(floats.dtype.type(0), floats), floats)


BLOCK_ELEMENTS = 1 << 15
"""Elements of the arrays that `in_blocks` gives to a function at once, where it can."""


def in_blocks(
    function: Callable[[Sequence[Array]], Array], operands: Sequence[Array], dtype: "np.dtype[Any]"
) -> Array:
    """Return what an elementwise `function` makes of arrays, which numpy broadcasts.

    It is called for one block after the other, so what it takes beside its result, of `dtype`, is
    memory for a few times BLOCK_ELEMENTS.
    """
    sizes = np.broadcast_shapes(*(operand.shape for operand in operands))
    if math.prod(sizes) <= BLOCK_ELEMENTS:
        return function(operands)
    views = [np.broadcast_to(operand, sizes) for operand in operands]
    result = np.empty(sizes, dtype)
    for block in blocks_of(sizes, BLOCK_ELEMENTS):
        result[block] = function([view[block] for view in views])
    return result


def blocks_of(sizes: Sequence[int], elements: int) -> Iterator[Any]:
    """The indices of blocks of an array: runs of `elements` along the first long dimension."""
    if math.prod(sizes) <= elements:
        yield ...
        return
    axis = next(n for n in range(len(sizes)) if math.prod(sizes[n + 1 :]) <= elements)
    step = max(1, elements // max(1, math.prod(sizes[axis + 1 :])))
    for outer in np.ndindex(*sizes[:axis]):
        for start in range(0, sizes[axis], step):
            yield (*outer, slice(start, start + step))


def unsigned_bits(array: Array, element_type: ElementType) -> Array:
    """The two's complement of integers as uint64, in the low `bit_width` bits."""
    mask = np.uint64(2**element_type.bit_width - 1)
    return np.asarray(widened(array, element_type).astype(np.uint64) & mask)


def from_bits(bits: Array, element_type: ElementType) -> Array:
    """The integers whose two's complement is in the low `bit_width` bits of uint64."""
    storage = np.dtype(f"u{element_type.byte_width}")
    mask = np.uint64(2**element_type.bit_width - 1)
    return np.asarray(bits & mask).astype(storage).view(element_type.dtype)


def high_product(x: Array, y: Array) -> Array:
    """The upper 64 bits of unsigned 64-bit products, computed from 32-bit products."""
    half, low = np.uint64(32), np.uint64(2**32 - 1)
    middle = (x >> half) * (y & low) + (((x & low) * (y & low)) >> half)
    other = (x & low) * (y >> half) + (middle & low)
    return np.asarray((x >> half) * (y >> half) + (middle >> half) + (other >> half))
