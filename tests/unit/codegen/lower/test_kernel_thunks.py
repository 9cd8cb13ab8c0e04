"""Thunks whose reads and writes are the usages of their kernel's buffers."""

from xla_contract.types.shape import parse_shape
from xla_server.buffers.code import CANCELLATION, Value
from xla_server.codegen.kernel_ir.builder import Body, Items, Loop
from xla_server.codegen.kernel_ir.expressions import Buffer, Const, Index, Usage
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.lower.kernel_thunks import buffers_of, kernel_thunk
from xla_server.ops.elementwise.elementwise_op import CostClass

VALUES = [Value(parse_shape("f32[4]"), name) for name in "abc"]
ROLES = (Usage.READ, Usage.WRITE, Usage.SCRATCH)


def _kernel(*usages: Usage) -> Kernel:
    buffers, body = tuple(map(Buffer, range(9), usages)), Body()
    body.store(buffers[1], "f32", Index(0), Const(Type.F32, (0,)))
    with Items(body, 5) as items, Loop(items, "i", 7) as loop:
        loop.store(buffers[1], "f32", loop.axis, Const(Type.F32, (0,)))
    return Kernel(buffers, (), tuple(body.statements))


def test_what_is_read_and_written_are_the_buffers_roles() -> None:
    a, b, c = VALUES
    thunk = kernel_thunk("t", _kernel(*ROLES), VALUES, in_place=((b, a),), updates=(b,))
    assert (thunk.arguments, thunk.reads, thunk.writes) == ((a, b, c), (a,), (b, c))
    assert (thunk.in_place, thunk.updates) == (((b, a),), (b,))
    assert (thunk.work, thunk.prologue, thunk.work_items) == (
        7 * CostClass.ACCESS,
        CostClass.ACCESS,
        5,
    )


def test_a_value_that_is_read_and_updated_in_place_is_two_arguments() -> None:
    a, b, _ = VALUES
    usages = Usage.READ, Usage.SCRATCH, Usage.READ
    thunk = kernel_thunk("t", _kernel(*usages), (a, a, b), updates=(a,))
    assert (thunk.arguments, thunk.reads, thunk.writes) == ((a, a, b), (b,), (a,))


def test_the_cancellation_flag_is_the_last_argument_of_kernels_that_test_it() -> None:
    thunk = kernel_thunk("t", _kernel(*ROLES, Usage.FLAG), VALUES)
    assert thunk.arguments == (*VALUES, CANCELLATION)
    assert CANCELLATION not in (*thunk.reads, *thunk.writes)


def test_buffers_are_numbered_once_with_the_cancellation_flag_last() -> None:
    a, b, c = VALUES
    buffers = buffers_of([a, b, a], [c])
    assert list(buffers) == [a, b, c, CANCELLATION]
    usages = (Usage.READ, Usage.READ, Usage.WRITE, Usage.FLAG)
    assert [(each.number, each.usage) for each in buffers.values()] == list(enumerate(usages))
    # A kernel that does not test the flag is not given it.
    assert kernel_thunk("t", _kernel(*usages[:3]), tuple(buffers)).arguments == (a, b, c)
