"""Instructions of a fusion that are stored because its kernel would evaluate them too often."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from tests.corpus.jax.programs import lower
from tests.processors import TARGET
from tests.unit.codegen.compiled import imported, interpreted, on_cpu, pairs
from tests.unit.passes.passing import stated
from tests.work_ratio.ratios import operations_ratio, transcendentals_ratio
from xla_server.backends.compiled.compilation import Compilation, compile_module
from xla_server.codegen.lower.lowering import kernels_of
from xla_server.codegen.lower.recomputation import LoopNestCosts
from xla_server.codegen.schedules.builders.launches.chunks import calls_of
from xla_server.fusion.recomputation_guard import RecomputationGuard
from xla_server.ir.module import HloModule

TUNING = TARGET.tuning


def scaled_by_sum(rows: int, columns: int) -> HloModule:
    """exp(-|a|) times the sum of b."""
    shape = f"f32[{rows},{columns}]"
    return stated(
        [shape, "f32[5000]"],
        f"{shape} multiply(e, w)",
        "zero = f32[] constant(0)",
        "s = f32[] reduce(x1, zero), dimensions={0}, to_apply=add",
        f"w = {shape} broadcast(s), dimensions={{}}",
        f"a = {shape} abs(x0)",
        f"neg = {shape} negate(a)",
        f"e = {shape} exponential(neg)",
    )


def softmax(rows: int, columns: int) -> HloModule:
    """Softmax without the subtraction of the largest."""
    shape = f"f32[{rows},{columns}]"
    return stated(
        [shape],
        f"{shape} divide(e, w)",
        "zero = f32[] constant(0)",
        f"e = {shape} exponential(x0)",
        f"s = f32[{rows}] reduce(e, zero), dimensions={{1}}, to_apply=add",
        f"w = {shape} broadcast(s), dimensions={{0}}",
    )


def sums_of_shared(columns: int) -> HloModule:
    """Two results, each with a sum over what both compute."""
    shape = f"f32[{columns}]"
    return stated(
        [shape],
        f"{shape} add(p, q)",
        "zero = f32[] constant(0)",
        f"t = {shape} tanh(x0)",
        "s = f32[] reduce(t, zero), dimensions={0}, to_apply=add",
        f"w = {shape} broadcast(s), dimensions={{}}",
        f"p = {shape} multiply(t, w)",
        "m = f32[] reduce(t, zero), dimensions={0}, to_apply=max",
        f"v = {shape} broadcast(m), dimensions={{}}",
        f"q = {shape} subtract(t, v)",
    )


def chunks(compilation: Compilation) -> list[int]:
    chunks = TARGET.tuning.loops.chunks
    kernels = kernels_of(compilation.code)
    return [calls_of(k.work_items, k.work, k.prologue, chunks) for k in kernels]


def test_a_sum_before_a_large_loop_is_a_kernel_of_its_own() -> None:
    compilation = compile_module(scaled_by_sum(500, 400))
    assert len(chunks(compilation)) == 2
    # Threads share the loop.
    assert max(chunks(compilation)) > 8
    assert operations_ratio(compilation.work) <= 1.01


def test_a_sum_before_a_small_loop_stays_in_its_only_call() -> None:
    compilation = compile_module(softmax(1, 256))
    assert chunks(compilation) == [1]


@pytest.mark.parametrize("columns", [1 << n for n in range(8, 19)])
def test_one_row_is_evaluated_once(columns: int) -> None:
    for module in (softmax(1, columns), sums_of_shared(columns)):
        work = compile_module(module).work
        assert transcendentals_ratio(work) <= 1.01
        assert operations_ratio(work) <= 1.25


def test_rows_that_no_row_buffer_holds_are_stored() -> None:
    assert len(kernels_of(compile_module(softmax(20, 1000)).code)) == 1
    compilation = compile_module(softmax(20, 1 << 17))
    assert len(kernels_of(compilation.code)) > 1
    assert transcendentals_ratio(compilation.work) == 1


def test_a_division_is_counted_as_long_as_kernels_count_it() -> None:
    module = stated(
        ["f32[64,128]", "f32[64]", "f32[64,128,32]"],
        "f32[64,32] reduce(w, zero), dimensions={1}, to_apply=add",
        "zero = f32[] constant(0)",
        "b = f32[64,128] broadcast(x1), dimensions={0}",
        "d = f32[64,128] divide(x0, b)",
        "c = f32[64,128,32] broadcast(d), dimensions={0,1}",
        "w = f32[64,128,32] multiply(c, x2)",
    )
    # An addition takes less time than storing a quotient and reading it.
    assert len(kernels_of(compile_module(module).code)) == 2


@pytest.mark.parametrize(
    ("module", "shapes"),
    [
        (scaled_by_sum(500, 400), [(500, 400), (5000,)]),
        (softmax(1, 1 << 15), [(1, 1 << 15)]),
        (softmax(2, 1 << 17), [(2, 1 << 17)]),
        (sums_of_shared(1 << 14), [(1 << 14,)]),
    ],
)
def test_results_are_kept(module: HloModule, shapes: Sequence[tuple[int, ...]]) -> None:
    random = np.random.default_rng(3)
    arguments = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
    (found,) = on_cpu(module, arguments)
    (expected,) = interpreted(module, arguments)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-6)


def test_what_the_parts_of_a_concatenate_repeat_is_stored() -> None:
    module = stated(
        ["f32[16,200]", "f32[16,200]"],
        "f32[2,16,800] concatenate(row, row), dimensions={0}",
        "e = f32[16,200] exponential(x0)",
        "t = f32[16,200] add(x0, x1)",
        "u = f32[16,200] multiply(x0, x1)",
        "w = f32[16,200] subtract(x0, x1)",
        "joined = f32[16,800] concatenate(t, e, u, w), dimensions={1}",
        "row = f32[1,16,800] reshape(joined)",
    )
    compilation = compile_module(module)
    assert not RecomputationGuard(LoopNestCosts(TARGET)).apply(compilation.module)
    assert transcendentals_ratio(compilation.work) == 1
    random = np.random.default_rng(3)
    arguments = [random.standard_normal((16, 200)).astype(np.float32) for _ in range(2)]
    ((found, expected),) = pairs(module, arguments)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_the_only_result_is_written_though_its_reduction_is_before_the_loop() -> None:
    def mean_of_stack(x: Any) -> Any:
        top = jnp.max(x - jnp.mean(x, 0, keepdims=True), 0)
        shifted = top - jnp.max(top, 0, keepdims=True)
        return jnp.min(jnp.mean(jnp.stack([shifted, shifted, top, top], 0), 0), 0)

    x = np.random.default_rng(0).standard_normal((4, 16384)).astype(np.float32)
    (found,) = on_cpu(imported(lower(mean_of_stack, x)), [x])
    np.testing.assert_allclose(found, mean_of_stack(x), rtol=1e-4)
