import ml_dtypes
import numpy as np
import pytest

from tests.corpus.single_op import result_of
from xla_contract.ops.elementwise.elementwise import BINARY, UNARY
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.ops.elementwise.elementwise import EVALUATORS

INT4 = ml_dtypes.int4


def i32(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int32)


def f32(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float32)


@pytest.mark.parametrize("opcode", sorted(UNARY | BINARY))
def test_every_type_that_a_rule_allows_is_computed(opcode: Opcode) -> None:
    arity = opcode.arity
    for element_type in (UNARY | BINARY)[opcode].members:
        ones = np.ones([2, 1], np.int8).astype(element_type.dtype)
        result_of(opcode, *[ones] * arity)
        result_of(opcode, *[ones[0, 0]] * arity)


def test_the_tables_hold_the_same_operations() -> None:
    assert set(EVALUATORS) == {*UNARY, *BINARY, Opcode.SELECT, Opcode.CLAMP}
    assert all(opcode.arity == 1 for opcode in UNARY)
    assert all(opcode.arity == 2 for opcode in BINARY)
    assert Shape.scalar(ElementType.F32).element_type in UNARY[Opcode.TANH].members


@pytest.mark.parametrize(
    ("opcode", "operands", "expected"),
    [
        (Opcode.DIVIDE, [i32(7, -7, -(2**31), -7), i32(0, 0, -1, 2)], [-1, -1, -(2**31), -3]),
        (Opcode.REMAINDER, [i32(7, -7, -(2**31), -7), i32(0, 2, -1, 3)], [7, -1, 0, -1]),
        (Opcode.DIVIDE, [np.array([7, 9], np.uint8), np.array([0, 2], np.uint8)], [255, 4]),
        (Opcode.DIVIDE, [np.array([-8, 7], INT4), np.array([-1, 0], INT4)], [-8, -1]),
        (Opcode.POWER, [i32(2, 3, -1, 0, 0), i32(-1, 35, -3, -2, 0)], [0, -651126885, -1, 0, 1]),
        (Opcode.ADD, [np.array([7, -8], INT4), np.array([1, -1], INT4)], [-8, 7]),
        (Opcode.SHIFT_LEFT, [i32(1, 1, 1), i32(31, 32, -1)], [-(2**31), 0, 0]),
        (Opcode.SHIFT_RIGHT_ARITHMETIC, [i32(-4, -4, 4), i32(1, 32, -1)], [-2, -1, 0]),
        (Opcode.SHIFT_RIGHT_LOGICAL, [i32(-1, -1), i32(28, 32)], [15, 0]),
        (Opcode.SHIFT_RIGHT_LOGICAL, [np.array([-8, -1], INT4), np.array([1, 3], INT4)], [4, 1]),
        (Opcode.MULHI, [i32(2**30, -5), i32(8, 2**30)], [2, -2]),
        (
            Opcode.MULHI,
            [np.array([-(2**63), 2**62, -1]), np.array([-(2**63), 12, 5])],
            [2**62, 3, -1],
        ),
        (Opcode.MULHI, [np.array([2**64 - 1], np.uint64)] * 2, [2**64 - 2]),
        (Opcode.POPCNT, [np.array([-2, 3], INT4)], [7, 2]),
        (Opcode.COUNT_LEADING_ZEROS, [np.array([-1, 3, 0], INT4)], [0, 2, 4]),
        (Opcode.MULTIPLY, [np.array([0, 1, 1], bool), np.array([1, 1, 0], bool)], [0, 1, 0]),
        (Opcode.ADD, [np.array([0, 1, 1], bool), np.array([0, 1, 0], bool)], [0, 1, 1]),
        (Opcode.CLAMP, [i32(2), i32(9), i32(1)], [1]),
    ],
)
def test_integers(opcode: Opcode, operands: list[np.ndarray], expected: list[int]) -> None:
    assert [int(number) for number in result_of(opcode, *operands)] == expected


def test_signs_of_zeros_and_nans() -> None:
    for opcode, first in ((Opcode.MAXIMUM, 0.0), (Opcode.MINIMUM, -0.0)):
        result = result_of(opcode, f32(-0.0, 0.0, np.nan, 1), f32(0.0, -0.0, 1, np.nan))
        np.testing.assert_array_equal(np.signbit(result[:2]), np.signbit(first))
        assert np.isnan(result[2:]).all()
    signs = result_of(Opcode.SIGN, f32(-0.0, np.nan, -5))
    assert np.signbit(signs[0])
    assert np.isnan(signs[1])
    assert np.isnan(result_of(Opcode.CLAMP, f32(0), f32(np.nan), f32(1)))[0]
    halves = result_of(Opcode.ROUND_NEAREST_AFZ, f32(0.5, -2.5, 0.49999997, 8388609))
    assert halves.tolist() == [1, -3, 0, 8388609]


@pytest.mark.parametrize("shape", [(), (1,), (3,)])
def test_roots_written_as_powers(shape: tuple[int, ...]) -> None:
    half = np.broadcast_to(np.float32(0.5), shape)
    for base, wanted in ((-0.0, 0.0), (-np.inf, np.inf), (4.0, 2.0), (-1.0, np.nan)):
        found = result_of(Opcode.POWER, np.full(shape, base, np.float32), half)
        np.testing.assert_array_equal(found, np.full(shape, wanted, np.float32))
        assert not np.signbit(found).any() or np.isnan(wanted)


def test_narrow_floats_are_rounded_once() -> None:
    # In bf16 steps, 1 + 2**-8 would be lost before the multiplication by 3.
    third = np.array([1 / 3], ml_dtypes.bfloat16)
    exact = third.astype(np.float64) ** 3
    assert result_of(Opcode.POWER, third, np.array([3], third.dtype)) == exact.astype(third.dtype)
    logistic = result_of(Opcode.LOGISTIC, np.array([0.3], third.dtype))
    value = 1 / (1 + np.exp(-np.array([0.3], third.dtype).astype(np.float64)))
    assert logistic == value.astype(third.dtype)


def test_complex_parts_keep_infinities_apart() -> None:
    result = result_of(Opcode.COMPLEX, f32(np.inf), f32(1))
    assert (result.real[0], result.imag[0]) == (np.inf, 1)
    assert result_of(Opcode.LOGISTIC, np.array([1000 + 1j], np.complex64))[0] == 1
    large = np.array([1.7e308 + 1e308j])
    np.testing.assert_allclose(result_of(Opcode.DIVIDE, large * 0.25, large), 0.25, rtol=1e-15)
    tiny = np.array([1e-20 + 1e-20j])
    np.testing.assert_array_equal(result_of(Opcode.LOG_PLUS_ONE, tiny), tiny)
