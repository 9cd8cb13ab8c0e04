"""Thunks of loop-IR kernels, with reads and writes derived from the kernels' buffers."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from xla_server.buffers.code import CANCELLATION, KernelCode, KernelThunk, Value
from xla_server.codegen.kernel_ir.builder import Body
from xla_server.codegen.kernel_ir.expressions import Buffer, Usage
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.simplifier import simplify
from xla_server.codegen.schedules.builders.launches.stopping import polling_if_long


def kernel_thunk(
    name: str,
    kernel: Kernel,
    arguments: Sequence[Value],
    *,
    in_place: tuple[tuple[Value, Value], ...] = (),
    updates: tuple[Value, ...] = (),
    launched: Callable[[Kernel], KernelCode] | None = None,
) -> KernelThunk:
    """Return the thunk that calls a kernel on these arguments, simplified.

    The cancellation flag is appended to them if the kernel polls it and it is not among them.
    `launched` adds launch parameters to the simplified kernel.
    """
    kernel = simplify(kernel)
    values = (*arguments,) if CANCELLATION in arguments else (*arguments, CANCELLATION)

    def of(*usages: Usage) -> tuple[Value, ...]:
        return tuple(values[buffer.number] for buffer in kernel.buffers if buffer.usage in usages)

    operands = values if of(Usage.FLAG) else tuple(arg for arg in values if arg is not CANCELLATION)
    work, prologue = kernel.work.times
    return KernelThunk(
        name,
        launched(kernel) if launched else kernel,
        kernel.items,
        work,
        operands,
        reads=tuple(value for value in of(Usage.READ) if value not in updates),
        writes=of(Usage.WRITE, Usage.SCRATCH),
        in_place=in_place,
        updates=updates,
        prologue=prologue,
    )


def buffers_of(read: Iterable[Value], written: Iterable[Value]) -> dict[Value, Buffer]:
    """Return the buffers of values that a kernel reads or writes, and of the cancellation flag."""
    usages = dict.fromkeys(read, Usage.READ) | dict.fromkeys(written, Usage.WRITE)
    usages[CANCELLATION] = Usage.FLAG
    return {value: Buffer(n, usage) for n, (value, usage) in enumerate(usages.items())}


def watched_thunk(
    name: str,
    read: Iterable[Value],
    written: Iterable[Value],
    build: Callable[[Body, Mapping[Value, Buffer], Buffer | None], None],
) -> KernelThunk:
    """Return the thunk of a kernel that polls the cancellation flag if its work items are long.

    `build` appends the statements, from the buffers of values and that of the flag, if it is
    polled.
    """
    buffers = buffers_of(read, written)

    def kernel(polls: bool) -> Kernel:
        top, (*others, flag) = Body(), buffers.values()
        build(top, buffers, flag if polls else None)
        return Kernel((*others, flag) if polls else (*others,), (), tuple(top.statements))

    return kernel_thunk(name, polling_if_long(kernel), tuple(buffers))
