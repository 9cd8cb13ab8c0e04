"""Kernels of synthetic instructions, which prepare arrays for a library."""

from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.buffers.code import Value
from xla_server.codegen.gpu.lower.loop_nests.loop_lowering import grid_loop_kernel
from xla_server.codegen.lower.loop_nests.loop_kernel import LoopTask
from xla_server.codegen.lower.lowering import Lowering
from xla_server.ir.module import HloInstruction


def array_of(shape: Shape) -> HloInstruction:
    """Return an instruction that represents a value with this shape."""
    return HloInstruction("array", 0, Opcode.PARAMETER, shape.without_layout())


def add_computed(
    lowering: Lowering,
    source: HloInstruction,
    value: Value,
    root: HloInstruction,
    target: Value | None = None,
) -> Value:
    """Add the kernel of an instruction and its transitive operands, up to `source`, a value.

    Returns the result: `target`, or a new value.
    """
    result = target or lowering.new(root.shape, root.name)
    task = LoopTask(root, root, {source: value}, (result,), root.name, (0,), lowering.target)
    for thunk in grid_loop_kernel(task).thunks:
        lowering.add(thunk)
    return result
