"""The schedule of elements: the elements of each thread, as source of the loop IR."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.cuda_twin.programs import TARGET, kernel_of
from tests.unit.codegen.compiled import built
from xla_client import ops
from xla_client.programs.builder import Op
from xla_contract.types.element_type import ElementType
from xla_server.codegen.gpu.grid import GridKernel
from xla_server.codegen.gpu.schedules.elementwise import elementwise_grid
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import For
from xla_server.codegen.kernel_ir.walk import walk
from xla_server.codegen.schedules.builders.loop_builder import Nest
from xla_server.codegen.trace.graph import Immediate, Reduction, ReductionResult, Store
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.ir.analysis.affine import Affine, Variable


def scheduled(function: Callable[..., Op], *arguments: Any) -> GridKernel:
    module = built(function, arguments)
    return kernel_of(module, module.entry.root)


def statements_of(kernel: Kernel) -> str:
    """Return the source behind the buffers of a kernel whose loops are all unrolled."""
    assert all(each.unrolled for each, _ in walk(kernel.body) if isinstance(each, For))
    return kernel.text.partition("buffers, 2)\n")[2]


def zeros(dtype: Any, *dimensions: int) -> Any:
    return np.zeros(dimensions, dtype)


def test_a_thread_computes_neighbours_and_the_last_one_what_is_left() -> None:
    grid = scheduled(lambda x, y: x + y, zeros(np.float32, 6), zeros(np.float32, 6))
    assert grid.kernel.items == 2
    assert statements_of(grid.kernel) == (
        "    for t1 in range(start, stop):\n"
        "        if lt(t1, 1):\n"
        "            for i2 in range(4):\n"
        "                i3 = add(mul(t1, 4), i2)\n"
        "                v5 = load_f32(buffer0, i3)\n"
        "                v6 = load_f32(buffer1, i3)\n"
        "                v4 = add(v5, v6)\n"
        "                store_f32(buffer2, i3, v4)\n"
        "        else:\n"
        "            for i7 in range(2):\n"
        "                i8 = add(mul(t1, 4), i7)\n"
        "                v10 = load_f32(buffer0, i8)\n"
        "                v11 = load_f32(buffer1, i8)\n"
        "                v9 = add(v10, v11)\n"
        "                store_f32(buffer2, i8, v9)\n"
    )


def test_a_row_has_whole_runs_and_what_is_the_same_for_a_run_is_read_once() -> None:
    grid = scheduled(
        lambda x, y: ops.add(x, y, broadcast_dimensions=(0,)),
        zeros(np.float32, 5, 6),
        zeros(np.float32, 5),
    )
    assert grid.kernel.items == 15
    assert statements_of(grid.kernel) == (
        "    for t1 in range(start, stop):\n"
        "        i2 = whole_mod(t1, 3)\n"
        "        t3 = whole_div(t1, 3)\n"
        "        i4 = t3\n"
        "        v9 = load_f32(buffer1, i4)\n"
        "        for i5 in range(2):\n"
        "            i6 = add(mul(i2, 2), i5)\n"
        "            v8 = load_f32(buffer0, add(i6, mul(i4, 6)))\n"
        "            v7 = add(v8, v9)\n"
        "            store_f32(buffer2, add(i6, mul(i4, 6)), v7)\n"
    )


@pytest.mark.parametrize(
    ("dtype", "to", "run"),
    [
        ("f32", "f32", 4),
        ("f64", "f64", 2),
        ("u8", "u8", 8),
        ("f16", "f16", 8),
        ("u8", "f32", 4),
        ("c128", "c128", 1),
    ],
)
def test_a_run_is_an_access_of_the_widest_array(dtype: str, to: str, run: int) -> None:
    argument = np.zeros(1024, ElementType.from_text(dtype).dtype)
    kind = ElementType.from_text(to)
    grid = scheduled(lambda x: ops.convert_element_type(x, kind), argument)
    assert grid.kernel.items == 1024 // run


@pytest.mark.parametrize(
    ("sizes", "operands", "runs"),
    [
        ((1 << 21,), 1, 2),
        ((1 << 20,), 1, 1),
        ((1 << 21,), 2, 1),
        (((1 << 21) + 4,), 1, 1),
        ((1 << 11, 1 << 10), 1, 2),
    ],
)
def test_a_thread_has_two_runs_where_it_reads_one_large_array(
    sizes: tuple[int, ...], operands: int, runs: int
) -> None:
    arrays = [np.broadcast_to(np.float32(0), sizes)] * operands
    grid = scheduled(lambda *x: x[0] + x[-1], *arrays)
    assert grid.kernel.items == math.prod(sizes) // (4 * runs)


@pytest.mark.parametrize(("length", "run"), [(8, 4), (6, 2), (7, 1)])
def test_runs_divide_the_rows_that_outer_loops_go_through(length: int, run: int) -> None:
    grid = scheduled(lambda x: ops.transpose(x, [1, 0]), zeros(np.float32, length, 3))
    assert grid.kernel.items == 3 * length // run


def test_a_scalar_is_one_thread() -> None:
    assert scheduled(lambda x: ops.exp(x), zeros(np.float32)).kernel.items == 1


def test_reductions_have_another_schedule() -> None:
    kind, loop, zero = KERNEL_TYPE[ElementType.F32], Variable(3, "i"), Immediate.of("f32", 0)
    reduction = Reduction((loop,), (zero,), (), (zero,), iterations=3)
    store = Store(0, kind, Affine(0), ReductionResult(reduction, 0))
    assert elementwise_grid(Nest((), (store,), TARGET), 3) is None
