"""Convolutions by tiles of results: their matrices, their borders, their errors."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.processors import TARGET, tuned
from tests.unit.codegen.compiled import both, built
from xla_client import ops
from xla_client.programs.builder import Op
from xla_contract.types.dimension_numbers import ConvolutionDimensionNumbers
from xla_server.backends.compiled.cpu import Cpu
from xla_server.buffers.code import KernelThunk
from xla_server.codegen.lower.lowering import lower
from xla_server.codegen.lower.lowerings import LOWERINGS
from xla_server.codegen.routines.contraction.winograd_transforms import (
    RESULTS,
    SIDE,
    TAPS,
    matrices,
)
from xla_server.target.target import Target

NHWC = ConvolutionDimensionNumbers(0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2))
HIGHEST = 2

LEAST = tuned(TARGET, "convolutions", min_products=0, min_winograd_positions=0)
SMALL = Cpu(target=LEAST)
"""A platform that has no convolution too small for tiles."""

CASES: list[tuple[int, tuple[int, int], list[tuple[int, int]], bool]] = [
    (1, (8, 8), [(0, 0), (0, 0)], False),
    (3, (13, 18), [(1, 1), (1, 1)], False),
    (2, (7, 22), [(3, 0), (0, 8)], True),
    (1, (15, 9), [(-2, 1), (1, -1)], False),
]
"""Images, their sizes, padding, and whether the window is reversed."""


def convolution(padding: list[tuple[int, int]], reverse: bool = False, precision: int = 0) -> Any:
    def convolve(x: Op, w: Op) -> Op:
        return ops.conv_general_dilated(
            x,
            w,
            (1, 1),
            padding,
            None,
            None,
            NHWC,
            precision=(precision, precision),
            window_reversal=(reverse, reverse),
        )

    return convolve


def is_tiled(function: Any, *arrays: Any, target: Target = LEAST) -> bool:
    rows = lower(built(function, arrays), LOWERINGS, target).thunks
    kernels = [row for row in rows if isinstance(row, KernelThunk)]
    return any(value.name.endswith(".points") for row in kernels for value in row.writes)


def test_matrices_give_results_of_a_convolution() -> None:
    inputs, kernel, result = matrices()
    x = [Fraction(n * n - 7) for n in range(SIDE)]
    w = [Fraction(3 - 2 * n, 5) for n in range(TAPS)]

    def times(matrix: Any, vector: Any) -> Any:
        return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]

    products = [a * b for a, b in zip(times(inputs, x), times(kernel, w), strict=True)]
    expected = [sum(x[n + k] * w[k] for k in range(TAPS)) for n in range(SIDE - TAPS + 1)]
    assert times(result, products) == expected


@pytest.mark.parametrize(("batch", "sizes", "padding", "reverse"), CASES)
def test_error_is_within_its_bound(
    batch: int,
    sizes: tuple[int, int],
    padding: list[tuple[int, int]],
    reverse: bool,
) -> None:
    random = np.random.default_rng(3)
    x = random.standard_normal((batch, *sizes, 19)).astype(np.float32)
    w = random.standard_normal((3, 3, 19, 37)).astype(np.float32)
    function = convolution(padding, reverse)
    assert is_tiled(function, x, w)
    bound = 2.0**-16 * np.abs(x).max() * np.abs(w).sum((0, 1, 2))
    for compiled, exact in both(function, x, w, cpu=SMALL):
        assert (np.abs(compiled - exact) <= bound).all()
        # The bound holds for the worst; what is usual is far within.
        assert np.abs(compiled - exact).max() <= 2.0**-16 * np.abs(exact).max()


def largest_of_tiles(x: Any, padding: list[tuple[int, int]]) -> Any:
    """The largest finite input that each result's tile reads."""
    finite = np.where(np.isfinite(x), np.abs(x), 0).max(-1)
    (top, bottom), (left, right) = padding
    laid_out = np.pad(finite, [(0, 0), *((max(low, 0), max(high, 0)) for low, high in padding)])
    height, width = laid_out.shape[1:]
    kept = laid_out[
        :, -min(top, 0) : height + min(bottom, 0), -min(left, 0) : width + min(right, 0)
    ]
    result = np.lib.stride_tricks.sliding_window_view(kept, (TAPS, TAPS), (1, 2)).max((-1, -2))
    for i in range(0, result.shape[1], RESULTS):
        for j in range(0, result.shape[2], RESULTS):
            tile = result[:, i : i + RESULTS, j : j + RESULTS]
            tile[:] = tile.max((1, 2), keepdims=True)
    return result[..., np.newaxis].astype(np.float64)


