"""Concatenates as kernels for a GPU: threads for each operand, in as few launches as may be."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.oracle import assert_equal_bits
from tests.conformance.sweep.draws.depth import drawn
from tests.cuda_twin.lowered import compiled, grids, lowered, results_of
from tests.cuda_twin.schedules.test_rows import module_of, numbers
from tests.unit.codegen.compiled import interpreted
from xla_server.codegen.gpu.emit.emitter import grid_module
from xla_server.codegen.gpu.emit.ptx import PtxCompiler
from xla_server.codegen.gpu.lower.concatenate import MAX_BOXES
from xla_server.ir.text.parser import parse_module
from xla_server.target.gpu.properties import WARP
from xla_server.target.machine import Machine


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


@pytest.mark.parametrize(
    ("dtype", "count", "loads", "stores"),
    [
        # Rows of whole accesses, and those that several of make whole accesses.
        ("float32", 4, (4, "b32"), (1, "v4.b32")),
        ("float32", 3, (3, "v4.b32"), (3, "v4.b32")),
        ("float32", 2, (2, "v2.b32"), (1, "v4.b32")),
        ("float16", 8, (8, "b16"), (1, "v4.b32")),
        ("int8", 2, (2, "v2.b32"), (1, "v4.b32")),
        ("complex64", 3, (3, "v4.b32"), (3, "v4.b32")),
        # Two parts, of eight and of four elements.
        ("float32", 12, (12, "b32"), (3, "v4.b32")),
    ],
)
def test_neighbours_store_narrow_operands_together(
    dtype: str, count: int, loads: tuple[int, str], stores: tuple[int, str]
) -> None:
    arrays = [numbers(dtype, 320, 1) for _ in range(count)]
    text = ptx_of(lambda *a: jnp.concatenate(a, 1), *arrays)
    for kind, (number, form) in (("ld", loads), ("st", stores)):
        assert Counter(re.findall(rf"{kind}\.global\.(\S+) ", text)) == {form: number}


@drawn(20, 1000)
@given(st.data())
def test_operands_of_any_width_are_joined(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(["float32", "float16", "int8", "bool", "complex64"]))
    rows = data.draw(st.sampled_from([1, 31, 32, 33, 100, 131]))
    widths = data.draw(st.lists(st.integers(0, 6), min_size=2, max_size=14))
    arrays = [numbers(dtype, rows, width) for width in widths]
    module = module_of(lambda *a: jnp.concatenate(a, 1), *arrays)
    (ours,) = results_of(module, compiled(module), arrays)
    assert_equal_bits(ours, np.concatenate(arrays, 1))


def test_operands_with_reductions_have_threads_of_their_own() -> None:
    text = """HloModule reduced
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
joined {
  x = f32[64,3] parameter(0)
  zero = f32[] constant(0)
  sums = f32[64] reduce(x, zero), dimensions={1}, to_apply=add
  column = f32[64,1] reshape(sums)
  first = f32[64,1] slice(x), slice={[0:64], [0:1]}
  ROOT c = f32[64,2] concatenate(column, first), dimensions={1}
}
ENTRY e { p = f32[64,3] parameter(0) ROOT f = f32[64,2] fusion(p), kind=kLoop, calls=joined }
"""
    module, x = parse_module(text), np.arange(64 * 3, dtype=np.float32).reshape(64, 3)
    code = lowered(module)
    assert [len(grid.kernel.parts) for grid in grids(code)] == [2]
    assert_equal_bits(results_of(module, code, [x])[0], np.stack([x.sum(1), x[:, 0]], 1))


def test_few_rows_have_threads_for_each_operand() -> None:
    for rows, parts in ((WARP - 1, 3), (WARP, 1)):
        arrays = [numbers("float32", rows, 1) for _ in range(3)]
        check(lambda *a: jnp.concatenate(a, 1), *arrays, launches=1, parts=parts)


def test_a_wide_operand_has_threads_of_its_own() -> None:
    arrays = [numbers("float32", 64, width) for width in (1, 2, 4, 3, 1, 5)]
    check(lambda *a: jnp.concatenate(a, 1), *arrays, launches=1, parts=4)


def ptx_of(function: Callable[..., Any], *arguments: Any) -> str:
    """Return the PTX of the only kernel of a program."""
    machine = Machine.cuda("sm_90")
    (grid,) = grids(compiled(module_of(function, *arguments)))
    with PtxCompiler(machine) as compiler:
        return compiler.module(str(grid_module({"kernel": grid}, machine))).ptx.decode()
