"""The rule for values that are written down: `xla_client.coercion.literals`."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xla_client as xc
from xla_client import Builder, Literal, Shape
from xla_client.coercion import as_literal
from xla_contract.errors import ArgumentTypeError, InvalidArgumentError

RULE: list[tuple[Any, str]] = [
    (True, "pred[]"),
    (1, "s32[]"),
    (1.5, "f32[]"),
    (1j, "c64[]"),
    ([True, False], "pred[2]"),
    ([1, 2], "s32[2]"),
    ([1.5], "f32[1]"),
    ([[1, 2.5]], "f32[1,2]"),
    ([1, True], "s32[2]"),
    ([1.5, 1j], "c64[2]"),
    ([], "f32[0]"),
    (range(3), "s32[3]"),
    (-(1 << 31), "s32[]"),
    # numpy's values keep their type.
    (np.float64(1.5), "f64[]"),
    (np.array(1), "s64[]"),
    (np.zeros(2), "f64[2]"),
    (np.uint8(1), "u8[]"),
    (ml_dtypes.bfloat16(1), "bf16[]"),
    (np.zeros(2, ml_dtypes.float8_e5m2), "f8e5m2[2]"),
    ([np.float64(1), np.float64(2)], "f64[2]"),
    ([np.zeros(2, np.int8), np.ones(2, np.int8)], "s8[2,2]"),
    ([np.float16(1), 2], "f16[2]"),
]


@pytest.mark.parametrize(("value", "shape"), RULE, ids=lambda each: str(each)[:30])
def test_the_rule_is_the_same_everywhere(client: xc.Client, value: Any, shape: str) -> None:
    assert str(as_literal(value).shape.without_layout()) == shape
    assert str(Builder().constant(value).shape) == shape
    if not isinstance(value, list | range) or value:
        assert str(client.to_device(value).shape.without_layout()) == shape


def test_a_known_type_is_taken_by_numbers_of_python(client: xc.Client) -> None:
    builder = Builder("identity")
    run = client.compile(builder.build(builder.parameter(0, "f64[2]")))
    assert run.run([1, 2.5]).dtype == np.float64
    assert str(as_literal([1, 2], Shape.parse("bf16[2]")).shape) == "bf16[2]{0}"
    with pytest.raises(InvalidArgumentError, match=r"got elements of f32 for f64\[2\]"):
        run.run(np.zeros(2, np.float32))
    for value, shape, sentence in (
        (1.5, "s32[]", r"got 1\.5 \(float\) for s32\[\]"),
        ([1, 2j], "f32[2]", r"got \[1, 2j\] \(list\) for f32\[2\]"),
        (2, "pred[]", r"got 2 \(int\) for pred\[\]"),
        (1 << 40, "u8[]", r"for u8\[\], got int: u8 holds 0 to 255, got 1099511627776"),
        ([np.uint8(1), np.uint8(2)], "f32[3]", r"got an array of \[2\] for f32\[3\]"),
        ([np.uint8(1), np.uint8(2)], "pred[2]", r"got \[.*\] \(list\) for pred\[2\]"),
        ([1 << 63, 1], "u64[3]", r"got an array of \[2\] for u64\[3\]"),
    ):
        with pytest.raises(InvalidArgumentError, match=sentence):
            as_literal(value, Shape.parse(shape))


def test_the_error_of_a_shape_by_numpy_s_name_has_hlo_s() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        Builder().parameter(0, "float32[2,3]")
    assert caught.value.hint == "HLO's name of float32 is f32"


def test_tuples_nest_and_literals_stay() -> None:
    assert str(as_literal((1, (2.5, None))).shape) == "(s32[], (f32[], token[]))"
    literal = Literal.from_numpy(np.zeros(2))
    assert as_literal(literal) is literal
    assert str(Builder().constant((1, 2)).shape) == "s32[2]"
    with pytest.raises(
        InvalidArgumentError, match=r"got a list for \(s32\[\], s32\[\]\)"
    ) as caught:
        as_literal([1, 2], Shape.parse("(s32[], s32[])"))
    assert "tuple(values)" in caught.value.hint
    with pytest.raises(ArgumentTypeError, match=r"by Literal\.from_numpy, got \[1, 2\] \(list\)"):
        Literal([1, 2])  # type: ignore[arg-type]


def test_memory_is_shared_where_a_copy_is_not_wanted() -> None:
    array = np.zeros(3, np.float32)
    assert np.shares_memory(as_literal(array, copy=False).value, array)
    assert not np.shares_memory(as_literal(array).value, array)


@pytest.mark.parametrize(
    ("value", "error", "sentence"),
    [
        (1 << 31, InvalidArgumentError, "an int without a type must fit s32, got 2147483648"),
        ([0, -(1 << 40)], InvalidArgumentError, "must fit s32"),
        ([1 << 80], InvalidArgumentError, "must fit s32"),
        ("1", ArgumentTypeError, "a value must be a number or an array of numbers, got '1'"),
        ([None], ArgumentTypeError, r"got \[None\] \(list\)"),
        (object(), ArgumentTypeError, "a value must be a number"),
        ([[1], [1, 2]], InvalidArgumentError, "array of numbers, got list"),
        (np.array(["a"]), InvalidArgumentError, "no XLA element type stores numpy's <U1"),
    ],
)
def test_what_is_no_literal(value: Any, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        as_literal(value)


def test_a_tree_is_uploaded_array_by_array() -> None:
    with pytest.raises(ArgumentTypeError, match=r"got \{'w': 1\} \(dict\)") as caught:
        as_literal({"w": 1})
    assert "jax.tree.map" in caught.value.hint
