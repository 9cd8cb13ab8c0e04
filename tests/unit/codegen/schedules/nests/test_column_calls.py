"""Runs that begin and join sums of columns as calls, with the bits of loops."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.corpus.jax.programs import lower
from tests.processors import TARGET, tuned
from tests.unit.codegen.compiled import imported, on_cpu
from xla_server.backends.compiled.compilation import compile_module
from xla_server.backends.compiled.cpu import Cpu
from xla_server.codegen.lower.lowering import kernels_of
from xla_server.target.target import Target

BLOCK = TARGET.tuning.loops.column_block
WITHOUT_CALLS = tuned(TARGET, "loops", min_call_elements=1 << 40)

_RANDOM = np.random.default_rng(0)


def _numbers(dtype: Any, *dimensions: int) -> Any:
    numbers = _RANDOM.standard_normal(dimensions)
    if np.dtype(dtype).kind == "i":
        return (numbers * 1000).astype(dtype)
    if np.dtype(dtype).kind == "c":
        return (numbers + 1j * _RANDOM.standard_normal(dimensions)).astype(dtype)
    # A column of zeros below 0, and columns with what spreads over them.
    numbers[..., 0] = -0.0
    numbers[dimensions[0] // 2, ..., 1:4] = np.nan, np.inf, -np.inf
    return numbers.astype(dtype)


def _reduced(operation: Callable[..., Any], initial: Any) -> Callable[[Any], Any]:
    return lambda x: jax.lax.reduce(x, np.asarray(initial, x.dtype), operation, (0,))


def _from_first(x: Any) -> Any:
    return jax.lax.reduce(x, x[0, 5], jax.lax.add, (0,))


_SUM = _reduced(jax.lax.add, 0)

CASES = {
    "whole blocks": (_SUM, np.float32, (256, 2 * BLOCK)),
    "a shorter last block": (_SUM, np.float32, (200, BLOCK + 100)),
    "sums of sums of sums": (_SUM, np.float32, (64 * 40, 65)),
    "few rows": (_SUM, np.float32, (63, 300)),
    "f64": (_SUM, np.float64, (300, 300)),
    "from -0": (_reduced(jax.lax.add, -0.0), np.float32, (300, 70)),
    "from a number of the input": (_from_first, np.float32, (300, 70)),
    "largest": (_reduced(jax.lax.max, -np.inf), np.float32, (300, 70)),
    "smallest of integers": (_reduced(jax.lax.min, 7), np.int32, (300, 70)),
    "s64": (_reduced(jax.lax.add, -3), np.int64, (300, 70)),
    "several": (lambda x: (x.sum(0), (x * x).sum(0)), np.float32, (300, 70)),
    "of several matrices": (lambda x: x.sum(1), np.float32, (5, 130, 80)),
    "place of the largest": (lambda x: jnp.argmax(x, 0), np.float32, (300, 70)),
    "variance": (lambda x: x.var(0), np.float32, (300, BLOCK + 1)),
}


@pytest.mark.parametrize("name", CASES)
def test_calls_and_loops_have_the_same_bits(name: str) -> None:
    function, dtype, dimensions = CASES[name]
    x = _numbers(dtype, *dimensions)
    with jax.enable_x64(np.dtype(dtype).itemsize > 4):
        module = imported(lower(function, x))
    assert "fill_" in _text(module)
    called = on_cpu(module, [x])
    assert "fill_" not in _text(module, WITHOUT_CALLS)
    for one, other in zip(called, on_cpu(module, [x], Cpu(target=WITHOUT_CALLS)), strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


def _text(module: Any, target: Target = TARGET) -> str:
    code = compile_module(module, target=target).code
    return "".join(kernel.source for kernel in kernels_of(code))


@pytest.mark.parametrize(
    ("function", "dtype", "dimensions"),
    [
        (_SUM, np.float32, (4096, TARGET.tuning.loops.min_call_columns - 1)),
        (_SUM, np.float32, (20, 64)),
        (_SUM, np.complex64, (300, 70)),
        (_reduced(jax.lax.mul, 1), np.float32, (300, 70)),
        (lambda x: (x > 0).any(0), np.float32, (300, 70)),
    ],
    ids=["few columns", "few elements", "complex", "product", "truth values"],
)
def test_others_are_loops(function: Any, dtype: Any, dimensions: tuple[int, ...]) -> None:
    text = _text(imported(lower(function, _numbers(dtype, *dimensions))))
    assert "fill_" not in text
    assert "join_" not in text


def test_sums_begun_and_joined_by_calls_have_one_loop_over_columns() -> None:
    text = _text(imported(lower(_SUM, _numbers(np.float32, 1024, BLOCK))))
    assert text.count(f"in range({BLOCK}):") == 1
    assert text.count("join_f32") == 1
