"""Thunks of kernels of the loop IR: what they read and write is what their buffers say."""

from collections.abc import Iterable, Sequence

from xla_server.buffers.code import CANCELLATION, KernelThunk, Value
from xla_server.codegen.kernel_ir.expressions import Buffer, Role
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.simplifier import simplify


def kernel_thunk(
    name: str,
    kernel: Kernel,
    arguments: Sequence[Value],
    *,
    in_place: tuple[tuple[Value, Value], ...] = (),
    updates: tuple[Value, ...] = (),
) -> KernelThunk:
    """Return the thunk that calls a kernel on these arguments, simplified.

    The cancellation flag is added behind them if the kernel tests it and it is not among them.
    """
    kernel = simplify(kernel)
    values = tuple(dict.fromkeys([*arguments, CANCELLATION]))

    def of(*roles: Role) -> tuple[Value, ...]:
        return tuple(values[buffer.number] for buffer in kernel.buffers if buffer.role in roles)

    given = values if of(Role.WORD) else tuple(arg for arg in values if arg is not CANCELLATION)
    work, prologue = kernel.work.times
    return KernelThunk(
        name,
        kernel,
        kernel.items,
        work,
        given,
        reads=of(Role.READ),
        writes=of(Role.WRITE, Role.SCRATCH),
        in_place=in_place,
        updates=updates,
        prologue=prologue,
    )


def buffers_of(read: Iterable[Value], written: Iterable[Value]) -> dict[Value, Buffer]:
    """Return the buffers of values that a kernel reads or writes, and of the cancellation flag."""
    roles = dict.fromkeys(read, Role.READ) | dict.fromkeys(written, Role.WRITE)
    roles[CANCELLATION] = Role.WORD
    return {value: Buffer(n, role) for n, (value, role) in enumerate(roles.items())}
