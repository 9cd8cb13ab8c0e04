from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest

from tests.conformance.oracle import by_jax
from tests.corpus.single_op import result_of
from xla_contract.ops.contraction.dot import DotAttributes
from xla_contract.types.dimension_numbers import DotDimensionNumbers
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.ops.contraction.scaled_dot import wider_type

PLAIN = DotDimensionNumbers((1,), (0,))
BATCHED = DotDimensionNumbers((2,), (2,), (0,), (0,))


def scaled(
    numbers: DotDimensionNumbers, result: ElementType, *operands: Any
) -> "np.ndarray[Any, Any]":
    value: np.ndarray[Any, Any] = result_of(
        Opcode.SCALED_DOT, *operands, attributes=DotAttributes(numbers, result)
    )
    return value


def drawn(seed: int, dtype: Any, *dimensions: int) -> "np.ndarray[Any, Any]":
    numbers = np.random.default_rng(seed).normal(size=dimensions)
    return (2 ** np.round(numbers) if dtype == ml_dtypes.float8_e8m0fnu else numbers).astype(dtype)


def test_a_scale_is_for_a_block_in_every_dimension() -> None:
    lhs = np.arange(8, dtype=np.float32).reshape(2, 4)
    rhs = np.ones((4, 2), np.float32)
    by_blocks = np.array([[1, 10]], np.float32)
    per_column = np.array([[1, 100]], np.float32)
    found = scaled(PLAIN, ElementType.F32, lhs, rhs, by_blocks, per_column)
    sums = (lhs * [1, 1, 10, 10]).sum(1, keepdims=True)
    np.testing.assert_array_equal(found, np.concatenate([sums, 100 * sums], 1))


def test_a_scalar_is_no_scale_whatever_its_value() -> None:
    lhs, rhs = drawn(0, np.float32, 3, 4), drawn(1, np.float32, 4, 2)
    seven = np.array(7, np.float32)
    found = scaled(PLAIN, ElementType.F32, lhs, rhs, seven, seven)
    np.testing.assert_allclose(found, lhs @ rhs, rtol=1e-5)


def test_values_meet_in_the_wider_type_and_in_no_less_than_bf16() -> None:
    types = ElementType
    for one, other, expected in (
        (types.F8E4M3FN, types.F8E8M0FNU, types.BF16),
        (types.F4E2M1FN, types.F8E4M3FN, types.BF16),
        (types.F8E4M3FN, types.F16, types.F16),
        (types.BF16, types.F16, types.F32),
        (types.BF16, types.F32, types.F32),
        (types.F64, types.F32, types.F64),
    ):
        assert wider_type(one, other) is wider_type(other, one) is expected
    # The product takes more bits than bf16 has and is rounded before it is summed.
    lhs = np.array([[1 + 2**-3]], ml_dtypes.float8_e4m3fn)
    scale = np.array([[1 + 2**-7]], ml_dtypes.bfloat16)
    none = np.array(1, ml_dtypes.bfloat16)
    found = scaled(PLAIN, types.F32, lhs, np.ones((1, 1), ml_dtypes.bfloat16), scale, none)
    assert found == np.float32(ml_dtypes.bfloat16(1.125 * (1 + 2**-7)))


@pytest.mark.parametrize("narrow", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
@pytest.mark.parametrize("wanted", [ml_dtypes.bfloat16, np.dtype(np.float32)])
def test_jax_s_scaled_dot_on_xla_s_cpu_gives_the_same(narrow: Any, wanted: Any) -> None:
    scale = ml_dtypes.float8_e8m0fnu
    operands = [
        drawn(0, narrow, 2, 3, 64),
        drawn(1, narrow, 2, 5, 64),
        drawn(2, scale, 2, 3, 2),
        drawn(3, scale, 2, 5, 4),
    ]

    def theirs(lhs: Any, rhs: Any, lhs_scale: Any, rhs_scale: Any) -> Any:
        return jax.lax.scaled_dot(
            lhs,
            rhs,
            lhs_scale=lhs_scale,
            rhs_scale=rhs_scale,
            dimension_numbers=(((2,), (2,)), ((0,), (0,))),
            preferred_element_type=wanted,
        )

    (expected,) = by_jax(theirs, operands)
    found = scaled(BATCHED, ElementType.from_dtype(np.dtype(wanted)), *operands)
    # Sums of 64 terms that cancel, taken in another order.
    scale_of_terms = float(np.abs(expected.astype(np.float32)).max())
    np.testing.assert_allclose(
        found.astype(np.float32),
        expected.astype(np.float32),
        rtol=2 * float(ml_dtypes.finfo(expected.dtype).eps),
        atol=scale_of_terms * 1e-5,
    )
    assert found.dtype == expected.dtype
