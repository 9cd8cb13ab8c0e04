"""Lowering of select-and-scatter for a GPU: a thread for each window, then one for each element.

The first kernel stores the position that each window selects: a thread visits the whole window, as
`select` may be any function. The second one visits the windows around an element, in the order of
their sources, and combines the sources of those that selected it. Work: twice the elements of a
window for each position; one thread visits a window of any size.
"""

from contextlib import ExitStack

from xla_contract.types.shape import Shape
from xla_server.buffers.code import Value as Array
from xla_server.codegen.gpu.lower.indexing.merging import integer_type
from xla_server.codegen.gpu.lower.thunks.thread_thunks import ThreadKernel
from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.builder import Body, Branch, Items, Loop, positions
from xla_server.codegen.lower.indexing.scatter_kernel import flat_index
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.codegen.lower.reduction.select_and_scatter import select
from xla_server.codegen.schedules.builders.scalar_builder import (
    apply_computation,
    load_element,
    store_element,
)
from xla_server.ir.module import HloInstruction


def lower_select_and_scatter(lowering: Lowering, i: HloInstruction) -> Tree:
    """The positions that windows select, and the sources of each element."""
    result = lowering.new(i.shape, i.name)
    if not i.shape.element_count:
        return result
    operand, source, initial = (lowering.array(each) for each in i.operands)
    count = i.operands[1].shape.element_count
    kind = integer_type(i.shape.element_count)
    chosen = lowering.new(Shape.array(kind, (count,)), f"{i.name}.chosen")
    if count:
        _select(lowering, i, operand, chosen)
    _collect(lowering, i, (source, initial, chosen), result)
    return result


def _select(lowering: Lowering, i: HloInstruction, operand: Array, chosen: Array) -> None:
    """Add the kernel of the position that each window selects, -1 where it has no element."""
    kernel = ThreadKernel(f"{i.name}.chosen")
    sources = i.operands[1].shape.dimensions
    with Items(kernel.top, chosen.shape.element_count) as body:
        at = positions(body, kernel.names, body.axis, sources, "position")
        selected = select(i, body, kernel.names, kernel.reads(operand), at)
        kernel.store_integer(body, chosen, body.axis, selected)
    lowering.add(kernel.thunk())


def _collect(
    lowering: Lowering, i: HloInstruction, values: tuple[Array, Array, Array], result: Array
) -> None:
    """Add the kernel that combines the sources of each element, in their order."""
    source, initial, chosen = values
    kernel = ThreadKernel(i.name)
    kind, made = i.operands[1].shape.element_type, i.shape.element_type
    sizes, sources = i.shape.dimensions, i.operands[1].shape.dimensions
    start = load_element(i.operands[2].shape.element_type, kernel.reads(initial), 0)
    first = kernel.top.let("initial", start)
    with Items(kernel.top, i.shape.element_count) as body:
        position = positions(body, kernel.names, body.axis, sizes, "position")
        total = body.declare("total", first)
        with ExitStack() as opened:
            inner: Body = body
            at: list[ir.Expression] = []
            for n, d in enumerate(i.attributes.window.dimensions if 0 not in sources else ()):
                # Windows o with o * stride - padding <= position < o * stride - padding + size.
                ahead = ir.plus(position[n], d.padding_low)
                low = ir.integer_op("maximum", ir.plus(ahead, d.stride - d.size), 0)
                low = ir.integer_op("whole_div", low, d.stride)
                high = ir.plus(
                    ir.integer_op("whole_div", ir.integer_op("maximum", ahead, 0), d.stride), 1
                )
                end = ir.integer_op("minimum", high, sources[n])
                iterations = -(-d.size // d.stride)
                loop = Loop(inner, kernel.names("o"), end, low, iterations=iterations)
                inner = opened.enter_context(loop)
                at.append(loop.axis)
            if at or not sizes:
                number = inner.let("number", flat_index(at, sources))
                is_own = ir.condition("eq", kernel.load_integer(chosen, number), body.axis)
                with Branch(inner, is_own) as branch:
                    new = branch.let("new", load_element(kind, kernel.reads(source), number))
                    old = branch.let("old", total)
                    (combined,) = apply_computation(
                        branch, kernel.names, i.called[1], [(old, made), (new, kind)], [made]
                    )
                    branch.set(total, combined)
        store_element(body, made, kernel.writes(result), body.axis, total)
    lowering.add(kernel.thunk())
