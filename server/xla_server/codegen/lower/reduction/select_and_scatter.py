"""Lowering of select-and-scatter: a walk over the windows, in the order of the sources.

Sources that select the same position are combined in order, so work items can only split a
dimension in which each window is one element, at the index of its source.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from xla_contract.types.dimension_numbers import WindowDimension
from xla_contract.types.element_type import ElementType
from xla_server.buffers.code import Value
from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.builder import Body, Branch, Items, Loop, Names
from xla_server.codegen.kernel_ir.statements import Stop
from xla_server.codegen.lower.indexing.scatter_kernel import flat_index
from xla_server.codegen.lower.kernel_thunks import watched_thunk
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.codegen.schedules.builders.launches.stopping import span_of
from xla_server.codegen.schedules.builders.scalar_builder import (
    apply_computation,
    load_element,
    store_element,
)
from xla_server.ir.module import HloInstruction


def lower_select_and_scatter(lowering: Lowering, i: HloInstruction) -> Tree:
    """Add kernels that set the initial value, and combine each source at its window's selection."""
    result = lowering.new(i.shape, i.name)
    if not i.shape.element_count:
        return result
    values = tuple(lowering.array(operand) for operand in i.operands)
    window, sizes = i.attributes.window.dimensions, i.shape.dimensions
    own = [n for n, d in enumerate(window) if d == WindowDimension(1) and sizes[n] > 1]
    split = min(own, default=-1)
    columns = lowering.target.tuning.scatters.selected_columns
    block = columns if split == len(sizes) - 1 else 1
    items = -(-sizes[split] // block) if own else 1

    def build(top: Body, buffers: Mapping[Value, ir.Buffer], flag: ir.Buffer | None) -> None:
        memory = [buffers[value] for value in (*values, result)]
        _build(i, top, memory, flag, (split, block, items))

    lowering.add(watched_thunk(i.name, values, [result], build))
    return result


def _build(
    i: HloInstruction,
    top: Body,
    memory: Sequence[ir.Buffer],
    flag: ir.Buffer | None,
    division: tuple[int, int, int],
) -> None:
    """Build the kernel over the operand, the source, the initial value and the result.

    `division` is the dimension that work items share, the neighbours in each, and how many.
    """
    operand, source, first, result = memory
    split, block, items = division
    kind, made = (part.shape.element_type for part in (i.operands[1], i))
    sizes, sources = i.shape.dimensions, i.operands[1].shape.dimensions
    names = Names()
    initial = top.let("initial", load_element(i.operands[2].shape.element_type, first, 0))
    with Items(top, items) as body:
        low, end = ir.Index(0, ((body.axis, block),)), ir.Index(block, ((body.axis, block),))
        part = split, (low, ir.integer_op("minimum", end, sizes[split] if sizes else 1))
        with ExitStack() as opened:
            position, inner = _open_loops(opened, body, "r", sizes, part)
            store_element(inner, made, result, flat_index(position, sizes), initial)
        polled = -1
        if flag:
            polled, _ = span_of([block if n == split else d for n, d in enumerate(sources)])
            # A poll for each element of the last dimension would cost too much.
            polled = min(polled, len(sources) - 2)
        with ExitStack() as opened:
            stop = None if flag is None else Stop(flag), polled
            at, inner = _open_loops(opened, body, "o", sources, part, stop)
            selected = select(i, inner, names, operand, at)
            with Branch(inner, ir.condition("ge", selected, 0)) as branch:
                old = branch.let("old", load_element(made, result, selected))
                new = branch.let("new", load_element(kind, source, flat_index(at, sources)))
                (combined,) = apply_computation(
                    branch, names, i.called[1], [(old, made), (new, kind)], [made]
                )
                store_element(branch, made, result, selected, combined)


def select(
    i: HloInstruction, body: Body, names: Names, operand: ir.Buffer, at: Sequence[ir.Expression]
) -> ir.Cell:
    """Build the walk through the window of the source at an index.

    Returns the number of the element that is selected, -1 if the window has only padding.
    """
    element, sizes = i.operands[0].shape.element_type, i.shape.dimensions
    selected = body.declare("selected", ir.Index(-1))
    kept = body.declare("kept", load_element(element, operand, 0))
    with ExitStack() as window:
        position, innermost = open_window(window, body, i, at)
        index = innermost.let("at", flat_index(position, sizes))
        candidate = innermost.let("candidate", load_element(element, operand, index))
        (stays,) = apply_computation(
            innermost,
            names,
            i.called[0],
            [(kept, element), (candidate, element)],
            [ElementType.PRED],
        )
        is_first = ir.condition("lt", selected, 0)
        changes = ir.condition("bit_not", stays)
        with Branch(innermost, ir.condition("bit_or", changes, is_first)) as branch:
            branch.set(kept, candidate)
            branch.set(selected, index)
    return selected


def _open_loops(
    opened: ExitStack,
    body: Body,
    name: str,
    sizes: Sequence[int],
    part: tuple[int, tuple[ir.Expression, ir.Expression]],
    stop: tuple[Stop | None, int] = (None, -1),
) -> tuple[list[ir.Expression], Body]:
    """Open loops over all dimensions, of one of them over a part; one tests the flag.

    Returns their indices and the innermost body.
    """
    split, (low, high) = part
    position: list[ir.Expression] = []
    for n, size in enumerate(sizes):
        bounds = (high, low) if n == split else (ir.Index(size), ir.Index(0))
        loop = Loop(body, f"{name}{n}", *bounds, iterations=size)
        body = opened.enter_context(loop)
        if stop[0] and n == stop[1]:
            body.add(stop[0])
        position.append(loop.axis)
    return position, body


def open_window(
    opened: ExitStack, body: Body, i: HloInstruction, at: Sequence[ir.Expression]
) -> tuple[list[ir.Expression], Body]:
    """Open loops over the window of the source at an index, and tests of its edges.

    Return the index of an element and the innermost body.
    """
    position: list[ir.Expression] = []
    sources = i.operands[1].shape.dimensions
    window = i.attributes.window.dimensions
    for n, (d, size) in enumerate(zip(window, i.shape.dimensions, strict=True)):
        if d == WindowDimension(1):
            position.append(at[n])
            continue
        loop = Loop(body, f"w{n}", d.size)
        body = opened.enter_context(loop)
        terms = (at[n], d.stride), (loop.axis, 1)
        index = body.let(f"p{n}", ir.plus(ir.Index(0, terms), -d.padding_low))
        position.append(index)
        last = (sources[n] - 1) * d.stride + d.size - 1 - d.padding_low
        for test, bound, is_needed in (("ge", 0, d.padding_low > 0), ("lt", size, last >= size)):
            if is_needed:
                test_of = ir.condition(test, index, bound)
                body = opened.enter_context(Branch(body, test_of))
    return position, body
