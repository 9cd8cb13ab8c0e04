import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from xla_contract.errors import InvalidArgumentError
from xla_contract.types.element_type import ElementType
from xla_contract.types.layout import Layout, PaddingValue
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape, parse_shape

ROWS = np.arange(1, 7, dtype=np.float32).reshape(2, 3)


def padded(element_type: ElementType, value: PaddingValue) -> Shape:
    layout = Layout((0, 1), padded_dimensions=(3, 5), padding_value=value)
    return Shape.array(element_type, (2, 3)).with_layout(layout)


def test_linear_memory_follows_the_layout() -> None:
    literal = Literal.from_numpy(ROWS, parse_shape("f32[2,3]{0,1}"))
    assert literal.linear_memory().tolist() == [1, 4, 2, 5, 3, 6]
    row_major = literal.relayout(parse_shape("f32[2,3]"))
    assert row_major.linear_memory().tolist() == [1, 2, 3, 4, 5, 6]
    assert str(row_major.shape) == "f32[2,3]{1,0}"
    assert row_major.equal(literal)
    assert row_major != literal


def test_a_padded_layout_carries_its_padding() -> None:
    shape = padded(ElementType.F32, PaddingValue.ZERO_PAD)
    literal = Literal.from_numpy(ROWS, shape)
    memory = literal.linear_memory()
    assert memory.tolist() == [1, 4, 0, 2, 5, 0, 3, 6, 0, 0, 0, 0, 0, 0, 0]
    assert Literal.from_linear_memory(shape, memory) == literal


@pytest.mark.parametrize(
    ("element_type", "value", "filled"),
    [
        (ElementType.S32, PaddingValue.ONE_PAD, 1),
        (ElementType.F32, PaddingValue.LOWEST_PAD, -np.inf),
        (ElementType.BF16, PaddingValue.HIGHEST_PAD, np.inf),
        (ElementType.F8E4M3FN, PaddingValue.HIGHEST_PAD, 448),
        (ElementType.F8E4M3FN, PaddingValue.LOWEST_PAD, -448),
        (ElementType.S4, PaddingValue.LOWEST_PAD, -8),
        (ElementType.U64, PaddingValue.HIGHEST_PAD, 2**64 - 1),
        (ElementType.PRED, PaddingValue.HIGHEST_PAD, True),
        (ElementType.PRED, PaddingValue.LOWEST_PAD, False),
        (ElementType.S32, PaddingValue.INVALID_PAD, 0),
    ],
)
def test_padding_values(element_type: ElementType, value: PaddingValue, filled: Any) -> None:
    zeros = np.zeros((2, 3), element_type.dtype)
    memory = Literal.from_numpy(zeros, padded(element_type, value)).linear_memory()
    assert memory.dtype == element_type.dtype
    assert memory[2] == memory[14] == np.array(filled, element_type.dtype)


def test_complex_numbers_have_no_lowest() -> None:
    shape = padded(ElementType.C64, PaddingValue.LOWEST_PAD)
    literal = Literal.from_numpy(np.zeros((2, 3), np.complex64), shape)
    with pytest.raises(InvalidArgumentError, match="LOWEST_PAD for c64"):
        literal.linear_memory()


def test_linear_memory_must_have_the_count_and_type_of_the_shape() -> None:
    shape = parse_shape("f32[2,3]")
    for flat in (np.zeros(5, np.float32), np.zeros(6, np.float64), np.zeros((2, 3), np.float32)):
        with pytest.raises(InvalidArgumentError, match=r"6 elements of float32 for f32\[2,3\]"):
            Literal.from_linear_memory(shape, flat)


def test_numpy_and_back() -> None:
    nested = (ROWS, (np.int32(3), None), ())
    literal = Literal.from_numpy(nested)
    assert str(literal.shape) == "(f32[2,3]{1,0}, (s32[], token[]), ())"
    back: Any = literal.to_numpy()
    assert np.array_equal(back[0], ROWS)
    assert back[1][0] == 3
    assert back[1][1] is None
    assert Literal.from_numpy(back) == literal
    assert literal.elements[1].elements[1] == Literal.token()


