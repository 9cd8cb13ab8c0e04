import ml_dtypes
import numpy as np
import pytest

from tests.corpus.single_op import result_of
from xla_contract.ops.elementwise.compare import (
    CompareAttributes,
    ComparisonDirection,
    ComparisonType,
)
from xla_contract.types.opcode import Opcode

LT, LE, NE = ComparisonDirection.LT, ComparisonDirection.LE, ComparisonDirection.NE


def compare(lhs: object, rhs: object, *attributes: object) -> list[bool]:
    result = result_of(Opcode.COMPARE, lhs, rhs, attributes=CompareAttributes(*attributes))  # type: ignore[arg-type]
    return [bool(flag) for flag in result]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_the_total_order_is_strict_along_the_line(dtype: type) -> None:
    line = np.array([-np.nan, -np.inf, -1, -1e-3, -0.0, 0.0, 1e-3, 1, np.inf, np.nan], dtype)
    line[0] = np.copysign(np.array(np.nan, dtype), np.array(-1, dtype))
    assert all(compare(line[:-1], line[1:], LT, ComparisonType.TOTALORDER))
    assert not any(compare(line, line, LT, ComparisonType.TOTALORDER))
    assert all(compare(line, line, LE, ComparisonType.TOTALORDER))


@pytest.mark.parametrize(
    "dtype", [ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3, ml_dtypes.float8_e3m4]
)
def test_the_total_order_tells_nans_apart_by_their_payloads(dtype: type) -> None:
    codes = np.arange(256)
    # A sign and a magnitude: the negative ones in reverse, -0 before 0.
    line = np.argsort(np.where(codes < 128, codes, 127 - codes)).astype(np.uint8).view(dtype)
    assert all(compare(line[:-1], line[1:], LT, ComparisonType.TOTALORDER))
    assert all(compare(line[:-1], line[1:], NE, ComparisonType.TOTALORDER))


def test_nan_only_differs_and_zeros_are_equal() -> None:
    lhs, rhs = np.array([np.nan, -0.0]), np.array([np.nan, 0.0])
    assert compare(lhs, rhs, NE) == [True, False]
    assert compare(lhs, rhs, LE) == [False, True]


def test_sign_is_the_type_s_own() -> None:
    assert compare(np.array([-1], np.int8), np.array([1], np.int8), LT) == [True]
    assert compare(np.array([255], np.uint8), np.array([1], np.uint8), LT) == [False]
    assert compare(np.array([-8], ml_dtypes.int4), np.array([7], ml_dtypes.int4), LT) == [True]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64])
def test_subnormal_numbers_are_zeros_but_in_the_total_order(dtype: type) -> None:
    part = dtype(0).real.dtype
    smallest = np.finfo(part).smallest_subnormal
    operand, zero = np.array([smallest, -smallest], dtype), np.zeros(2, dtype)
    same = CompareAttributes(ComparisonDirection.EQ)
    assert result_of(Opcode.COMPARE, operand, zero, attributes=same).all()
    if dtype is not np.complex64:
        total = CompareAttributes(ComparisonDirection.EQ, ComparisonType.TOTALORDER)
        assert not result_of(Opcode.COMPARE, operand, zero, attributes=total).any()
