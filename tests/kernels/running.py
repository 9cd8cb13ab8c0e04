"""Kernels of programs run by themselves, on arguments that are drawn."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tests.example_platform.routines.table import is_in_any_order
from xla_server.buffers.code import KernelThunk, Value
from xla_server.codegen.kernel import LoadedKernel
from xla_server.codegen.kernel_ir.expressions import Apply, Usage
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import Accumulate, Call, Order
from xla_server.codegen.kernel_ir.walk import read_by, walk
from xla_server.runtime.native import callable_at

Bytes = np.ndarray[Any, Any]
Constants = Mapping[Value, Any]


def arguments_of(thunk: KernelThunk, constants: Constants) -> list[Bytes]:
    """Return constants, small numbers for other arguments, and 0 for the cancellation flag."""
    random = np.random.default_rng(0)
    # Sums of whole numbers are exact in any order; those of others with both signs have no error
    # bound, and the transforms of a convolution subtract even where all arguments are positive.
    is_exact = isinstance(thunk.kernel, Kernel) and has_open_order(thunk.kernel)
    found = []
    for value in thunk.arguments:
        count, dtype = max(1, value.shape.element_count), value.shape.element_type.dtype
        numbers = random.integers(0, 5, count).astype(dtype)
        if value.shape.element_type.is_floating:
            drawn = random.integers(1, 5, count) if is_exact else random.uniform(-1.5, 4, count)
            numbers = drawn.astype(dtype)
        if value in constants:
            numbers = np.array(constants[value])
        is_data = value in (*thunk.reads, *thunk.writes, *constants)
        found.append((numbers if is_data else numbers * 0).view(np.uint8))
    return found


def results_of(thunk: KernelThunk) -> set[Value]:
    """Return the arguments but scratch memory, which has no defined content after a routine."""
    assert isinstance(thunk.kernel, Kernel)
    scratch = {each.number for each in thunk.kernel.buffers if each.usage is Usage.SCRATCH}
    return {value for number, value in enumerate(thunk.arguments) if number not in scratch}


def run_compiled(kernel: LoadedKernel, thunk: KernelThunk, arguments: Sequence[Bytes]) -> None:
    """Run all work items of a kernel that was compiled."""
    table = np.array([array.ctypes.data for array in arguments])
    callable_at(kernel.address, 3)(table.ctypes.data, 0, thunk.work_items)


def has_open_order(kernel: Kernel) -> bool:
    """Return whether a kernel leaves the order of some additions or products to LLVM."""
    for statement, _ in walk(kernel.body):
        if isinstance(statement, Accumulate) and statement.order is Order.ANY:
            return True
        if isinstance(statement, Call) and is_in_any_order(statement.routine.name):
            return True
        if any(isinstance(e, Apply) and "in_any_order" in e.function for e in read_by(statement)):
            return True
    return False
