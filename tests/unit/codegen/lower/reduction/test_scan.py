from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from tests.building import scalars as combiner
from tests.processors import TARGET
from tests.unit.codegen.compiled import assert_same as on_cpu
from tests.unit.codegen.compiled import built
from tests.unit.codegen.from_jax import assert_same_as_jax
from xla_client import ops
from xla_client.programs.builder import Builder, Op
from xla_contract.types.shape import Shape
from xla_server.buffers.code import KernelThunk
from xla_server.codegen.lower.lowering import lower
from xla_server.codegen.lower.lowerings import LOWERINGS

Same = Callable[..., None]


def running(
    function: Callable[..., Op], dtype: Any, shape: tuple[int, ...], axis: int, behind: bool = False
) -> Callable[..., Op]:
    """A reduce-window over all before each position, or behind it."""
    reducer = combiner(function, dtype, dtype)
    window = [1] * len(shape)
    window[axis] = size = shape[axis]
    padding = [(0, 0)] * len(shape)
    padding[axis] = (0, size - 1) if behind else (size - 1, 0)
    ones = [1] * len(shape)
    return lambda a, initial: ops.reduce_window_with_general_padding(
        a, initial, reducer, window, ones, padding=padding
    )


@pytest.mark.parametrize(
    "dtype",
    ["b1", "i1", "i4", "u8", "f2", "f4", "f8", "c8", "c16", ml_dtypes.bfloat16, ml_dtypes.int4],
)
@pytest.mark.parametrize(
    ("shape", "axis"), [*(((2, 70, 3), axis) for axis in range(3)), ((2, 1100), 1)]
)
def test_sums_of_every_type(
    assert_same: Same, dtype: Any, shape: tuple[int, ...], axis: int
) -> None:
    x = np.random.default_rng(1).integers(0, 3, shape).astype(dtype)
    assert_same(running(ops.add, dtype, shape, axis), x, np.ones((), dtype))


@pytest.mark.parametrize(
    ("shape", "axis"),
    [
        *(((3, length), 1) for length in (2, 8, 9, 31, 33, 1024, 1025, 1281)),
        *(((2, length, 5), 1) for length in (2, 64, 65, 129, 500)),
        ((5000, 3), 0),
    ],
)
@pytest.mark.parametrize("behind", [False, True])
def test_every_length(assert_same: Same, shape: tuple[int, ...], axis: int, behind: bool) -> None:
    x = np.random.default_rng(2).integers(-9, 9, shape).astype(np.int32)
    assert_same(running(ops.add, "i4", shape, axis, behind), x, np.int32(5))


@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (2, 300, 3), (3, 2, 131), (1, 1), (40, 257)])
@pytest.mark.parametrize("behind", [False, True])
def test_every_dimension(shape: tuple[int, ...], behind: bool) -> None:
    x = np.random.default_rng(2).standard_normal(shape).astype(np.float32)
    for axis in range(len(shape)):
        on_cpu(running(ops.add, "f4", shape, axis, behind), x, np.float32(0.5))


@pytest.mark.parametrize("function", [ops.max, ops.min, ops.mul])
@pytest.mark.parametrize(("shape", "axis"), [((3, 1100), 1), ((150, 3), 0)])
def test_other_reducers(
    assert_same: Same, function: Callable[..., Op], shape: tuple[int, ...], axis: int
) -> None:
    # Products of powers of two, which are exact and no subnormal numbers.
    x = np.random.default_rng(3).choice(np.float32([0.5, -2, 1, -1, 0.25, 4]), shape)
    x[1, 2], x[2, 1] = np.nan, -np.inf
    x[0] = np.where(x[0] < 0, np.float32(-0.0), np.float32(0.0))
    start = {ops.max: -np.inf, ops.min: np.inf, ops.mul: 1}[function]
    for behind in (False, True):
        assert_same(running(function, "f4", shape, axis, behind), x, np.float32(start))


def test_a_reducer_that_is_not_known_keeps_its_order(assert_same: Same) -> None:
    x = np.random.default_rng(4).integers(-3, 3, (3, 20, 2)).astype(np.int32)

    def reducer(total: Op, element: Op) -> Op:
        return total * 3 - element

    for axis in (1, 2):
        for behind in (False, True):
            assert_same(running(reducer, "i4", x.shape, axis, behind), x, np.int32(7))


@pytest.mark.parametrize("axis", [0, 1])
def test_several_arrays_run_together(assert_same: Same, axis: int) -> None:
    def reducer(best: Op, position: Op, value: Op, number: Op) -> Op:
        keep = ops.ge(best, value)
        return ops.tuple([ops.select(keep, best, value), ops.select(keep, position, number)])

    largest = combiner(reducer, "f4", "i4", "f4", "i4")
    x = np.random.default_rng(5).integers(-5, 9, (12, 13)).astype(np.float32)
    positions = np.arange(x.size, dtype=np.int32).reshape(x.shape)
    window, padding = [1, 1], [(0, 0), (0, 0)]
    window[axis], padding[axis] = x.shape[axis], (x.shape[axis] - 1, 0)
    assert_same(
        lambda a, b, c, d: ops.reduce_window_with_general_padding(
            [a, b], [c, d], largest, window, [1, 1], padding=padding
        ),
        x,
        positions,
        np.float32(-99),
        np.int32(-1),
    )


def test_a_long_row_takes_one_pass() -> None:
    x = np.zeros((3, 100_000), np.float32)
    module = built(running(ops.add, "f4", x.shape, 1), (x, np.float32(0)))
    (kernel,) = [
        thunk for thunk in lower(module, LOWERINGS, TARGET).thunks if isinstance(thunk, KernelThunk)
    ]
    assert kernel.work * kernel.work_items <= 16 * x.size


def test_running_values_of_jax() -> None:
    x = np.random.default_rng(6).integers(-9, 9, (6, 40)).astype(np.float32)
    for axis in (0, 1):
        for reverse in (False, True):
            for function in (jax.lax.cumsum, jax.lax.cummax, jax.lax.cummin):
                assert_same_as_jax(lambda a, f=function: f(a, axis=axis, reverse=reverse), x)  # noqa: B023
    assert_same_as_jax(jnp.cumsum, x)
    assert_same_as_jax(lambda a: jnp.cumprod(a, axis=1), np.sign(x) + (x == 0))
    assert_same_as_jax(jax.grad(lambda a: (jnp.cumsum(a, axis=0) ** 2).sum()), x)
    assert_same_as_jax(lambda a: jnp.cumsum(jnp.abs(a) + 1, axis=1) * 2, x)


@pytest.mark.parametrize("size", [0, 1, 7])
@pytest.mark.parametrize("is_reverse", [False, True])
def test_a_scan_steps_over_slices(size: int, is_reverse: bool) -> None:
    builder = Builder("step")
    row, total = (builder.parameter(n, Shape.parse("f32[4]"), f"p{n}") for n in (0, 1))
    step = builder.build(ops.tuple([row * 2.0 - total, ops.max(total + row, row)]))
    x = np.random.default_rng(7).standard_normal((4, size)).astype(np.float32)
    on_cpu(lambda a, b: ops.scan(a, b, step, 1, is_reverse=is_reverse), x, np.ones(4, np.float32))
