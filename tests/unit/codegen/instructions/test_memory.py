"""Changes of type as kernels have them, against numpy's."""

from typing import Any

import numpy as np
import pytest

from tests.unit.codegen.instructions.calls import called, type_of

INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
FLOATS = [np.float32, np.float64]
COMPLEX = [np.complex64, np.complex128]
WHOLE = np.array([0, 1, -1, 2, 127, 128, 255, 256, -(2**31), 2**31, 2**63 - 1, -(2**63)])


@pytest.mark.parametrize("source", INTEGERS)
def test_integers_are_wrapped_or_extended_by_their_sign(source: Any) -> None:
    values = WHOLE.astype(source)
    for target in (*INTEGERS, *FLOATS, np.bool_):
        found = called(f"to_{type_of(target)}", target, values)
        np.testing.assert_array_equal(found, values.astype(target))


@pytest.mark.parametrize("source", FLOATS)
def test_floats_are_rounded_to_floats_and_cut_to_integers(source: Any) -> None:
    values = np.array([0, -0.0, 1.5, -1.5, 100.999, 1 / 3], source)
    for target in (*FLOATS, np.int8, np.int32, np.int64):
        found = called(f"to_{type_of(target)}", target, values)
        np.testing.assert_array_equal(found, values.astype(target))


def test_nan_is_true_and_zeros_are_not() -> None:
    values = np.array([0, -0.0, np.nan, np.inf, 1e-40], np.float32)
    found = called("to_b1", np.bool_, values)
    np.testing.assert_array_equal(found, [False, False, True, True, True])


@pytest.mark.parametrize("source", COMPLEX)
def test_complex_numbers_change_type_by_their_parts(source: Any) -> None:
    values = np.array([1 + 2j, -0.5j, complex(np.inf, -1)], source)
    for target in COMPLEX:
        found = called(f"to_{type_of(target)}", target, values)
        np.testing.assert_array_equal(found, values.astype(target))
    real = called("to_c64", np.complex64, np.array([1.5, -2], np.float32))
    np.testing.assert_array_equal(real, [1.5, -2])


@pytest.mark.parametrize(("source", "target"), [(np.float32, np.uint32), (np.int64, np.float64)])
def test_bits_are_kept(source: Any, target: Any) -> None:
    values = np.array([0, 1, -1, 3], source)
    found = called(f"bits_{type_of(target)}", target, values)
    np.testing.assert_array_equal(found, values.view(target))