def assert_as_interpreted(x: Any, w: Any, padding: list[tuple[int, int]], reverse: bool) -> None:
    """The same NaNs and infinities at the same positions, and numbers within their bound."""
    ((compiled, exact),) = both(convolution(padding, reverse), x, w, cpu=SMALL)
    np.testing.assert_array_equal(np.isnan(compiled), np.isnan(exact))
    is_infinite = np.isinf(exact) | np.isinf(compiled)
    np.testing.assert_array_equal(compiled[is_infinite], exact[is_infinite])
    weights = np.where(np.isfinite(w), np.abs(w), 0).astype(np.float64).sum((0, 1, 2))
    bound = 2.0**-16 * largest_of_tiles(x, padding) * weights
    is_finite = np.isfinite(exact)
    off = np.abs(np.subtract(compiled, exact, where=is_finite, out=np.zeros(exact.shape)))
    assert (off <= bound).all()


@pytest.mark.parametrize(("batch", "sizes", "padding", "reverse"), CASES[1:])
def test_what_is_not_finite_is_where_it_is_read(
    batch: int,
    sizes: tuple[int, int],
    padding: list[tuple[int, int]],
    reverse: bool,
) -> None:
    random = np.random.default_rng(4)
    numbers = random.standard_normal((batch, *sizes, 19)).astype(np.float32)
    weights = random.standard_normal((3, 3, 19, 37)).astype(np.float32)
    height, width = sizes
    x = numbers.copy()
    x[0, 0, 0, 0], x[-1, -1, -1, 18] = np.inf, -np.inf
    x[0, height // 3, width // 3, 3], x[-1, 2 * height // 3, 2 * width // 3, 5] = np.nan, 3e38
    assert_as_interpreted(x, weights, padding, reverse)
    # The NaN of a weight also appears where it is multiplied by the zeros of padding.
    w = weights.copy()
    w[0, 0, 0, 0], w[2, 1, 3, 5], w[1, 1, 2, 9], w[1, 0, 4, 36] = np.inf, -np.inf, np.nan, 3e38
    assert_as_interpreted(numbers, w, padding, reverse)


def test_more_precision_is_given_by_exact_products() -> None:
    x, w = np.ones((1, 14, 14, 16), np.float32), np.ones((3, 3, 16, 16), np.float32)
    assert is_tiled(convolution([(0, 0), (0, 0)]), x, w)
    assert not is_tiled(convolution([(0, 0), (0, 0)], precision=HIGHEST), x, w)
    assert not is_tiled(convolution([(0, 0), (0, 0)]), x.astype("f8"), w.astype("f8"))


@pytest.mark.parametrize(
    ("batch", "side", "features", "expected"),
    [(1, 7, 64, False), (2, 7, 64, True), (1, 10, 512, False), (1, 12, 512, True)],
)
def test_weights_are_transformed_for_enough_positions(
    batch: int, side: int, features: int, expected: bool
) -> None:
    x = np.zeros((batch, side, side, features), np.float32)
    w = np.zeros((3, 3, features, features), np.float32)
    assert is_tiled(convolution([(1, 1), (1, 1)]), x, w, target=TARGET) is expected
