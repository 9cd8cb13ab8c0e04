"""Thunks of kernels whose work items are threads of a GPU."""

import dataclasses
from collections.abc import Sequence

from xla_server.buffers.code import KernelThunk, Value
from xla_server.codegen.gpu.grid import GridKernel, index_bits
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.lower.kernel_thunks import kernel_thunk
from xla_server.target.gpu import MAX_BLOCK_THREADS


def thread_thunk(
    name: str, kernel: Kernel, arguments: Sequence[Value], *, updates: tuple[Value, ...] = ()
) -> KernelThunk:
    """Return the thunk that launches a kernel on these arguments, with a thread for each item.

    Indices have the bits that numbers of threads and of elements of every argument take.
    """
    thunk = kernel_thunk(name, kernel, arguments, updates=updates)
    counts = [value.shape.element_count for value in arguments]
    bits = index_bits(max(kernel.items + MAX_BLOCK_THREADS, *counts))
    return dataclasses.replace(thunk, kernel=GridKernel(kernel, index_bits=bits))
