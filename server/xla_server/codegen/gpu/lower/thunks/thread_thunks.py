"""Thunks of kernels whose work items are threads of a GPU."""

from collections.abc import Sequence

from xla_server.buffers.code import KernelThunk, Value
from xla_server.codegen.gpu.grid import GridKernel, index_bits
from xla_server.codegen.gpu.stopping import stoppable
from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.builder import Body, Names
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.lower.kernel_thunks import kernel_thunk
from xla_server.codegen.schedules.builders.scalar_builder import load_element
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.target.gpu.properties import BLOCK_THREADS, MAX_BLOCK_THREADS


def thread_thunk(
    name: str,
    kernel: Kernel,
    arguments: Sequence[Value],
    *,
    in_place: tuple[tuple[Value, Value], ...] = (),
    updates: tuple[Value, ...] = (),
    threads: int = BLOCK_THREADS,
    polls: bool = True,
) -> KernelThunk:
    """Return the thunk that launches a kernel on these arguments, with a thread for each item.

    Unless it `polls`, a kernel does not poll the cancellation flag: other kernels use its results
    as unchecked indices or addresses. Indices have enough bits for the threads and for the elements
    of every argument.
    """
    if polls:
        kernel = stoppable(kernel, len(arguments))
    counts = [value.shape.element_count for value in arguments]
    bits = index_bits(max(kernel.items + MAX_BLOCK_THREADS, *counts))
    return kernel_thunk(
        name,
        kernel,
        arguments,
        in_place=in_place,
        updates=updates,
        launched=lambda simplified: GridKernel(simplified, threads, bits),
    )


class ThreadKernel:
    """Builder of a kernel, with the values of its buffers."""

    def __init__(self, name: str) -> None:
        self.names, self.top = Names(), Body()
        self._name = name
        self._buffers: dict[Value, ir.Buffer] = {}
        self._updates: list[Value] = []

    def reads(self, value: Value) -> ir.Buffer:
        """Return the buffer of a value that is read."""
        return self._buffer(value, ir.Usage.READ)

    def writes(self, value: Value) -> ir.Buffer:
        """Return the buffer of a value that is wholly written."""
        return self._buffer(value, ir.Usage.WRITE)

    def updates(self, value: Value) -> ir.Buffer:
        """Return the buffer of a value that is partly written; its other elements remain."""
        if value not in self._updates:
            self._updates.append(value)
        return self._buffer(value, ir.Usage.WRITE)

    def _buffer(self, value: Value, usage: ir.Usage) -> ir.Buffer:
        return self._buffers.setdefault(value, ir.Buffer(len(self._buffers), usage))

    def load_integer(self, value: Value, index: ir.Expression) -> ir.Expression:
        """Return an element of a value that is read, as an i64."""
        return ir.integer_op(
            "to_i64", load_element(value.shape.element_type, self.reads(value), index)
        )

    def store_integer(
        self, body: Body, value: Value, index: ir.Expression, number: ir.Expression
    ) -> None:
        """Store an i64 as an element of a value of 32 or 64 bits."""
        kind = Type(KERNEL_TYPE[value.shape.element_type].storage)
        body.store(self.writes(value), kind, index, ir.Apply(f"to_{kind}", (number,), kind))

    def thunk(
        self,
        shared: Sequence[ir.SharedArray] = (),
        threads: int = BLOCK_THREADS,
        *,
        polls: bool = True,
    ) -> KernelThunk:
        """Return the thunk of the kernel, with arrays that blocks of `threads` threads share."""
        buffers, body = tuple(self._buffers.values()), tuple(self.top.statements)
        kernel = Kernel(buffers, (), body, shared=tuple(shared))
        return thread_thunk(
            self._name,
            kernel,
            tuple(self._buffers),
            updates=tuple(self._updates),
            threads=threads,
            polls=polls,
        )
