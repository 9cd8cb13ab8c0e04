"""Kernels over the matrices of a batch: slots, memory for each, and what is read and written."""

from typing import Any

import pytest

from tests.unit.codegen.lower.lowered import AVX2
from tests.unit.passes.passing import stated
from xla_contract.types.element_type import ElementType
from xla_server.buffers.code import CANCELLATION, CopyThunk, KernelThunk, Value
from xla_server.codegen.lower.linear_algebra.matrix_kernel import MatrixKernel, option, real
from xla_server.codegen.lower.lowering import Lowering
from xla_server.ops.elementwise.elementwise_op import CostClass

SLOTS = AVX2.tuning.linear_algebra.row_slots


class _Given(Lowering):
    """A lowering that knows the operands of one instruction."""

    def __init__(self, *shapes: str) -> None:
        super().__init__({}, AVX2)
        parameters = ", ".join(f"x{n}" for n in range(len(shapes)))
        target = 'custom_call_target="t", backend_config="{side = 82 : ui8}"'
        version = "api_version=API_VERSION_TYPED_FFI"
        root = f"{shapes[0]} custom-call({parameters}), {target}, {version}"
        self.root = stated(list(shapes), root).entry.root
        self._scope: dict[Any, Any] = {
            operand: Value(operand.shape, operand.name) for operand in self.root.operands
        }


def _kernel(*shapes: str) -> tuple[MatrixKernel, _Given]:
    given = _Given(*shapes)
    return MatrixKernel(given, given.root), given


@pytest.mark.parametrize("count", [1, SLOTS, 5 * SLOTS + 1])
def test_a_batch_is_divided_among_slots_with_memory_of_their_own(count: int) -> None:
    k, given = _kernel(f"f32[{count},3,4]")
    assert (k.count, k.core, k.computed) == (count, (3, 4), "f32")
    k.from_column_major(k.to_column_major(0), 0)
    k.done()
    (thunk,) = given.thunks
    assert isinstance(thunk, KernelThunk)
    slots = min(count, SLOTS)
    assert thunk.work_items == slots
    workspace, result = sorted(thunk.writes, key=lambda value: value.name, reverse=True)
    assert (workspace.shape.dimensions, result.shape.dimensions) == ((slots, 12), (count, 3, 4))
    # Elements are loaded and stored twice.
    assert thunk.work == 4 * 12 * CostClass.ACCESS * -(-count // slots)


def test_a_result_that_changes_begins_as_a_copy_of_an_operand() -> None:
    k, given = _kernel("f32[2,3,3]", "f32[2,3,3]")
    k.read(1)
    k.change(0, 0)
    k.done()
    copy, thunk = given.thunks
    assert isinstance(copy, CopyThunk)
    assert isinstance(thunk, KernelThunk)
    assert copy.source is given.array(given.root.operands[0])
    assert thunk.reads == (given.array(given.root.operands[1]),)
    assert thunk.writes == thunk.updates == (copy.target,)


def test_matrices_without_scratch_memory_may_be_done_in_parts() -> None:
    k, given = _kernel("f32[3,8,8]")
    with k.loop(100) as i:
        k.store("f32", k.write(), i, real("f32", 0))
    k.parts = 4
    k.done()
    (thunk,) = given.thunks
    assert isinstance(thunk, KernelThunk)
    assert (thunk.work_items, thunk.work) == (12, 100 * CostClass.ACCESS)


def test_long_work_tests_the_cancellation_flag_between_matrices() -> None:
    for stores, is_tested in ((1, False), (10**9, True)):
        k, given = _kernel(f"f32[{2 * SLOTS},3,3]")
        with k.loop(stores):
            k.store("f32", k.write(), 0, real("f32", 0))
        k.done()
        (thunk,) = given.thunks
        assert isinstance(thunk, KernelThunk)
        assert (CANCELLATION in thunk.arguments) is is_tested


def test_the_real_type_of_the_same_precision() -> None:
    assert _kernel("c64[3,3]")[0].real is ElementType.F32
    assert _kernel("f64[3,3]")[0].real is ElementType.F64


def test_options_are_letters() -> None:
    assert option(_kernel("f32[3,3]")[1].root, "side") == "R"
