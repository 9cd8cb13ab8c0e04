"""Functions of integers against Python's, for every operand of a byte or less."""

from typing import Any

import numpy as np
import pytest

from tests.unit.codegen.instructions.calls import called, type_of

BYTES = np.arange(256).astype(np.uint8)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_powers_wrap_and_negative_ones_leave_zero_but_of_units(dtype: Any) -> None:
    base, exponent = (each.reshape(-1).view(dtype) for each in np.meshgrid(BYTES, BYTES[:40]))
    found = called(f"pow_{type_of(dtype)}", dtype, base, exponent)
    right = [pow(int(b), int(e), 256) for b, e in zip(base, exponent, strict=True)]
    np.testing.assert_array_equal(found.view(np.uint8), right)
    units = np.array([1, -1, -1, 0, 5], np.int8)
    powers = np.array([-3, -3, -2, -1, -1], np.int8)
    np.testing.assert_array_equal(called("pow_i8", np.int8, units, powers), [1, -1, 1, 0, 0])


def test_signs_are_those_of_numpy() -> None:
    values = BYTES.view(np.int8)
    np.testing.assert_array_equal(called("sign_i8", np.int8, values), np.sign(values))


@pytest.mark.parametrize("width", [1, 2, 4])
def test_bits_of_unsigned_types_under_a_byte(width: int) -> None:
    mask = (1 << width) - 1
    words, amounts = (e.reshape(-1) for e in np.meshgrid(BYTES[: mask + 1], BYTES[: mask + 1]))
    kept = amounts < width
    left = called(f"shift_left_u{width}", np.uint8, words, amounts)
    np.testing.assert_array_equal(left & mask, np.where(kept, words << amounts, 0) & mask)
    right = called(f"shift_right_logical_u{width}", np.uint8, words, amounts)
    np.testing.assert_array_equal(right, np.where(kept, words >> amounts, 0))
    counts = called(f"popcnt_u{width}", np.uint8, words)
    np.testing.assert_array_equal(counts, [int(word).bit_count() for word in words])
    zeros = called(f"clz_u{width}", np.uint8, words)
    np.testing.assert_array_equal(zeros, [width - int(word).bit_length() for word in words])
