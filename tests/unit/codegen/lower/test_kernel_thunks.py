"""Thunks whose reads and writes are the roles of their kernel's buffers."""

from xla_contract.types.shape import parse_shape
from xla_server.buffers.code import CANCELLATION, Value
from xla_server.codegen.kernel_ir.expressions import Buffer, Role
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.loops.scheduled import ScheduledKernel
from xla_server.codegen.lower.kernel_thunks import kernel_thunk

VALUES = [Value(parse_shape("f32[4]"), name) for name in "abc"]
ROLES = (Role.READ, Role.WRITE, Role.SCRATCH)


def _scheduled(*roles: Role) -> ScheduledKernel:
    return ScheduledKernel(Kernel(tuple(map(Buffer, range(9), roles)), (), ()), 7, 3, {})


def test_what_is_read_and_written_are_the_buffers_roles() -> None:
    a, b, c = VALUES
    thunk = kernel_thunk("t", _scheduled(*ROLES), VALUES, in_place=((b, a),), updates=(b,))
    assert (thunk.arguments, thunk.reads, thunk.writes) == ((a, b, c), (a,), (b, c))
    assert (thunk.in_place, thunk.updates) == (((b, a),), (b,))
    assert (thunk.work, thunk.prologue, thunk.work_items) == (7, 3, 1)


def test_the_cancellation_flag_is_the_last_argument_of_kernels_that_test_it() -> None:
    thunk = kernel_thunk("t", _scheduled(*ROLES, Role.WORD), VALUES)
    assert thunk.arguments == (*VALUES, CANCELLATION)
    assert CANCELLATION not in (*thunk.reads, *thunk.writes)
