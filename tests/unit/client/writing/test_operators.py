"""Operators and methods of Ops, against numpy's."""

import functools
import operator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xla_client as xc
from tests.unit.client.writing.running import run
from xla_client import Builder, ops
from xla_client.programs.arguments.familiar_names import FAMILIAR_NAMES
from xla_contract.errors import ArgumentTypeError, ShapeError

X = np.float32([[1.5, -2, 3], [-0.5, 4, -7.25]])
N = np.int32([7, -7, 8, -8, 0, 5])
D = np.int32([2, 2, -3, -3, 4, -5])


def check(results: Any, expected: Any) -> None:
    for number, (result, wanted) in enumerate(zip(results, expected, strict=True)):
        np.testing.assert_allclose(result, wanted, rtol=1e-6, err_msg=str(number))


def test_integers(client: xc.Client) -> None:
    binary = [
        operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.and_,
        operator.or_, operator.xor,
    ]  # fmt: skip
    reflected = [*binary[:3], operator.and_, operator.or_, operator.xor]

    def write(b: Builder, n: xc.Op, d: xc.Op) -> Any:
        return (
            *(each(n, d) for each in binary),
            *(each(n, 3) for each in binary),
            *(each(n, -3) for each in binary),
            *(each(np.int32(3), n) for each in reflected),
            *(each(3, n) for each in reflected),
            3 // d, -7 % d, *divmod(n, d), *divmod(100, d),
            ~n, -n, +n, abs(n), n << 2, n >> 1, 1 << abs(n), abs(n) ** 2,
        )  # fmt: skip

    n, d = N, D
    expected = [
        *(each(n, d) for each in binary),
        *(each(n, 3) for each in binary),
        *(each(n, -3) for each in binary),
        *(each(3, n) for each in reflected),
        *(each(3, n) for each in reflected),
        3 // d, -7 % d, *divmod(n, d), *divmod(100, d),
        ~n, -n, +n, abs(n), n << 2, n >> 1, 1 << abs(n), abs(n) ** 2,
    ]  # fmt: skip
    check(run(client, write, N, D), expected)


