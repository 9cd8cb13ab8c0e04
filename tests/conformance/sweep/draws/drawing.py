"""Strategies of the sweep: dimensions, element types, arrays with special values."""

import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

from xla_contract.types.element_type import ElementType as E

SIGNED = (E.S4, E.S8, E.S16, E.S32, E.S64)
UNSIGNED = (E.U4, E.U8, E.U16, E.U32, E.U64)
INTEGERS = (*SIGNED, *UNSIGNED)
FLOATS = (E.F16, E.BF16, E.F32, E.F64)
NARROW = (
    E.F8E5M2,
    E.F8E4M3,
    E.F8E4M3FN,
    E.F8E4M3B11FNUZ,
    E.F8E3M4,
    E.F8E5M2FNUZ,
    E.F8E4M3FNUZ,
    E.F4E2M1FN,
    E.F8E8M0FNU,
)
COMPLEX = (E.C64, E.C128)
EVERY = (E.PRED, *INTEGERS, *FLOATS, *NARROW, *COMPLEX)


def dimensions(
    min_rank: int = 0, max_rank: int = 4, max_size: int = 5, *, zero: bool = True
) -> st.SearchStrategy[tuple[int, ...]]:
    """Sizes of an array; some of them 0 where `zero` allows it."""
    size = st.integers(0 if zero else 1, max_size)
    return st.lists(size, min_size=min_rank, max_size=max_rank).map(tuple)


def seeds() -> st.SearchStrategy[int]:
    """The seed of the values of one array."""
    return st.integers(0, 2**32 - 1)


def array(element_type: E, shape: Sequence[int], seed: int, *, special: bool = True) -> Any:
    """Values of a type: ordinary ones, with `special` about a third of them special ones.

    Special are zeros of both signs, infinities, NaN, denormals, the extremes, and their
    neighbours.
    """
    random = np.random.default_rng(seed)
    count = math.prod(shape)
    if element_type is E.PRED:
        flat = random.integers(0, 2, count).astype(bool)
    elif element_type.is_integer:
        flat = _integers(element_type, random, count, special)
    elif element_type.is_complex:
        part = E.F32 if element_type is E.C64 else E.F64
        real, imag = (_floats(part, random, count, special) for _ in range(2))
        flat = np.empty(count, element_type.dtype)
        flat.real, flat.imag = real, imag
    else:
        flat = _floats(element_type, random, count, special)
    return np.asarray(flat).astype(element_type.dtype).reshape(tuple(shape))


def _integers(element_type: E, random: np.random.Generator, count: int, special: bool) -> Any:
    width = element_type.bit_width
    low = -(2 ** (width - 1)) if element_type.is_signed_integer else 0
    high = low + 2**width - 1
    small = random.integers(max(low, -8), min(high, 8), count, endpoint=True)
    numbers = [int(number) for number in small]
    if special:
        pool = [0, 1, low, high, low + 1, high - 1, width, width - 1, high // 3]
        for index in np.flatnonzero(random.random(count) < 0.5):
            numbers[index] = (
                pool[random.integers(len(pool))]
                if random.random() < 0.5
                else low + int(random.integers(0, 2**width - 1, dtype=np.uint64, endpoint=True))
            )
    wide = np.int64 if low else np.uint64
    return np.array([np.array(number, object) for number in numbers], object).astype(wide)


def _floats(element_type: E, random: np.random.Generator, count: int, special: bool) -> Any:
    dtype: Any = element_type.dtype
    ordinary = random.standard_normal(count) * np.exp(random.standard_normal(count))
    with np.errstate(all="ignore"):
        values = ordinary.astype(dtype)
        if special:
            numbers: Any = ml_dtypes
            info = numbers.finfo(dtype)
            pool = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -1.5, np.inf, -np.inf, np.nan]
            pool += [float(info.max), float(info.min), float(info.smallest_normal)]
            pool += [float(info.smallest_subnormal), -float(info.smallest_normal), 30.0, -30.0]
            table = np.array(pool).astype(dtype)
            chosen = random.random(count) < 0.35
            values[chosen] = table[random.integers(0, len(table), int(chosen.sum()))]
    return values
