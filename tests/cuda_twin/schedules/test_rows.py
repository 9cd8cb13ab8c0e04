"""Reductions as kernels for a GPU, of rows most of all, beside the interpreter and the walker."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.conformance.oracle import assert_equal_bits
from tests.corpus.jax.programs import lower
from tests.cuda_twin.device.twin import Twin
from tests.cuda_twin.programs import kernel_of, on_twin, rows_of, schedule_of
from tests.example_platform.walker import run
from tests.unit.codegen.compiled import imported, interpreted
from xla_server.codegen.gpu.grid import GridKernel
from xla_server.codegen.gpu.schedules.threads import RUN
from xla_server.codegen.kernel_ir.expressions import (
    Buffer,
    Expression,
    Index,
    Load,
    Remainder,
    Usage,
    Value,
    condition,
)
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import If, Let, ParallelFor, Shuffle, Store
from xla_server.codegen.kernel_ir.types import Type
from xla_server.ir.module import HloModule
from xla_server.target.gpu.properties import MAX_WARP_ROW, WARP

LENGTHS = (2, 5, 31, 32, 33, 128, 300, 1027, MAX_WARP_ROW)
"""Rows of less than a run, of less than a warp, of whole runs and turns and of none."""

LONG = (MAX_WARP_ROW + 1, 1040, 2048, 4100, 9001, 20000)
"""Rows of one element for each run and of more, of whole turns and of none, of many turns."""

HEIGHTS = (2, 7, RUN, RUN + 1, 3 * RUN, 1000)
"""Columns of one run, of whole runs, and of a last run that is shorter."""

ITEM = Value("t", Type.I64)


def numbers(dtype: Any, *dimensions: int) -> Any:
    drawn = np.random.default_rng(dimensions[-1]).standard_normal(dimensions) * 3
    return np.array(jnp.asarray(drawn > 0 if dtype == "bool" else drawn, dtype))


def module_of(function: Callable[..., Any], *arguments: Any) -> HloModule:
    return imported(lower(function, *arguments))


APART = {
    "every other element": ("rows", lambda x: jnp.sum(x[:, ::2], axis=1), (3, 500)),
    "every third, in a block": ("blocks", lambda x: jnp.sum(x[:, ::3], axis=1), (2, 9001)),
    "backwards, of both dimensions": ("rows", lambda x: jnp.sum(x[:, ::-1] * x), (3, 341)),
    "of dimensions that another is between": (
        "rows",
        lambda x: jnp.sum(x, axis=(0, 2)),
        (5, 3, 60),
    ),
    "short, of several dimensions": ("threads", lambda x: jnp.sum(x, axis=(0, 2)), (3, 2, 5)),
    "columns that are apart": ("columns", lambda x: jnp.sum(x[:, ::2], axis=0), (300, 20)),
}
"""Schedules of reductions of elements that are not neighbours in memory."""


@pytest.mark.parametrize("name", APART)
def test_elements_that_are_apart_are_divided_among_threads(name: str) -> None:
    schedule, function, sizes = APART[name]
    x = numbers("float32", *sizes)
    module = module_of(function, x)
    assert schedule_of(module) == schedule
    (ours,), (expected,) = on_twin(module, [x]), interpreted(module, [x])
    assert_equal_bits(ours, walked(module, x))
    np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-4)


def both(function: Callable[..., Any], *arguments: Any) -> tuple[Any, Any]:
    module = module_of(function, *arguments)
    (ours,), (expected,) = on_twin(module, arguments), interpreted(module, arguments)
    return ours, expected


def normalised(x: Any) -> Any:
    """Layer normalisation of rows, without scales."""
    mean = jnp.mean(x, axis=-1, keepdims=True)
    spread = jnp.mean((x - mean) ** 2, axis=-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(spread + 1e-5)


def walked(module: HloModule, argument: Any) -> Any:
    """Return the result of a kernel by the meaning of its statements."""
    (row,) = rows_of(module)
    kernel = kernel_of(module, row).kernel
    result = np.empty(row.shape.dimensions, row.shape.element_type.dtype)
    buffers = [each.reshape(-1).view(np.uint8) for each in (argument, result)]
    run(kernel, buffers, 0, kernel.items)
    return result


@pytest.mark.parametrize(
    ("sizes", "axis"),
    [
        *(((7, length), 1) for length in LENGTHS),
        *(((3, length), 1) for length in LONG),
        *(((height, 45), 0) for height in HEIGHTS),
    ],
)
def test_sums_are_near_and_maxima_exact(sizes: tuple[int, ...], axis: int) -> None:
    x = numbers("float32", *sizes)
    assert_equal_bits(*both(lambda x: jnp.max(x, axis=axis), x))
    ours, expected = both(lambda x: jnp.sum(jnp.abs(x), axis=axis), x)
    np.testing.assert_allclose(ours, expected, rtol=2e-6 if axis else 4e-6)


@pytest.mark.parametrize(
    ("sizes", "axis"),
    [
        *(((3, length), 1) for length in (5, 33, 300)),
        *(((2, length), 1) for length in (1025, 2048)),
        *(((height, 40), 0) for height in (7, 2 * RUN + 5)),
    ],
)
def test_sums_have_the_order_that_the_ir_says(sizes: tuple[int, ...], axis: int) -> None:
    x = numbers("float32", *sizes)
    module = module_of(lambda x: jnp.sum(x, axis=axis), x)
    (ours,) = on_twin(module, [x])
    assert_equal_bits(ours, walked(module, x))


@pytest.mark.parametrize(
    ("sizes", "axis"), [((5, 3), 1), ((5, 40), 1), ((5, 300), 1), ((3, 1300), 1), ((100, 33), 0)]
)
@pytest.mark.parametrize(
    ("dtype", "reduced"),
    [
        *(("bool", jnp.any), ("bool", jnp.all), ("int8", jnp.max), ("uint8", jnp.min)),
        *(("int32", jnp.sum), ("int64", jnp.sum), ("int32", jnp.prod), ("float16", jnp.min)),
        *(("bfloat16", jnp.max), ("bfloat16", jnp.min), ("float64", jnp.max)),
    ],
)
def test_exact_reductions_of_other_types(
    dtype: str, reduced: Callable[..., Any], sizes: tuple[int, ...], axis: int
) -> None:
    with jax.enable_x64(True):
        assert_equal_bits(*both(lambda x: reduced(x, axis=axis), numbers(dtype, *sizes)))


@pytest.mark.parametrize("length", [100, 1100])
def test_nan_and_both_zeros_go_through_maxima(length: int) -> None:
    x = numbers("float32", 4, length)
    x[0, length - 23], x[1], x[2] = np.nan, -0.0, -np.inf
    x[1, 50] = 0.0
    assert_equal_bits(*both(lambda x: jnp.max(x, axis=1), x))


@pytest.mark.parametrize(
    "sizes", [*((3, 2, n) for n in (6, 33, 300, 1024)), *((2, n) for n in (1500, 5000, 20000))]
)
def test_rows_are_one_kernel_with_what_is_reduced_over_them(sizes: tuple[int, ...]) -> None:
    x = numbers("float32", *sizes)
    for function in (lambda x: jax.nn.softmax(x, axis=-1), normalised):
        if sizes[-1] > MAX_WARP_ROW:
            assert schedule_of(module_of(function, x)) == "blocks"
        ours, expected = both(function, x)
        np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("count", [1000, 3000])
def test_all_elements_are_one_row(count: int) -> None:
    x = numbers("float32", count)
    ours, expected = both(lambda x: jnp.sum(jnp.abs(x)), x)
    np.testing.assert_allclose(ours, expected, rtol=1e-5)
    assert_equal_bits(*both(lambda x: x - jnp.max(x), x))


@pytest.mark.parametrize(
    ("length", "threads"), [(2, 1), (4, 1), (5, 8), (24, 8), (32, 8), (33, 32)]
)
def test_a_row_has_a_lane_for_each_access(length: int, threads: int) -> None:
    module = module_of(lambda x: jnp.sum(x, axis=1), numbers("float32", 100, length))
    (row,) = rows_of(module)
    items = kernel_of(module, row).kernel.items
    assert items == -(-100 * threads // WARP) * WARP if threads > 1 else items == 100


@pytest.mark.parametrize("length", [3, 5, 16, 24])
@pytest.mark.parametrize("rows", [1, 3, 33])
def test_short_rows_share_a_warp(rows: int, length: int) -> None:
    x = numbers("float32", rows, length)
    assert_equal_bits(*both(lambda x: jnp.max(x, axis=1), x))
    ours, expected = both(lambda x: jax.nn.softmax(x, axis=1), x)
    np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-6)
    assert_equal_bits(ours, walked(module_of(lambda x: jax.nn.softmax(x, axis=1), x), x))


def test_nests_have_the_schedules_that_they_fit() -> None:
    square = numbers("float32", 64, 64)
    for function, x, name in (
        (lambda x: jnp.sum(x, axis=1), square, "rows"),
        (jnp.sum, square, "blocks"),
        (lambda x: jnp.max(x, axis=1), np.zeros((2, MAX_WARP_ROW + 1), np.float32), "blocks"),
        (lambda x: jnp.sum(x, axis=0), square, "columns"),
        (lambda x: jnp.sum(x, axis=0), square[:20], "threads"),
        (lambda x: x / jnp.sum(x, axis=0), square[:20], "columns"),
        (lambda x: jnp.prod(x.astype(np.int32), axis=1), square, "threads"),
        (lambda x: jnp.sum(x, axis=(0, 2)), square.reshape(4, 16, 64), "rows"),
        (lambda x: x + 1, square, "elements"),
        (lambda x: x.T, square, "transposes"),
        (lambda x: x.T, square[:15], "elements"),
        (lambda x: x + x.T, square, "transposes"),
    ):
        assert schedule_of(module_of(function, x)) == name


def moved(kind: Type, dtype: Any, distance: int) -> tuple[Any, Any]:
    """Return what the lanes of two warps have and, by the kernel, those at a distance."""
    given, made = Buffer(0, Usage.READ), Buffer(1, Usage.WRITE)
    value, found = Value("v", kind), Value("w", kind)
    load = Let(value, Load(given, kind, ITEM))
    body = load, Shuffle(found, value, distance), Store(made, kind, ITEM, found)
    kernel = Kernel((given, made), (), (ParallelFor(ITEM, 64, body, group=WARP),))
    bits = np.random.default_rng(1).integers(0, 256, 64 * np.dtype(dtype).itemsize, np.uint8)
    x = (bits & 1 if kind is Type.B1 else bits).view(dtype)
    (ours,) = Twin({"k": GridKernel(kernel, 64)}).run("k", [x], [(dtype, (64,))])
    return x, ours


@pytest.mark.parametrize("distance", [1, 16])
@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        (Type.B1, np.bool_),
        (Type.I8, np.int8),
        (Type.U16, np.uint16),
        (Type.I32, np.int32),
        (Type.F32, np.float32),
        (Type.U64, np.uint64),
        (Type.F64, np.float64),
        (Type.C64, np.complex64),
        (Type.C128, np.complex128),
    ],
)
def test_lanes_exchange_values_of_every_type(kind: Type, dtype: Any, distance: int) -> None:
    x, ours = moved(kind, dtype, distance)
    assert ours.tobytes() == x[np.arange(64) ^ distance].tobytes()


def test_a_lane_that_misses_an_exchange_is_found() -> None:
    lane: Expression = Remainder(Index(0, ((ITEM, 1),)), WARP)
    given = Buffer(0, Usage.READ)
    value, found = Value("v", Type.F32), Value("w", Type.F32)
    load = Let(value, Load(given, Type.F32, ITEM))
    exchange = If(condition("eq", lane, 0), (Shuffle(found, value, 1),))
    kernel = Kernel((given,), (), (ParallelFor(ITEM, 32, (load, exchange), group=WARP),))
    with pytest.raises(AssertionError, match="a thread missed an exchange of its warp"):
        Twin({"k": GridKernel(kernel, 32)}).run("k", [np.zeros(32, np.float32)], [])
