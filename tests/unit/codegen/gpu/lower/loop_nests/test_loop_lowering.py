"""Loop nests of a program as kernels for a GPU: results, where they stand, and counts."""

import numpy as np
import pytest

from tests.cuda_twin.lowered import grids, lowered, results_of
from tests.unit.codegen.compiled import built, interpreted
from xla_client import Op, ops
from xla_server.buffers.code import CopyThunk, KernelThunk
from xla_server.codegen.gpu.grid import GridKernel
from xla_server.codegen.gpu.lower.loop_nests.loop_lowering import units_of
from xla_server.target.gpu.properties import COUNTED_LANES

FLOATS = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_a_result_may_be_where_its_operand_was() -> None:
    (thunk,) = lowered(built(lambda x: ops.exp(x), (FLOATS,))).thunks
    assert isinstance(thunk, KernelThunk)
    assert isinstance(thunk.kernel, GridKernel)
    assert thunk.in_place == ((thunk.writes[0], thunk.reads[0]),)


def test_a_result_that_reads_its_operand_elsewhere_may_not() -> None:
    (thunk,) = lowered(built(lambda x: ops.rev(x, (0,)), (FLOATS,))).thunks
    assert isinstance(thunk, KernelThunk)
    assert thunk.in_place == ()


@pytest.mark.parametrize("start", [-3, 1, 7])
def test_an_update_is_a_copy_and_a_kernel_over_the_box(start: int) -> None:
    def updated(x: Op, box: Op, at: Op) -> Op:
        return ops.dynamic_update_slice(x, box, (at, at))

    arguments = FLOATS, np.full((2, 2), -1, np.float32), np.int32(start)
    module = built(updated, arguments)
    code = lowered(module)
    copy, kernel = code.thunks
    assert isinstance(copy, CopyThunk)
    assert isinstance(kernel, KernelThunk)
    assert kernel.updates == (copy.target,)
    assert kernel.work_items <= 4
    (ours,), (expected,) = results_of(module, code, arguments), interpreted(module, arguments)
    assert ours.tobytes() == expected.tobytes()


def test_arrays_without_elements_launch_nothing() -> None:
    assert lowered(built(lambda x: ops.exp(x), (FLOATS[:0],))).thunks == []


def test_the_time_of_few_threads_is_that_of_one() -> None:
    few, many = (
        grids(lowered(built(lambda x: ops.exp(x), (np.zeros(size, np.float32),))))[0].kernel
        for size in (COUNTED_LANES, 8 * COUNTED_LANES)
    )
    assert units_of(few) == pytest.approx(few.work.item.time)
    assert units_of(many) == pytest.approx(2 * many.work.item.time)
