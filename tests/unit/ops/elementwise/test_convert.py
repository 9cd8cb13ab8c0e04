import numpy as np
import pytest

from tests.corpus.single_op import result_of
from xla_contract.ops.elementwise.convert import ConvertAttributes
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode


def convert(array: object, target: ElementType) -> list[object]:
    result = result_of(Opcode.CONVERT, array, attributes=ConvertAttributes(target))
    numbers: list[object] = result.astype(object).tolist()
    return numbers


SPECIAL = np.array([np.nan, 1e30, -1e30, np.inf, -np.inf, -1.9, 5.7], np.float32)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (ElementType.S32, [0, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), -1, 5]),
        (ElementType.S64, [0, 2**63 - 1, -(2**63), 2**63 - 1, -(2**63), -1, 5]),
        (ElementType.U64, [0, 2**64 - 1, 0, 2**64 - 1, 0, 0, 5]),
        (ElementType.S4, [0, 7, -8, 7, -8, -1, 5]),
        (ElementType.U2, [0, 3, 0, 3, 0, 0, 3]),
        (ElementType.S1, [0, 0, -1, 0, -1, -1, 0]),
        (ElementType.PRED, [True] * 7),
    ],
)
def test_floats_saturate_and_nan_is_zero(target: ElementType, expected: list[int]) -> None:
    assert [int(n) for n in convert(SPECIAL, target)] == [int(n) for n in expected]  # type: ignore[call-overload]


def test_integers_wrap() -> None:
    assert [int(n) for n in convert(np.array([7, 8, -9, 256]), ElementType.S4)] == [7, -8, 7, 0]  # type: ignore[call-overload]
    assert convert(np.array([7, 8, -9, 256]), ElementType.U8) == [7, 8, 247, 0]
    assert convert(np.array([256, 0]), ElementType.PRED) == [True, False]


def test_complex_gives_its_real_part_and_pred_sees_both() -> None:
    numbers = np.array([2.5 + 1j, 1j, 0], np.complex64)
    assert convert(numbers, ElementType.S32) == [2, 0, 0]
    assert convert(numbers, ElementType.F32) == [2.5, 0, 0]
    assert convert(numbers, ElementType.PRED) == [True, True, False]


def test_parts_of_complex_numbers_lose_what_the_parts_alone_would() -> None:
    small = np.array([1e-40 - 2e-40j, 1 + 1e-40j])
    assert convert(small.astype(np.complex64), ElementType.C128) == [0, 1]
    assert convert(small, ElementType.C64) == [0, 1]


def test_a_type_without_nan_makes_it_minus_zero() -> None:
    for nan in (np.nan, -np.nan):
        wide = np.array([nan], np.float32)
        target = ConvertAttributes(ElementType.F4E2M1FN)
        result = result_of(Opcode.CONVERT, wide, attributes=target)
        assert np.signbit(result.astype(np.float32))[0]
