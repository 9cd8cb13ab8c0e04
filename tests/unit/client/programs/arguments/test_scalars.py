"""Scalars as constants: what fits, what is rounded, and what is refused."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xla_client.programs.arguments.scalars import scalar_array
from xla_contract.errors import InvalidArgumentError
from xla_contract.types.element_type import ElementType

ARRAYS = [each for each in ElementType if each.is_array]
INTEGERS = [each for each in ARRAYS if each.is_integer]
FLOATS = [each for each in ARRAYS if each.is_floating]
COMPLEX = [each for each in ARRAYS if each.is_complex]


def limits(element_type: ElementType) -> tuple[int, int]:
    info = (
        ml_dtypes.iinfo(element_type.dtype)
        if element_type.bit_width < 8
        else np.iinfo(element_type.dtype)
    )
    return int(info.min), int(info.max)


def refused(value: Any, element_type: ElementType, got: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        scalar_array(value, element_type)
    assert caught.value.message == (
        f"a scalar must fit the element type it meets, got {got} for {element_type.text}"
    )


@pytest.mark.parametrize("element_type", ARRAYS, ids=str)
def test_it_is_an_array_of_rank_0_of_the_type(element_type: ElementType) -> None:
    # 2**0 is the least that is left to a type of exponents alone.
    value: Any = {ElementType.PRED: True, ElementType.F8E8M0FNU: 1}.get(element_type, 0)
    array = scalar_array(value, element_type)
    assert (array.dtype, array.shape) == (element_type.dtype, ())
    assert array == value


@pytest.mark.parametrize("element_type", INTEGERS, ids=str)
def test_integers_fit_up_to_the_limits_and_no_further(element_type: ElementType) -> None:
    least, most = limits(element_type)
    for number in (least, most):
        assert int(scalar_array(number, element_type)) == number
    for number in (least - 1, most + 1):
        refused(number, element_type, str(number))
    refused(np.int64(200), ElementType.S8, "200")
    for value in (1.0, np.float32(1)):
        refused(value, element_type, f"float {value!r}")
    refused(1j, element_type, "complex 1j")


@settings(max_examples=30, deadline=None)
@given(st.integers(-(2**70), 2**70), st.sampled_from(INTEGERS))
def test_an_integer_is_itself_or_refused(number: int, element_type: ElementType) -> None:
    least, most = limits(element_type)
    if least <= number <= most:
        assert int(scalar_array(number, element_type)) == number
    else:
        refused(number, element_type, str(number))


@settings(max_examples=30, deadline=None)
@given(st.floats(allow_nan=True) | st.integers(-(2**60), 2**60), st.sampled_from(FLOATS + COMPLEX))
def test_real_numbers_are_rounded_to_the_nearest(value: float, element_type: ElementType) -> None:
    array = scalar_array(value, element_type)
    with np.errstate(all="ignore"):
        expected = np.float64(value).astype(element_type.dtype)
    assert array.tobytes() == np.asarray(expected).tobytes()


@pytest.mark.parametrize("element_type", COMPLEX, ids=str)
def test_complex_numbers_meet_complex_types_alone(element_type: ElementType) -> None:
    assert scalar_array(1.5 - 2j, element_type) == 1.5 - 2j
    assert scalar_array(np.complex64(3j), element_type) == 3j
    for other in (ElementType.F32, ElementType.PRED, ElementType.S32):
        refused(1 + 0j, other, "complex (1+0j)")
        refused(np.complex128(2), other, "complex np.complex128(2+0j)")


@pytest.mark.parametrize("value", [True, np.True_])
def test_bools_meet_pred_alone(value: Any) -> None:
    assert scalar_array(value, ElementType.PRED)
    for other in (ElementType.U8, ElementType.F32, ElementType.C64):
        refused(value, other, f"bool {value!r}")
    for number in (1, 0, np.int8(1)):
        refused(number, ElementType.PRED, f"int {number!r}")
    refused(1.0, ElementType.PRED, "float 1.0")


def test_numbers_too_large_for_a_type_become_infinite() -> None:
    assert scalar_array(1e300, ElementType.F32) == np.inf
    assert scalar_array(-(10**300), ElementType.F32) == -np.inf
    assert scalar_array(np.float64(1e300), ElementType.BF16) == np.inf


def test_numbers_no_float_holds_are_refused() -> None:
    # Python has no float of them to be rounded, and their digits fill a page.
    for number in (1 << 1024, -(10**400)):
        for element_type in (ElementType.F64, ElementType.C64, ElementType.BF16):
            refused(number, element_type, f"an integer of {number.bit_length()} bits")
    assert scalar_array(1 << 1023, ElementType.F64) == 2.0**1023
