"""Kernels of scatters as they are built."""

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
        row for row in lower(module, LOWERINGS, TARGET).thunks if isinstance(row, KernelThunk)
    )
    return found


ROWS = ScatterDimensionNumbers((1,), (0,), (0,), 1)
BOXES = ScatterDimensionNumbers((1, 2), (0,), (0, 1, 2), 1)


def test_long_scatters_look_whether_to_stop() -> None:
    short = kernel(ROWS, (70_000, 16), (3000, 1), (3000, 16))
    assert CANCELLATION not in short.arguments
    for long in (
        kernel(ROWS, (70_000, 16), (200_000, 1), (200_000, 16)),
        kernel(BOXES, (4, 300, 301), (50, 3), (50, 200, 299)),
    ):
        assert long.source.count("watch_i64") == 1


def test_only_loops_round_the_last_one_are_unrolled() -> None:
    found = kernel(BOXES, (9, 30, 30), (50, 3), (50, 3, 7)).kernel
    assert isinstance(found, Kernel)
    loops = {s.axis.name: s.unrolled for s, _ in walk(found.body) if isinstance(s, For)}
    assert loops == {"u0": False, "u1": True, "u2": False}
