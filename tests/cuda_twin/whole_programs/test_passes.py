"""Passes that do something else for a GPU: what they make of programs, and its results."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from tests.cuda_twin.lowered import compiled, grids, results_of, through_host
from tests.cuda_twin.programs import TARGET
from tests.cuda_twin.schedules.test_rows import module_of, normalised, numbers
from tests.processors import TARGET as PROCESSOR
from tests.unit.codegen.compiled import interpreted
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.backends.compiled.compilation import compile_module
from xla_server.codegen.gpu.lower.table import CUDA_LOWERINGS
from xla_server.ir.module import HloModule
from xla_server.passes.pipeline import pipeline
from xla_server.target.target import Target

BFLOAT = ml_dtypes.bfloat16


def optimised(module: HloModule, target: Target = TARGET) -> HloModule:
    return compile_module(module, target=target, lowerings=CUDA_LOWERINGS).module


def opcodes(module: HloModule) -> set[Opcode]:
    return {i.opcode for i in module.instructions()}


def near(function: Callable[..., Any], *arguments: Any, tolerance: float = 2e-6) -> None:
    module = module_of(function, *arguments)
    code = compiled(module)
    assert through_host(code) == []
    for ours, expected in zip(
        results_of(module, code, arguments), interpreted(module, arguments), strict=True
    ):
        np.testing.assert_allclose(ours, expected, tolerance, tolerance)


def test_a_long_sum_is_no_thread_of_its_own() -> None:
    x = numbers("float32", 1 << 17)
    code = compiled(module_of(lambda x: jnp.sum(jnp.abs(x)), x))
    assert [grid.kernel.items for grid in grids(code)] == [32 * 256, 32]
    near(lambda x: jnp.sum(jnp.abs(x)), x)


def test_few_long_columns_are_cut() -> None:
    x = numbers("float32", 1 << 14, 9)
    code = compiled(module_of(lambda x: jnp.sum(jnp.abs(x), axis=0), x))
    assert len(grids(code)) == 2
    near(lambda x: jnp.sum(jnp.abs(x), axis=0), x)


def test_a_reduction_of_columns_goes_on_with_its_results() -> None:
    x, y = numbers("float32", 130, 40), numbers("float32", 40)
    function = lambda x, y: y - 0.1 * jnp.sum(x, axis=0)  # noqa: E731
    assert len(grids(compiled(module_of(function, x, y)))) == 1
    near(function, x, y, tolerance=1e-5)


def test_no_sum_of_f32_is_kept_in_f64() -> None:
    module = module_of(jnp.sum, numbers("float32", 1 << 17))
    kinds = {i.shape.element_type for i in optimised(module).instructions() if i.shape.is_array}
    assert kinds == {ElementType.F32}


@pytest.mark.parametrize("kind", [np.float16, BFLOAT])
def test_products_of_narrow_floats_stay(kind: Any) -> None:
    x = np.ones((64, 64), kind)
    module = optimised(module_of(lambda x: x @ x, x))
    (dot,) = (i for i in module.instructions() if i.opcode is Opcode.DOT)
    assert {i.shape.element_type.dtype for i in (dot, *dot.operands)} == {np.dtype(kind)}
    near(lambda x: x @ x, np.asarray(numbers("float32", 20, 20), kind), tolerance=1e-2)


def test_convolutions_keep_their_order_of_dimensions() -> None:
    x, w = numbers("float32", 2, 8, 9, 9), numbers("float32", 8, 8, 3, 3)
    function = lambda x, w: jax.lax.conv(x, w, (1, 1), "SAME")  # noqa: E731
    assert Opcode.TRANSPOSE not in opcodes(optimised(module_of(function, x, w)))
    near(function, x, w, tolerance=1e-4)


def test_softmax_and_norms_are_one_kernel() -> None:
    x = numbers("float32", 40, 300)
    for function in (lambda x: jax.nn.softmax(x, axis=-1), normalised):
        (grid,) = grids(compiled(module_of(function, x)))
        assert grid.kernel.items == 40 * 32
        near(function, x, tolerance=1e-5)


def test_a_reduction_is_not_evaluated_once_for_each_element() -> None:
    x = numbers("float32", 300, 200)
    function = lambda x: x - jnp.sum(jnp.exp(x), axis=0)  # noqa: E731
    code = compiled(module_of(function, x))
    assert len(grids(code)) == 1
    # Some threads of a tile have no column, and compute the last one again.
    assert sum(cost.transcendentals for cost in code.costs.values()) < 1.25 * x.size
    near(function, x, tolerance=1e-5)


def test_a_costly_value_is_stored_where_many_rows_read_it() -> None:
    x, y = numbers("float32", 1024), numbers("float32", 256, 1024)
    function = lambda x, y: jnp.sum(jnp.tanh(x * x) * y, axis=1)  # noqa: E731
    assert len(grids(compiled(module_of(function, x, y)))) == 2
    near(function, x, y, tolerance=1e-4)


def test_a_cheap_one_is_not() -> None:
    x, y = numbers("float32", 64), numbers("float32", 256, 64)
    function = lambda x, y: jnp.sum((x + 1) * y, axis=1)  # noqa: E731
    assert len(grids(compiled(module_of(function, x, y)))) == 1
    near(function, x, y, tolerance=1e-4)


def test_machines_differ_in_two_passes() -> None:
    names = [[step.name for step in pipeline(target)] for target in (TARGET, PROCESSOR)]
    assert set(names[1]) - set(names[0]) == {"channels-last"}
    assert set(names[0]) - set(names[1]) == {"one-hot-scatter"}