def test_the_value_is_read_only_and_its_own_copy() -> None:
    source = ROWS.copy()
    literal = Literal.from_numpy(source)
    source[0, 0] = 99
    assert literal.value[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        literal.value[0, 0] = 5
    assert np.shares_memory(Literal.from_numpy(source, copy=False).value, source)
    source[0, 0] = 1
    assert source.flags.writeable


def test_foreign_byte_order_becomes_native() -> None:
    literal = Literal.from_numpy(ROWS.astype(">f4"))
    assert literal.value.dtype == np.dtype(np.float32)
    assert literal == Literal.from_numpy(ROWS)


@pytest.mark.parametrize(
    ("value", "text", "expected"),
    [
        (3, "f32[]", 3.0),
        ([1, 2], "bf16[2]", [1, 2]),
        (True, "pred[]", True),
        (-8, "s4[]", -8),
        ([], "s32[0]", []),
        (1.5, "c64[]", 1.5),
    ],
)
def test_python_numbers_become_the_type_of_the_shape(value: Any, text: str, expected: Any) -> None:
    literal = Literal.from_numpy(value, parse_shape(text))
    assert literal.value.dtype == literal.shape.element_type.dtype
    assert literal.value.tolist() == expected


@pytest.mark.parametrize(
    ("value", "text", "sentence"),
    [
        (ROWS, "f32[3,2]", r"\[2, 3\] for f32\[3,2\]"),
        (ROWS, "f64[2,3]", r"elements of f32 for f64\[2,3\]"),
        (1.5, "s32[]", "elements of f64 for s32"),
        (1, "pred[]", "elements of s64 for pred"),
        (300, "s8[]", "s8 holds -128 to 127, got 300"),
        (-1, "u4[]", "u4 holds 0 to 15, got -1"),
        ("x", "f32[]", "numpy's <U1"),
        ([[1], [1, 2]], "s32[2]", "must convert to an array"),
        (np.zeros(2), "(f64[2])", "a ndarray for"),
        ((1, 2), "(s32[])", r"a tuple of 2 for \(s32\[\]\)"),
        ((1,), "s32[1]", r"a tuple of 1 for s32\[1\]"),
        (1, "token[]", "a int for token"),
        (None, "f32[]", "no XLA element type"),
    ],
)
def test_values_that_do_not_fit_are_refused(value: Any, text: str, sentence: str) -> None:
    with pytest.raises(InvalidArgumentError, match=sentence):
        Literal.from_numpy(value, parse_shape(text))


def test_equality_is_of_bits() -> None:
    nan, other_nan = np.array([0x7FC00000, 0x7FC00001], np.uint32).view(np.float32)
    assert Literal.from_numpy(nan) == Literal.from_numpy(nan)
    assert Literal.from_numpy(nan) != Literal.from_numpy(other_nan)
    assert not Literal.from_numpy(np.float32(0)).equal(Literal.from_numpy(np.float32(-0.0)))
    assert not Literal.from_numpy(np.int32(0)).equal(Literal.from_numpy(np.float32(0)))
    sloppy = np.array([0xFF], np.uint8).view(ml_dtypes.int4)
    assert Literal.from_numpy(sloppy) == Literal.from_numpy([-1], parse_shape("s4[1]"))
    assert Literal.from_numpy((1,)) != Literal.from_numpy((2,))
    assert hash(Literal.from_numpy(nan)) == hash(Literal.from_numpy(nan))


def test_relayout_wants_a_compatible_shape() -> None:
    literal = Literal.from_numpy((ROWS, np.int32(1)))
    turned = literal.relayout(parse_shape("(f32[2,3]{0,1}, s32[])"))
    assert str(turned.shape) == "(f32[2,3]{0,1}, s32[])"
    assert turned.equal(literal)
    with pytest.raises(InvalidArgumentError, match=r"got \(f32.* and f32\[2,3\]"):
        literal.relayout(parse_shape("f32[2,3]"))


def test_only_arrays_have_a_value() -> None:
    for literal in (Literal.token(), Literal.from_numpy((1,))):
        with pytest.raises(InvalidArgumentError, match="only an array has a value"):
            _ = literal.value


def test_dynamic_sizes_stay_within_the_bounds() -> None:
    shape = parse_shape("f32[2,<=3]")
    flat = np.zeros(6, np.float32)
    literal = Literal.from_linear_memory(shape, flat, (2, 1))
    assert literal.relayout(parse_shape("f32[2,<=3]{0,1}")).dynamic_sizes == (2, 1)
    assert literal != Literal.from_linear_memory(shape, flat, (2, 2))
    for sizes in ((2, 4), (1, 1), (2,), (2, -1)):
        with pytest.raises(InvalidArgumentError, match="dynamic_sizes"):
            Literal.from_linear_memory(shape, flat, sizes)


def test_an_array_smaller_than_the_bounds_has_dynamic_sizes() -> None:
    literal = Literal.from_numpy(ROWS[:, :2], parse_shape("f32[2,<=3]"))
    assert literal.dynamic_sizes == (2, 2)
    np.testing.assert_array_equal(literal.actual, ROWS[:, :2])
    np.testing.assert_array_equal(literal.to_numpy(), ROWS[:, :2])
    np.testing.assert_array_equal(literal.value, np.pad(ROWS[:, :2], ((0, 0), (0, 1))))
    whole = Literal.from_numpy(ROWS, parse_shape("f32[2,<=3]"))
    np.testing.assert_array_equal(whole.actual, ROWS)
    for value in (ROWS[:1], np.zeros((2, 4), np.float32), ROWS[0]):
        with pytest.raises(InvalidArgumentError, match="must fit its shape, got an array of"):
            Literal.from_numpy(value, parse_shape("f32[2,<=3]"))


def test_literals_pickle() -> None:
    literal = Literal.from_numpy((ROWS, np.zeros(2, ml_dtypes.bfloat16), None))
    assert pickle.loads(pickle.dumps(literal)) == literal
