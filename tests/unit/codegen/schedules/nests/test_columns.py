"""Reductions over leading dimensions, block by block."""

from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

from tests.conformance.oracle import assert_equal_bits
from tests.corpus.jax.programs import lower
from tests.processors import TARGET
from tests.unit.codegen.compiled import imported, interpreted, on_cpu, texts_of
from tests.unit.codegen.from_jax import near_texts
from xla_contract.types.element_type import ElementType
from xla_server.backends.compiled.compilation import compile_module
from xla_server.codegen.kernel import Kernels
from xla_server.codegen.lower.lowering import kernels_of
from xla_server.codegen.schedules.builders.loop_builder import Nest
from xla_server.codegen.schedules.nests.columns import column_kernel
from xla_server.codegen.trace.graph import (
    Accumulator,
    Apply,
    Immediate,
    Load,
    Reduction,
    ReductionResult,
    Store,
)
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.ir.analysis.affine import Variable, linear, variable
from xla_server.runtime.native import callable_at

BLOCK = TARGET.tuning.loops.column_block


def _of(*dimensions: int) -> Any:
    return np.random.default_rng(dimensions).standard_normal(dimensions).astype(np.float32)


def test_blocks_of_one_length_have_loops_of_that_length() -> None:
    for blocks in (1, 2):
        (text,) = near_texts(lambda x: x.sum(0), _of(20, blocks * BLOCK))
        assert f"in range({BLOCK}):" in text
        assert "minimum" not in text
        assert ("whole_mod" in text) is (blocks > 1)


def test_what_varies_with_an_outer_loop_alone_is_computed_there() -> None:
    dimensions = ("NHWC", "HWIO", "NHWC")

    def convolved(x: Any, weights: Any) -> Any:
        return lax.conv_general_dilated(x, weights, (1, 1), "SAME", dimension_numbers=dimensions)

    (text,) = near_texts(convolved, _of(1, 4, 4, 3), _of(3, 3, 3, 4))
    (inside,) = [loop for loop in text.split("for ") if "load_f32(" in loop]
    assert text.count("= ge(") == text.count("= lt(") == 2
    assert "= ge(" not in inside
    # One vector of columns needs no loop over vectors.
    assert "range(1)" not in text


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int4"])
def test_narrow_results_are_kept_on_the_stack(dtype: str) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    x = (_of(70, 2, BLOCK + 100) * 3).astype(kind)
    if dtype != "int4":
        x[3, 1, 5:9] = np.nan

    def extremes(x: Any) -> Any:
        return x.min(0), x.max(0)

    module = imported(lower(extremes, x))
    texts = texts_of(module)
    assert all("kept_" in text and "reload_" not in text for text in texts)
    for compiled, expected in zip(on_cpu(module, [x]), interpreted(module, [x]), strict=True):
        assert_equal_bits(compiled, expected)


def test_the_last_block_may_be_shorter() -> None:
    (text,) = near_texts(lambda x: x.sum(0), _of(20, BLOCK + 100))
    assert f", {BLOCK + 100})" in text


@pytest.mark.parametrize("columns", [300, 2 * BLOCK, BLOCK + 100])
def test_what_is_made_of_sums_has_the_same_blocks(columns: int) -> None:
    x = _of(20, columns)
    row, last = Variable(20, "row"), Variable(columns, "last")
    f32 = KERNEL_TYPE[ElementType.F32]
    element = Load(0, f32, linear([variable(row), variable(last)], x.shape), x.size)
    total = Accumulator("f32", (row,))
    added = Apply("add", (total, element), "f32")
    reduction = Reduction((row,), (Immediate.of("f32", 0),), (total,), (added,))
    result = ReductionResult(reduction, 0)
    stores = (
        Store(1, f32, variable(last), result),
        Store(2, f32, variable(last), Apply("mul", (result, result), "f32")),
    )
    found = column_kernel(Nest((last,), stores, TARGET))
    assert found is not None
    sums, squares = np.zeros(columns, np.float32), np.zeros(columns, np.float32)
    table = np.array([array.ctypes.data for array in (x, sums, squares)])
    kernel = Kernels().get(found.kernel)
    callable_at(kernel.address, 3)(table.ctypes.data, 0, found.kernel.items)
    np.testing.assert_allclose(sums, x.sum(0), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(squares, sums * sums)


def test_runs_of_one_length_have_loops_of_that_length() -> None:
    even = near_texts(lambda x: x.sum(1), _of(3, 4096))
    assert any("in range(512):" in text for text in even)
    assert not any("minimum" in text for text in even)
    uneven = near_texts(lambda x: x.sum(1), _of(3, 4099))
    assert any("minimum" in text for text in uneven)


def test_runs_of_as_many_rows_have_loops_of_that_length() -> None:
    (even,) = near_texts(lambda x: x.sum(0), _of(192, 300))
    assert "in range(64):" in even
    assert "minimum" not in even
    (uneven,) = near_texts(lambda x: x.sum(0), _of(193, 300))
    assert "minimum" in uneven


def test_a_single_iteration_is_no_loop() -> None:
    for axis in (0, None):
        (one,) = near_texts(lambda x, axis=axis: x.sum(axis), _of(70, 30))
        assert "if start < stop:" in one
        assert "range(start, stop)" not in one
    (several,) = near_texts(lambda x: x.sum(1), _of(3, 70, 30))
    assert "range(start, stop)" in several


def test_sums_of_many_rows_look_whether_to_stop() -> None:
    # No number of blocks divides this many rows, so one work item does them all.
    module = imported(lower(lambda x: x.sum(0), np.broadcast_to(np.float32(1), (100_003, 1100))))
    (kernel,) = kernels_of(compile_module(module).code)
    assert "alloca" in kernel.source
    assert "if watch_i64(cancelled) != 0:" in kernel.source


def test_rows_of_wide_columns_are_shared_out() -> None:
    module = imported(lower(lambda x: x.sum(0), np.broadcast_to(np.float32(1), (2048, 1100))))
    # The sums of blocks are joined in f64, which the last kernel rounds.
    first, second, rounded = kernels_of(compile_module(module).code)
    assert first.work_items >= 16
    assert "to_f32" in rounded.source
    # Each block has few rows, and so has what is made of blocks.
    assert "alloca" not in first.source + second.source


@pytest.mark.parametrize(
    ("columns", "function", "loop"),
    [
        (17, jnp.negative, "range(0, 20, 5)"),
        (4, jnp.exp, "range(0, 20, 2)"),
        (64, jnp.negative, "range(20)"),
    ],
    ids=["narrow", "costly", "wide"],
)
def test_rows_are_combined_at_once_into_narrow_columns(
    columns: int, function: Any, loop: str
) -> None:
    (text,) = near_texts(lambda x: function(x).max(1), _of(3, 20, columns))
    assert f"in {loop}:" in text
    assert ("kept_f32" in text) is (columns < 64)


@pytest.mark.parametrize("shape", [(2, 11, 17), (1, 193, 10)])
def test_results_of_narrow_columns_are_those_of_the_interpreter(shape: tuple[int, ...]) -> None:
    x = _of(*shape)
    x[0, 3, 2] = np.nan
    module = imported(lower(lambda x: (x.max(1), x.argmin(1), x.sum(1)), x))
    *exact, sums = zip(on_cpu(module, [x]), interpreted(module, [x]), strict=True)
    for compiled, expected in exact:
        assert_equal_bits(compiled, expected)
    np.testing.assert_allclose(*sums, rtol=1e-6, atol=1e-5)
