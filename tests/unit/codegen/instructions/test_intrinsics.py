"""Results of kernel instructions for special operands."""

import itertools
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest

from tests.unit.codegen.compiled import both
from xla_client import Op, ops
from xla_server.codegen.kernel import module_of
from xla_server.codegen.kernel_ir.builder import Body, Items
from xla_server.codegen.kernel_ir.expressions import Apply, Buffer, Const, Expression, Load, Usage
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.types import Type
from xla_server.target.machine import Machine

PAIRS = (
    *((1, 0), (-1, 0), (0, 0), (1, -0.0), (np.inf, 0), (np.inf, 1), (-np.inf, 1)),
    *((np.nan, 0), (-np.nan, 0), (np.nan, 1), (-np.nan, 1), (1, np.nan), (1, np.inf)),
)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_a_remainder_is_the_nan_that_xla_gives(dtype: Any) -> None:
    lhs, rhs = np.array(PAIRS).astype(dtype).T
    with jax.enable_x64(True):
        wanted = np.asarray(jax.jit(jax.lax.rem)(lhs, rhs)).astype(np.float64)
    for given in both(ops.rem, lhs, rhs)[0]:
        found = given.astype(np.float64)
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_extremes_of_zeros_and_of_nan_are_those_of_xla(name: str, dtype: Any) -> None:
    numbers = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, -np.nan]
    # Vectors take most of these and leave some.
    lhs, rhs = np.array(3 * list(itertools.product(numbers, numbers))).astype(dtype).T
    with jax.enable_x64(True):
        wanted = np.asarray(jax.jit(getattr(jax.lax, name))(lhs, rhs)).astype(np.float64)
    signs = np.where(np.isnan(wanted), False, np.signbit(wanted))
    for given in both(getattr(ops, name), lhs, rhs)[0]:
        found = given.astype(np.float64)
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(found) & ~np.isnan(found), signs)


@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_a_maximum_with_a_sum_that_is_never_minus_zero_is_that_of_xla(
    is_first: bool, dtype: Any
) -> None:
    numbers = [0.0, -0.0, -0.5, 0.5, 1.0, -1.0, np.inf, -np.inf, np.nan, -np.nan]
    lhs, rhs = np.array(3 * list(itertools.product(numbers, numbers))).astype(dtype).T

    def larger(x: Op, y: Op) -> Op:
        half, minus_one = (x.builder.constant(np.array(c, dtype)) for c in (0.5, -1))
        pair = x * minus_one, y + half
        return ops.max(*pair[::-1] if is_first else pair)

    left, right = -lhs.astype(np.float64), rhs.astype(np.float64) + 0.5
    wanted = np.where((left == 0) & (right == 0), 0.0, np.maximum(left, right))
    is_number = ~np.isnan(wanted)
    for given in both(larger, lhs, rhs)[0]:
        found = given.astype(np.float64)
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(found)[is_number], np.signbit(wanted)[is_number])


X, Y, RESULT = (
    Buffer(number, usage) for number, usage in enumerate((Usage.READ, Usage.READ, Usage.WRITE))
)


@pytest.mark.parametrize(
    ("machine", "addend", "factor", "is_short"),
    [
        (Machine.avx2(cores=2), 0.5, 2.0, True),
        (Machine.avx512(cores=2), -0.5, 2.0, True),
        (Machine.neon(cores=2), 0.5, 2.0, False),  # Has an instruction for it.
        (Machine.avx2(cores=2), 0.0, 2.0, False),  # May be -0.
        (Machine.avx2(cores=2), 1e-30, 2.0, False),  # Differences may be flushed to -0.
        (Machine.avx2(cores=2), 0.5, None, False),  # May be subnormal.
    ],
)
def test_a_maximum_is_short_where_no_operand_is_minus_zero_or_subnormal(
    machine: Machine, addend: float, factor: float | None, is_short: bool
) -> None:
    top, form = Body(), Type("f32")

    def number(value: float) -> Const:
        return Const(form, (np.float32(value).view(np.uint32).item(),))

    with Items(top, 4096) as items:
        other: Expression = Load(X, form, items.axis)
        if factor is not None:
            other = Apply("mul", (other, number(factor)), form)
        total = Apply("add", (Load(Y, form, items.axis), number(addend)), form)
        items.store(RESULT, "f32", items.axis, Apply("maximum", (other, total), form))
    text = str(module_of(Kernel((X, Y, RESULT), (), tuple(top.statements)), "kernel", machine))
    assert ("fcmp uno" in text, "llvm.maximum" in text) == (is_short, not is_short)
