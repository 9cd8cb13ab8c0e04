"""Convolutions of the cpu platform beside the interpreter's and JAX's."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jax import lax

from tests.conformance.oracle import assert_equal_bits
from tests.conformance.sweep.draws.depth import FULL
from tests.processors import HOST, TARGET, tuned
from tests.unit.codegen.compiled import CPU, both, built, imported, interpreted, on_cpu
from xla_client import ops
from xla_client.programs.builder import Op
from xla_contract.types.dimension_numbers import ConvolutionDimensionNumbers, WindowDimension
from xla_server.backends.compiled.cpu import Cpu
from xla_server.buffers.code import KernelThunk
from xla_server.codegen.lower.lowering import lower
from xla_server.codegen.lower.lowerings import LOWERINGS
from xla_server.target.capability import Capability
from xla_server.target.target import Target

SMALL = Cpu(target=tuned(TARGET, "convolutions", min_products=0))
"""A platform that has no convolution too small for routines."""

BY_PRODUCTS = Cpu(
    target=tuned(
        TARGET,
        "convolutions",
        min_products=0,
        min_group_size=1,
        im2col_rows=16,
        im2col_elements=16,
        min_im2col_depth=5,
    )
)
"""The same, with blocks of few rows and elements."""


class TransposesAlways(Capability):
    """The kernels of a processor, for which transposing always pays off."""

    MIN_TAPS = 0


INTEGERS = (np.dtype(np.int32), np.dtype(np.uint8), np.dtype(ml_dtypes.int4))
FLOATS = tuple(
    map(np.dtype, (np.float32, np.float64, np.complex64, np.float16, ml_dtypes.bfloat16))
)


def drawn(random: np.random.Generator, shape: tuple[int, ...], dtype: "np.dtype[Any]") -> Any:
    """Numbers whose sums of products are exact in every float type of 32 bits or more."""
    numbers = random.integers(-4, 4, shape)
    if dtype.kind == "c":
        return (numbers + 1j * random.integers(-4, 4, shape)).astype(dtype)
    return np.abs(numbers).astype(dtype) if dtype.kind == "u" else numbers.astype(dtype)


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[dict[str, Any], tuple[int, ...], tuple[int, ...]]:
    """Attributes, the input's shape and the kernel's."""
    spatial = draw(st.integers(0, 3))
    small = st.integers(1, 3)
    window = [
        WindowDimension(
            draw(small),
            draw(small),
            draw(st.integers(-1, 3)),
            draw(st.integers(-1, 3)),
            draw(small),
            draw(small),
            draw(st.booleans()),
        )
        for _ in range(spatial)
    ]
    by_feature, by_batch = draw(st.sampled_from([(1, 1), (1, 1), (2, 1), (3, 1), (1, 2)]))
    batch, outputs = draw(small) * by_batch, draw(st.sampled_from([1, 2, 5])) * by_feature
    outputs *= by_batch
    inputs = draw(st.sampled_from([1, 2, 4]))
    orders = [draw(st.permutations(range(spatial + 2))) for _ in range(3)]
    parts: list[Any] = [part for order in orders for part in (order[0], order[1], tuple(order[2:]))]
    numbers = ConvolutionDimensionNumbers(*parts)
    base = [0] * (spatial + 2)
    kernel = [0] * (spatial + 2)
    sizes = [draw(st.integers(2, 7)) for _ in range(spatial)]
    for d, size in zip(orders[0], (batch, inputs * by_feature, *sizes), strict=True):
        base[d] = size
    for d, size in zip(orders[1], (inputs, outputs, *(w.size for w in window)), strict=True):
        kernel[d] = size
    attributes = {
        "window_strides": [w.stride for w in window],
        "padding": [(w.padding_low, w.padding_high) for w in window],
        "lhs_dilation": [w.base_dilation for w in window],
        "rhs_dilation": [w.window_dilation for w in window],
        "dimension_numbers": numbers,
        "feature_group_count": by_feature,
        "batch_group_count": by_batch,
        "window_reversal": [w.window_reversal for w in window],
    }
    return attributes, tuple(base), tuple(kernel)


drawn_attributes = settings(
    max_examples=12 if FULL else 4,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS], ids=str)
@drawn_attributes
@given(case=convolutions(), seed=st.integers(0, 9))
def test_any_attributes_as_loops(dtype: "np.dtype[Any]", case: Any, seed: int) -> None:
    compare(dtype, case, seed)


@pytest.mark.parametrize("dtype", [np.float32, np.complex64], ids=str)
@settings(drawn_attributes, max_examples=30 if FULL else 6)
@given(case=convolutions(), seed=st.integers(0, 9))
def test_any_attributes_as_products(dtype: Any, case: Any, seed: int) -> None:
    compare(np.dtype(dtype), case, seed, BY_PRODUCTS)


def compare(dtype: "np.dtype[Any]", case: Any, seed: int, cpu: Cpu = CPU) -> None:
    """Compiled and interpreted results of a convolution with drawn attributes agree."""
    attributes, base, kernel = case
    random = np.random.default_rng(seed)
    x, w = drawn(random, base, dtype), drawn(random, kernel, dtype)
    pairs = both(lambda a, b: ops.conv_general_dilated(a, b, **attributes), x, w, cpu=cpu)
    for compiled, expected in pairs:
        # Sums are exact, and a rounding follows that both do.
        if dtype.kind in "fc":
            np.testing.assert_array_equal(compiled, expected)
        else:
            assert_equal_bits(compiled, expected)


SIGNS: dict[str, dict[str, Any]] = {
    "pointwise": {},
    "strided": {"window_strides": [2]},
    "padded": {"padding": [(1, 2)]},
    "cut off": {"padding": [(-1, 0)]},
    "holes": {"lhs_dilation": [3]},
    "holes cut off": {"lhs_dilation": [2], "padding": [(-1, -1)]},
}
"""Attributes of a convolution of zeros whose results may be -0."""


@pytest.mark.parametrize("dtype", [d for d in FLOATS if d.kind != "c"], ids=str)
@pytest.mark.parametrize("name", SIGNS)
@pytest.mark.parametrize("filters", [[[1.0], [-1.0], [-np.inf]], [[-1.0, -1.0], [np.inf, 1.0]]])
def test_zeros_have_the_signs_that_xla_gives_them(
    dtype: "np.dtype[Any]", name: str, filters: list[list[float]]
) -> None:
    attributes: dict[str, Any] = {
        "window_strides": [1],
        "padding": [(0, 0)],
        "lhs_dilation": [1],
        "rhs_dilation": [1],
    } | SIGNS[name]
    x = np.array([[[-0.0, 0.0, -0.0, 1.0, -0.0]]], dtype)
    numbers = "bf0_oi0->bf0"
    reference = jax.jit(lambda a, b: lax.conv_general_dilated(a, b, **attributes))
    for weights in filters:
        w = np.array([[weights]], dtype)
        with jax.enable_x64(True):
            wanted = np.asarray(reference(x, w))
        is_zero = wanted == 0
        for compiled, expected in both(
            lambda a, b: ops.conv_general_dilated(a, b, dimension_numbers=numbers, **attributes),
            *(x, w),
        ):
            assert_equal_bits(compiled, expected)
            np.testing.assert_array_equal(np.asarray(compiled) == 0, is_zero)
            signs = np.signbit(compiled)[is_zero]
            np.testing.assert_array_equal(signs, np.signbit(wanted)[is_zero])


def test_complex_sums_of_zeros_are_positive() -> None:
    random, numbers = np.random.default_rng(0), np.array([0.0, -0.0, 1.0, -1.0], np.float32)
    x = random.choice(numbers, (2, 3, 6, 12)).view(np.complex64)
    w = random.choice(numbers, (8, 3, 1, 2)).view(np.complex64)
    for results in both(lambda a, b: ops.conv(a, b, [1, 1], "valid"), x, w, cpu=SMALL):
        for part in results:
            parts = np.array([part.real, part.imag])
            assert not np.signbit(parts[parts == 0]).any()


def test_padding_takes_no_part_beside_infinity() -> None:
    x, w = np.ones((1, 1, 3), np.float32), np.full((1, 1, 3), np.inf, np.float32)
    for compiled, expected in both(lambda a, b: ops.conv(a, b, [1], "same"), x, w):
        assert np.isposinf(expected).all()
        assert_equal_bits(compiled, expected)


def test_padding_takes_no_part_feature_by_feature() -> None:
    x, w = np.ones((1, 6, 16), np.float32), np.ones((5, 1, 16), np.float32)
    w[0, 0, 3] = np.inf
    numbers = ConvolutionDimensionNumbers(0, 2, (1,), 1, 2, (0,), 0, 2, (1,))

    def convolve(x: Op, w: Op) -> Op:
        return ops.conv_general_dilated(
            x, w, (1,), [(2, 2)], **UNDILATED, dimension_numbers=numbers, feature_group_count=16
        )

    for compiled, expected in both(convolve, x, w, cpu=SMALL):
        assert not np.isnan(expected).any()
        assert np.isposinf(expected).sum() == 4
        assert_equal_bits(compiled, expected)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    ("base", "kernel", "padding", "groups"),
    [
        ((2, 1), (3, 1), [], 1),
        ((1, 1, 4), (2, 1, 1), [(0, 0)], 1),
        ((1, 2, 4), (4, 1, 1), [(1, 2)], 2),
        ((64, 1, 32), (64, 1, 1), [(0, 0)], 1),
    ],
)
def test_a_sum_of_one_product_is_that_product_where_nothing_is_padded(
    dtype: "np.dtype[Any]", base: Any, kernel: Any, padding: Any, groups: int
) -> None:
    x, w = -np.ones(base, dtype), np.zeros(kernel, dtype)

    def scaled(a: Op, b: Op) -> Op:
        ones, spatial = [1] * len(padding), tuple(range(2, len(base)))
        numbers = ConvolutionDimensionNumbers(0, 1, spatial, 1, 0, spatial, 0, 1, spatial)
        return ops.conv_general_dilated(a, b, ones, padding, ones, ones, numbers, groups)

    for compiled, expected in both(scaled, x, w):
        if dtype.kind != "c":
            signs = np.signbit(expected.astype(np.float32))
            assert signs.any() == signs.all() == (padding != [(1, 2)])
        assert_equal_bits(compiled, expected)


def agrees(
    function: Callable[..., Any], *arguments: Any, rtol: float = 2e-5, cpu: Cpu = CPU
) -> None:
    """The cpu platform gives what JAX does for a program."""
    program = jax.jit(function)
    computation: Any = program.lower(*arguments).compiler_ir("hlo")
    module = computation.as_serialized_hlo_module_proto()
    results = on_cpu(imported(module), arguments, cpu)
    for ours, theirs in zip(results, jax.tree.leaves(program(*arguments)), strict=True):
        wide = np.asarray(theirs).astype(np.float64)
        atol = rtol * float(np.abs(wide).max(initial=0))
        np.testing.assert_allclose(np.asarray(ours).astype(np.float64), wide, rtol, atol)


def normal(*shape: int, dtype: Any = np.float32) -> Any:
    """The same numbers for the same shape."""
    return np.random.default_rng(len(shape) + sum(shape)).normal(size=shape).astype(dtype)


NHWC = ("NHWC", "HWIO", "NHWC")
NCHW = ("NCHW", "OIHW", "NCHW")
PROGRAMS: dict[str, tuple[Any, ...]] = {
    "same": (normal(2, 9, 8, 5), normal(3, 3, 5, 7), (1, 1), "SAME", NHWC, {}),
    "valid-strided": (normal(2, 11, 8, 3), normal(7, 5, 3, 8), (2, 2), "VALID", NHWC, {}),
    "same-strided-nchw": (normal(2, 4, 12, 13), normal(6, 4, 3, 3), (2, 2), "SAME", NCHW, {}),
    "same-nchw": (normal(2, 4, 12, 13), normal(6, 4, 3, 3), (1, 1), "SAME", NCHW, {}),
    "explicit": (normal(2, 9, 8, 5), normal(3, 2, 5, 7), (2, 1), [(-1, 3), (2, 0)], NHWC, {}),
    "pointwise": (normal(2, 6, 5, 8), normal(1, 1, 8, 16), (1, 1), "SAME", NHWC, {}),
    "pointwise-nchw": (normal(2, 8, 6, 5), normal(16, 8, 1, 1), (1, 1), "SAME", NCHW, {}),
    "rhs-dilated": (
        normal(2, 9, 10, 4), normal(3, 3, 4, 6), (1, 1), "SAME", NHWC, {"rhs_dilation": (2, 3)},
    ),
    "lhs-dilated": (
        normal(2, 5, 6, 4), normal(3, 3, 4, 6), (1, 2), [(1, 2), (0, 1)], NHWC,
        {"lhs_dilation": (2, 3)},
    ),
    "depthwise": (
        normal(2, 9, 8, 16), normal(3, 3, 1, 16), (1, 1), "SAME", NHWC,
        {"feature_group_count": 16},
    ),
    "depthwise-multiplied": (
        normal(2, 9, 8, 4), normal(3, 3, 1, 12), (2, 2), "SAME", NHWC, {"feature_group_count": 4},
    ),
    "depthwise-nchw": (
        normal(2, 6, 9, 8), normal(6, 1, 3, 3), (1, 1), "SAME", NCHW, {"feature_group_count": 6},
    ),
    "grouped": (
        normal(2, 9, 8, 6), normal(3, 3, 3, 8), (1, 1), "SAME", NHWC, {"feature_group_count": 2},
    ),
    "grouped-nchw": (
        normal(2, 6, 9, 8), normal(8, 3, 3, 3), (1, 1), "SAME", NCHW, {"feature_group_count": 2},
    ),
    "batch-grouped": (
        normal(4, 9, 8, 6), normal(3, 3, 6, 8), (1, 1), "SAME", NHWC, {"batch_group_count": 2},
    ),
    "1d": (normal(3, 20, 4), normal(5, 4, 6), (2,), "SAME", ("NHC", "HIO", "NHC"), {}),
    "3d": (
        normal(2, 5, 6, 7, 3), normal(3, 2, 3, 3, 4), (1, 2, 1), "SAME",
        ("NDHWC", "DHWIO", "NDHWC"), {},
    ),
    "mixed-layouts": (
        normal(7, 3, 8, 2), normal(4, 3, 3, 3), (1, 1), "SAME", ("HCWN", "OHWI", "WNCH"), {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_jax_convolutions_and_their_gradients(name: str) -> None:
    x, w, strides, padding, layouts, rest = PROGRAMS[name]

    def program(x: Any, w: Any) -> Any:
        def convolve(x: Any, w: Any) -> Any:
            return lax.conv_general_dilated(
                x, w, strides, padding, dimension_numbers=layouts, **rest
            )

        output, pull = jax.vjp(convolve, x, w)
        return output, *pull(jnp.cos(output))

    agrees(program, x, w, cpu=SMALL)


def test_transposed_convolution() -> None:
    x, w = normal(2, 5, 6, 4), normal(3, 3, 4, 6)
    agrees(lambda a, b: lax.conv_transpose(a, b, (2, 2), "SAME", dimension_numbers=NHWC), x, w)
    agrees(
        lambda a, b: lax.conv_transpose(
            a, b, (2, 2), "VALID", dimension_numbers=NHWC, transpose_kernel=True
        ),
        x,
        normal(3, 3, 6, 4),
    )


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_half_types_are_rounded_once(dtype: Any) -> None:
    x, w = normal(2, 9, 8, 5, dtype=dtype), normal(3, 3, 5, 7, dtype=dtype)
    agrees(
        lambda a, b: lax.conv_general_dilated(a, b, (1, 1), "SAME", dimension_numbers=NHWC),
        x,
        w,
        rtol=1e-2,
    )


def test_blocks_of_rows_and_of_depth() -> None:
    # Larger than one block either way, with a rest.
    x, w = normal(2, 37, 41, 24), normal(3, 3, 24, 40)

    def program(x: Any, w: Any) -> Any:
        output, pull = jax.vjp(
            lambda a, b: lax.conv_general_dilated(a, b, (1, 1), "SAME", dimension_numbers=NHWC),
            x,
            w,
        )
        return output, *pull(output)

    agrees(program, x, w, cpu=SMALL)


UNDILATED: dict[str, Any] = {"lhs_dilation": None, "rhs_dilation": None}
DIRECT: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "same": ((2, 9, 31, 5), (3, 3, 5, 40), {"padding": [(1, 1), (1, 1)]}),
    "valid": ((1, 6, 20, 4), (3, 5, 4, 17), {}),
    "strided-dilated": (
        (2, 12, 13, 3), (3, 2, 3, 35),
        {"window_strides": (2, 3), "rhs_dilation": (2, 3), "padding": [(3, 2), (4, 0)]},
    ),
    "cut": ((1, 9, 9, 3), (2, 2, 3, 9), {"padding": [(-1, 2), (2, -3)]}),
    "reversed": (
        (1, 7, 8, 2), (3, 2, 2, 8),
        {"padding": [(1, 1), (0, 2)], "window_reversal": (True, True)},
    ),
    "phases": (
        (2, 5, 6, 3), (4, 3, 3, 33),
        {"lhs_dilation": (2, 3), "padding": [(2, 1), (1, 4)], "window_reversal": (True, False)},
    ),
    "phases-without-taps": ((1, 4, 5, 3), (1, 2, 3, 9), {"lhs_dilation": (3, 3)}),
    "depthwise": (
        (2, 6, 31, 35), (3, 2, 1, 35), {"feature_group_count": 35, "padding": [(1, 1), (0, 2)]},
    ),
    "depthwise-strided": (
        (2, 9, 13, 8), (2, 3, 1, 8),
        {"feature_group_count": 8, "window_strides": (2, 3), "rhs_dilation": (2, 1)},
    ),
    "depthwise-phases": (
        (1, 5, 6, 33), (4, 3, 1, 33),
        {
            "feature_group_count": 33, "lhs_dilation": (2, 3), "padding": [(2, 1), (1, 4)],
            "window_reversal": (True, False),
        },
    ),
    "depthwise-1d": ((2, 40, 64), (4, 1, 64), {"feature_group_count": 64, "padding": [(3, 0)]}),
    "groups": (
        (2, 6, 7, 6), (3, 3, 2, 105), {"feature_group_count": 3, "padding": [(1, 1), (1, 1)]},
    ),
    "one-feature": ((2, 9, 13, 8), (3, 2, 8, 1), {"padding": [(1, 1), (0, 2)]}),
    "one-to-one": (
        (2, 7, 43, 1), (5, 7, 1, 1), {"padding": [(2, 1), (3, 4)], "rhs_dilation": (1, 2)},
    ),
    "one-to-one-1d": ((1, 700, 1), (70, 1, 1), {"padding": [(35, 34)]}),
    "one-to-one-short": (
        (2, 5, 9, 1), (5, 4, 1, 1), {"lhs_dilation": (2, 1), "window_reversal": (False, True)},
    ),
    "one-to-one-strided": ((2, 12, 41, 1), (9, 9, 1, 1), {"window_strides": (2, 2)}),
    "three-features": ((2, 9, 13, 4), (2, 3, 4, 3), {"window_strides": (2, 3)}),
    "groups-of-five": ((1, 6, 7, 6), (3, 3, 3, 10), {"feature_group_count": 2}),
    "1d": ((2, 40, 3), (4, 3, 10), {"padding": [(3, 0)]}),
    "3d": ((1, 4, 5, 6, 2), (2, 3, 2, 2, 12), {"padding": [(1, 0), (1, 1), (0, 1)]}),
}  # fmt: skip


ADJACENT = {"one-to-one", "one-to-one-1d", "one-to-one-short"}
"""Cases whose tiles have adjacent positions of one feature as vectors."""


@pytest.mark.parametrize("name", DIRECT)
def test_tiles_give_exact_sums(name: str) -> None:
    base, kernel, attributes = DIRECT[name]
    spatial = tuple(range(1, len(base) - 1))
    numbers = ConvolutionDimensionNumbers(
        0, len(base) - 1, spatial, len(base) - 2, len(base) - 1, tuple(range(len(spatial))),
        0, len(base) - 1, spatial,
    )  # fmt: skip
    ones = [1] * len(spatial)
    rest = {"window_strides": ones, "padding": [(0, 0)] * len(spatial)}
    given = {**rest, **attributes, "dimension_numbers": numbers}
    kernels = "".join(exactly_direct(base, kernel, given))
    assert ("filter_tile_" in kernels) == (name in ADJACENT)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_other_dimension_orders_are_brought_into_that_of_tiles(dtype: str) -> None:
    numbers = ConvolutionDimensionNumbers(0, 1, (2, 3), 1, 0, (2, 3), 0, 1, (2, 3))
    attributes = {
        "window_strides": (1, 1), "padding": [(1, 1), (1, 1)], "dimension_numbers": numbers,
    }  # fmt: skip
    exactly_direct((2, 4, 8, 19), (34, 4, 3, 3), attributes, dtype)


@pytest.mark.parametrize(
    ("padding", "stride", "is_direct"),
    [("SAME", 1, True), ("SAME", 2, False), ("VALID", 2, True)],
)
def test_a_depthwise_input_is_laid_out_where_it_is_read_often(
    padding: str, stride: int, is_direct: bool
) -> None:
    x, w = normal(1, 30, 30, 16), normal(3, 3, 1, 16)

    def convolve(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(
            x, w, (stride, stride), padding, dimension_numbers=NHWC, feature_group_count=16
        )

    computation: Any = jax.jit(convolve).lower(x, w).compiler_ir("hlo")
    rows = lower(imported(computation.as_serialized_hlo_module_proto()), LOWERINGS, TARGET).thunks
    sources = [row.source for row in rows if isinstance(row, KernelThunk)]
    assert any("direct_block" in source for source in sources) == is_direct


def test_a_box_too_large_for_the_stack_has_memory() -> None:
    target = Target.of(dataclasses.replace(HOST, l2_bytes=1 << 9))
    base, kernel, attributes = DIRECT["same"]
    numbers = ConvolutionDimensionNumbers(0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2))
    given = {"window_strides": (1, 1), **attributes, "dimension_numbers": numbers}
    sources = exactly_direct(base, kernel, given, target=target)
    assert any("box = add(" in source for source in sources)


def exactly_direct(
    base: tuple[int, ...],
    kernel: tuple[int, ...],
    attributes: dict[str, Any],
    dtype: str = "f4",
    target: Target = TARGET,
) -> list[str]:
    """A convolution is done by tiles, and has the interpreter's bits. Returns its kernels."""
    tuning = tuned(target, "convolutions", min_products=0, min_readings=0).tuning
    target = Target(target.machine, tuning, TransposesAlways())
    random = np.random.default_rng(1)
    arrays = [drawn(random, shape, np.dtype(dtype)) for shape in (base, kernel)]

    def convolve(x: Op, w: Op) -> Op:
        return ops.conv_general_dilated(x, w, **{**UNDILATED, **attributes})

    rows = lower(built(convolve, arrays), LOWERINGS, target).thunks
    sources = [row.source for row in rows if isinstance(row, KernelThunk)]
    assert any("direct_block" in source for source in sources)
    module = built(convolve, arrays)
    (found,) = on_cpu(module, arrays, Cpu(target=target))
    assert_equal_bits(found, *interpreted(module, arrays))
    return sources
