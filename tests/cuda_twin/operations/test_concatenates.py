"""Concatenates as kernels for a GPU: threads for each operand, in as few launches as may be."""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from tests.conformance.oracle import assert_equal_bits
from tests.cuda_twin.lowered import compiled, grids, results_of
from tests.cuda_twin.schedules.test_rows import module_of, numbers
from tests.unit.codegen.compiled import interpreted
from xla_server.codegen.gpu.lower.concatenate import MAX_BOXES


def check(function: Callable[..., Any], *arguments: Any, launches: int, parts: int) -> None:
    module = module_of(function, *arguments)
    code = compiled(module)
    assert [len(grid.kernel.parts) for grid in grids(code)][-launches:] == [parts] * launches
    ours, expected = results_of(module, code, arguments), interpreted(module, arguments)
    for mine, other in zip(ours, expected, strict=True):
        assert_equal_bits(mine, other)


@pytest.mark.parametrize("axis", [0, 1])
def test_each_operand_has_threads_of_its_own(axis: int) -> None:
    arrays = [numbers("float32", 5, 5) for _ in range(3)]
    check(lambda *a: jnp.concatenate(a, axis), *arrays, launches=1, parts=3)


def test_what_is_computed_is_computed_where_it_belongs() -> None:
    def stacked(x: Any, y: Any) -> Any:
        return jnp.stack([x + y, x * 2, -y, jnp.abs(x)])

    check(stacked, numbers("float32", 7, 9), numbers("float32", 7, 9), launches=1, parts=4)


def test_many_operands_have_several_launches() -> None:
    arrays: Sequence[Any] = [numbers("int32", n % 3 + 1) for n in range(2 * MAX_BOXES)]
    check(lambda *a: jnp.concatenate(a), *arrays, launches=2, parts=MAX_BOXES)


def test_an_operand_without_elements_has_no_threads() -> None:
    arrays = numbers("float32", 4), np.zeros(0, np.float32), numbers("float32", 3)
    check(lambda *a: jnp.concatenate(a), *arrays, launches=1, parts=2)