def test_unsigned_integers_shift_in_zeros_and_divide_at_once(client: xc.Client) -> None:
    u = np.uint8([200, 7, 255])
    check(
        run(client, lambda b, x: [x >> 1, x // 7, x % 7, 100 // x], u),
        [u >> 1, u // 7, u % 7, 100 // u],
    )
    builder = Builder("program")
    x = builder.parameter(0, "u8[3]")
    assert (x // 7).name.startswith("divide")
    assert (x % 7).name.startswith("remainder")


def test_floor_division_of_floats_is_that_of_numpy(client: xc.Client) -> None:
    values = np.float32([5, -5, 5.5, -5.5, 1, 0.3, 7, -7, 1e9])
    divisors = np.float32([3, 3, -3, -3, 0.1, 0.1, np.inf, np.inf, 0.7])

    def write(b: Builder, x: xc.Op, y: xc.Op) -> Any:
        return x // y, x % y, x // 2.5, x % 2.5, x // -2.5, x % -2.5, 7.5 // y, x // (y * 0)

    with np.errstate(all="ignore"):
        x, y = values, divisors
        expected = [
            x // y, x % y, x // np.float32(2.5), x % np.float32(2.5), x // np.float32(-2.5),
            x % np.float32(-2.5), np.float32(7.5) // y, x // (y * 0),
        ]  # fmt: skip
    results = run(client, write, values, divisors)
    check(results[:-1], expected[:-1])
    np.testing.assert_array_equal(results[-1], expected[-1])


def test_methods(client: xc.Client) -> None:
    def write(b: Builder, x: xc.Op) -> Any:
        return (
            x.sum(), x.sum(0), x.sum((-1,)), x.mean(), x.mean(1), x.max(), x.min(0), x.prod(1),
            x.gt(0).any(0), x.gt(-100).all(), x.T, x.transpose(), x.transpose(1, 0),
            x.transpose((0, 1)), x.reshape(3, 2), x.reshape(-1), x.reshape((3, -1)),
            x.astype(np.int32), x.astype("f64"), x @ x.T, x @ x[0], round(x), x.eq(3), x.ne(3),
            x.lt(0), x.le(0), x.ge(3.0), np.float32(2) * x, x ** 2, 2 ** x, x / 2, 1 / x,
        )  # fmt: skip

    x = X
    expected = [
        x.sum(), x.sum(0), x.sum(-1), x.mean(), x.mean(1), x.max(), x.min(0), x.prod(1),
        (x > 0).any(0), True, x.T, x.T, x.T, x, x.reshape(3, 2), x.reshape(-1), x.reshape(3, 2),
        x.astype(np.int32), x, x @ x.T, x @ x[0], np.round(x), x == 3, x != 3,
        x < 0, x <= 0, x >= 3, 2 * x, x ** 2, np.float32(2) ** x, x / 2, 1 / x,
    ]  # fmt: skip
    check(run(client, write, X), expected)


def test_properties() -> None:
    builder = Builder("program")
    x = builder.parameter(0, "bf16[2,3]")
    assert (x.ndim, x.size, x.element_type.text, x.dtype.name) == (2, 6, "bf16", "bfloat16")
    pair = ops.tuple(x, 1.5)
    first, second = pair
    assert (len(pair), first.name, str(second.shape)) == (2, x.name, "f32[]")


def test_methods_are_the_functions() -> None:
    """Methods make the same instructions as the functions of ops, which have the logic."""
    builder = Builder("program")
    x = builder.parameter(0, "f32[2,3]")
    for method, function in (
        (x.lt(1.0), ops.lt(x, 1.0)),
        (x.reshape(6), ops.reshape(x, 6)),
        (x.T, ops.transpose(x, (1, 0))),
        (x.sum(0), xc.lib.arithmetic.sum(x, 0)),
        (x @ x.T, ops.matmul(x, x.T)),
    ):
        assert method.shape == function.shape
        assert method.name.partition(".")[0] == function.name.partition(".")[0]


def test_no_rank_is_promoted() -> None:
    builder = Builder("program")
    x, v = builder.parameter(0, "f32[2,3]"), builder.parameter(1, "f32[3]")
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
        with pytest.raises(ShapeError, match="different rank"):
            getattr(operator, name)(x, v)
    with pytest.raises(ShapeError, match="different rank"):
        x.lt(v)


def test_two_numbers_to_select_from_are_of_the_wider_type() -> None:
    x = Builder("program").parameter(0, "f32[3]")
    one, two = ml_dtypes.bfloat16(1), ml_dtypes.bfloat16(2)
    pairs: list[tuple[Any, Any, str]] = [(1, 0, "s32"), (1.0, 0, "f32"), (0, np.int8(1), "s8")]
    pairs += [(one, two, "bf16"), (one, 2.0, "bf16"), (np.uint64(1), 2, "u64")]
    for on_true, on_false, element_type in pairs:
        assert ops.select(x.gt(0), on_true, on_false).element_type.text == element_type


def test_unknown_attributes_say_where_operations_are() -> None:
    x = Builder("program").parameter(0, "f32[3]")
    with pytest.raises(AttributeError, match=r"an Op has no attribute 'tanh'; .*ops.tanh"):
        x.tanh()
    with pytest.raises(AttributeError, match=r"functions of xla_client.ops and xla_client.lib"):
        x.nothing()
    with pytest.raises(AttributeError, match=r"'flatten'; the operation is ops\.reshape"):
        x.flatten()
    with pytest.raises(AttributeError, match=r"attribute 'where'; the operation is ops\.select"):
        _ = ops.where
    with pytest.raises(AttributeError, match=r"'xla_client.ops' has no attribute 'nothing'$"):
        _ = ops.nothing
    assert not hasattr(x, "__array_interface__")


def test_familiar_names_are_those_of_no_operation_and_lead_to_one() -> None:
    assert not set(FAMILIAR_NAMES) & set(ops.__all__)
    for place in FAMILIAR_NAMES.values():
        owner, *names = place.split(".")
        assert callable(functools.reduce(getattr, names, getattr(xc, owner))), place


def test_numpy_functions_of_ops() -> None:
    x = Builder("program").parameter(0, "f32[3]")
    assert np.multiply(x, np.float32(2)).name.startswith("multiply")
    for function, place in (
        (np.exp, r"ops\.exp\)"),
        (np.negative, r"ops\.neg\)"),
        (np.maximum.reduce, "in xla_client"),
    ):
        with pytest.raises(
            ArgumentTypeError, match=rf"numpy's \w+ \(the function of Ops is {place}"
        ):
            function(x)
    with pytest.raises(ArgumentTypeError, match=r"ops.lt\(x, y\) or x.lt\(y\)"):
        np.float32(1) < x  # noqa: B015
