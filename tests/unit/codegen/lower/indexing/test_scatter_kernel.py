"""Kernels of scatters as they are built."""

import math

import numpy as np

from tests.building import scalars
from tests.processors import TARGET
from tests.unit.codegen.compiled import built
from xla_client import ops
from xla_contract.types.dimension_numbers import ScatterDimensionNumbers
from xla_server.buffers.code import CANCELLATION, KernelThunk
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import For
from xla_server.codegen.kernel_ir.walk import walk
from xla_server.codegen.lower.lowering import lower
from xla_server.codegen.lower.lowerings import LOWERINGS


def kernel(
    numbers: ScatterDimensionNumbers,
    sizes: tuple[int, ...],
    vectors: tuple[int, ...],
    updates: tuple[int, ...],
) -> KernelThunk:
    """The kernel of a scatter that adds."""
    add = scalars(ops.add, "f4", "f4")
    arguments = [np.zeros(each, np.float32) for each in (sizes, vectors, updates)]
    arguments[1] = arguments[1].astype(np.int32)
    module = built(lambda x, i, u: ops.scatter(x, i, u, add, numbers), arguments)
    *_, found = (
        thunk for thunk in lower(module, LOWERINGS, TARGET).thunks if isinstance(thunk, KernelThunk)
    )
    return found


ROWS = ScatterDimensionNumbers((1,), (0,), (0,), 1)
BOXES = ScatterDimensionNumbers((1, 2), (0,), (0, 1, 2), 1)


def test_ranges_look_whether_to_stop_at_each_list_and_inside_of_large_windows() -> None:
    short = kernel(ROWS, (70_000, 16), (3000, 1), (3000, 16))
    assert short.work_items == 2
    assert CANCELLATION not in short.arguments
    # One range may have the updates of all.
    many = kernel(ROWS, (70_000, 16), (80_000, 1), (80_000, 16))
    assert many.work < math.prod((8, 80_000, 16))
    assert many.source.count("watch_i64") == 1
    large = kernel(BOXES, (4, 300, 301), (20, 3), (20, 200, 299))
    assert large.source.count("watch_i64") == 2


def test_a_work_item_lists_as_many_vectors_as_it_does_between_two_looks() -> None:
    assert "alloca(8192)" in kernel(ROWS, (70_000, 16), (40_000, 1), (40_000, 16)).source
    assert "alloca(8)" in kernel(BOXES, (4, 300, 301), (20, 3), (20, 200, 299)).source
    assert "alloca(64)" in kernel(BOXES, (9, 50, 51), (20, 3), (20, 40, 49)).source


def test_only_loops_round_the_last_one_are_unrolled() -> None:
    found = kernel(BOXES, (9, 30, 30), (50, 3), (50, 3, 7)).kernel
    assert isinstance(found, Kernel)
    loops = {s.axis.name: s.unrolled for s, _ in walk(found.body) if isinstance(s, For)}
    assert loops == {"u0": False, "u1": True, "u2": False}
