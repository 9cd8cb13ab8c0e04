"""Horizontal fusion of kernels into one: each has its own blocks of the grid."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from xla_server.codegen.gpu.grid import GridKernel, index_bits
from xla_server.codegen.kernel_ir.expressions import Buffer, Cell, Index, SharedArray, Value
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.routine import Routine
from xla_server.codegen.kernel_ir.statements import Let, ParallelFor
from xla_server.codegen.kernel_ir.types import Type
from xla_server.target.gpu.properties import STATIC_SHARED_BYTES, WARP


def joined_grid(grids: Sequence[GridKernel], numbers: Sequence[Sequence[int]]) -> GridKernel | None:
    """Return one kernel for all of these; None if block sizes, shared memory or efforts conflict.

    Nor is there one if a kernel has arrays on the stack, or statements beside its parallel loops.
    `numbers` has, for each kernel, the arguments that its buffers become. A kernel with barriers
    decides the number of threads of a block, and the others use the same.
    """
    fixed = {grid.threads for grid in grids if _meets_in_blocks(grid)}
    threads = max(fixed or {grid.threads for grid in grids})
    shared = sum(array.byte_size for grid in grids for array in grid.kernel.shared)
    efforts = {grid.kernel.effort for grid in grids}
    if len(fixed) > 1 or shared > STATIC_SHARED_BYTES or len(efforts) > 1:
        return None
    if not all(_is_loops_alone(grid.kernel) for grid in grids):
        return None
    buffers: dict[int, Buffer] = {}
    arrays: list[SharedArray] = []
    body: list[ParallelFor] = []
    first = 0
    for number, (grid, indices) in enumerate(zip(grids, numbers, strict=True)):
        known: dict[Any, Any] = {
            each: buffers.setdefault(indices[each.number], Buffer(indices[each.number], each.usage))
            for each in grid.kernel.buffers
        }
        for array in grid.kernel.shared:
            known[array] = SharedArray(f"{array.name}_{number}", array.byte_size)
            arrays.append(known[array])
        own = _renamed(grid.kernel.parts, f"_{number}", known)
        body += [_moved(part, first, f"_{number}_{n}") for n, part in enumerate(own)]
        first += grid.kernel.items
        idle = -first % threads
        if idle and number < len(grids) - 1:
            # The next kernel begins with a new block.
            body.append(ParallelFor(Value(f"idle_{number}", Type.I64), idle, (), first))
            first += idle
    ordered = tuple(buffers[number] for number in sorted(buffers))
    kernel = Kernel(ordered, (), tuple(body), efforts.pop(), tuple(arrays))
    bits = max(index_bits(first), *(grid.index_bits for grid in grids))
    return GridKernel(kernel, threads, bits)


def _is_loops_alone(kernel: Kernel) -> bool:
    return not kernel.stack and len(kernel.parts) == len(kernel.body)


def _meets_in_blocks(grid: GridKernel) -> bool:
    """Return whether the threads of a block meet at a barrier or share memory."""
    return bool(grid.kernel.shared) or any(part.group > WARP for part in grid.kernel.parts)


def _moved(part: ParallelFor, first: int, suffix: str) -> ParallelFor:
    """Return a parallel loop whose threads begin later, with unchanged item numbers."""
    if not first or part.axis is None:
        return dataclasses.replace(part, first=part.first + first)
    axis = Value(f"joined{suffix}", part.axis.type)
    own = Let(part.axis, Index(-first, ((axis, 1),)))
    return dataclasses.replace(part, axis=axis, first=part.first + first, body=(own, *part.body))


def _renamed(part: Any, suffix: str, known: dict[Any, Any]) -> Any:
    """Return a statement or expression with renamed values and memory."""
    if isinstance(part, Value | Cell) and part not in known:
        known[part] = type(part)(f"{part.name}{suffix}", part.type)
    if isinstance(part, Value | Cell | Buffer | SharedArray):
        return known[part]
    if isinstance(part, tuple):
        return tuple(_renamed(each, suffix, known) for each in part)
    if not dataclasses.is_dataclass(part) or isinstance(part, Routine):
        return part
    fields = {each.name: getattr(part, each.name) for each in dataclasses.fields(part)}
    form: Any = type(part)
    return form(**{name: _renamed(each, suffix, known) for name, each in fields.items()})
