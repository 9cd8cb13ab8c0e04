"""Lowering of scatter: one kernel over the updates, parallel if that changes no result."""

from xla_server.buffers.code import CANCELLATION
from xla_server.codegen.kernel_ir.expressions import Buffer
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.lower.indexing.scatter_kernel import Arguments, Combination, ScatterKernel
from xla_server.codegen.lower.indexing.scatter_space import UPDATE_WORK, Ranges, Space
from xla_server.codegen.lower.kernel_thunks import buffers_of, kernel_thunk
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.codegen.schedules.builders.launches.stopping import is_long
from xla_server.ir.module import HloInstruction


def lower_scatter(lowering: Lowering, i: HloInstruction) -> Tree:
    """Copy the operands, unless they may be overwritten, and combine the updates."""
    count = len(i.operands) // 2
    results = lowering.results(i)
    shapes = [result.shape for result in results]
    operands = tuple(lowering.array(operand) for operand in i.operands)
    lowering.copy(results, operands[:count])
    updates = i.operands[count + 1].shape
    if not updates.element_count or not shapes[0].element_count:
        return results if i.shape.is_tuple else results[0]
    types = [shape.element_type for shape in shapes]
    combiner = Combination.of(
        i.called[0], types, [value.shape.element_type for value in operands[count + 1 :]]
    )
    space = Space.of(i.attributes.dimension_numbers, shapes[0], updates)
    tuned = lowering.target.tuning.scatters
    width = max(kind.byte_width for kind in types)
    # A statement of a combiner takes about two additions.
    weight = 1 + 2 * len(combiner.statements) // UPDATE_WORK
    division = space.division(i.attributes.unique_indices, weight, width, tuned)
    buffers = buffers_of(operands[count:], results)
    flag = buffers.pop(CANCELLATION)
    indices, *new = (buffers[value] for value in operands[count:])
    numbers, shape = i.attributes.dimension_numbers, i.operands[count].shape

    def build(*flag: Buffer) -> Kernel:
        memory = Arguments(indices, [buffers[value] for value in results], new, *(flag or (None,)))
        kernel = ScatterKernel(space, numbers, shape, memory, combiner, tuned)
        return kernel.kernel([*buffers.values(), *flag], division)

    kernel = build()
    # All index vectors may be in one of the ranges.
    if is_long(kernel, kernel.items if isinstance(division, Ranges) else 1):
        kernel = build(flag)
    lowering.add(kernel_thunk(i.name, kernel, tuple(buffers), updates=results))
    return results if i.shape.is_tuple else results[0]
