"""Lowering of products with a sparse matrix, with a work item for each row."""

from collections.abc import Mapping
from functools import partial

from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape
from xla_server.buffers.code import Value
from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.builder import Body, Branch, Items, Loop
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.lower.kernel_thunks import watched_thunk
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.codegen.schedules.builders.launches.stopping import SPAN, watched_loop
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.ir.module import HloInstruction


def lower_sparse_product(lowering: Lowering, i: HloInstruction) -> Tree:
    """Add a kernel that finds the ends of rows among the elements, and one of the products.

    Rows with many more elements than others are not divided: each takes one thread.
    """
    result = lowering.new(i.shape, i.name)
    if not i.shape.element_count:
        return result
    data, starts, columns, right = map(lowering.array, i.operands)
    ends = lowering.new(Shape.array(ElementType.S64, starts.shape.dimensions), f"{i.name}.ends")
    find_ends = partial(_ends, starts, ends, data.shape.element_count)
    lowering.add(watched_thunk(ends.name, (starts,), (ends,), find_ends))
    values = (data, ends, columns, right, result)
    lowering.add(watched_thunk(i.name, values[:-1], (result,), partial(_products, values)))
    return result


def _ends(
    starts: Value,
    ends: Value,
    elements: int,
    top: Body,
    buffers: Mapping[Value, ir.Buffer],
    flag: ir.Buffer | None,
) -> None:
    """Build the kernel that clamps starts of rows to the elements, in ascending order."""
    count = ends.shape.element_count
    with Items(top, 1) as items:
        end = items.declare("end", ir.Index(0))
        low, high = ir.Index(0), ir.opaque(count)
        with watched_loop(items, "row", high, low, count, flag, SPAN) as row:
            start = ir.integer_op("minimum", _integer(starts, buffers[starts], row.axis), elements)
            row.set(end, ir.integer_op("maximum", end, start))
            row.store(buffers[ends], Type.I64, row.axis, end)


def _products(
    values: tuple[Value, ...],
    top: Body,
    buffers: Mapping[Value, ir.Buffer],
    flag: ir.Buffer | None,
) -> None:
    """Build the kernel of the products, added in the order of the elements."""
    data, ends, columns, right, result = values
    kind = Type(KERNEL_TYPE[result.shape.element_type].computed)
    suffix, parts = ("", (0,)) if kind is kind.part else (f"_{kind}", (0, 0))
    rows, *widths = result.shape.dimensions
    width = widths[0] if widths else 1
    with Items(top, rows, "row") as items:
        low, high = (
            items.let(name, ir.Load(buffers[ends], Type.I64, items.axis + number))
            for number, name in enumerate(("low", "high"))
        )
        with Loop(items, "c", width) as each:
            each.store(buffers[result], kind, items.axis * width + each.axis, ir.Const(kind, parts))
        count = max(1.0, data.shape.element_count / rows)
        span = max(1, SPAN // width)
        with watched_loop(items, "k", high, low, count, flag, span) as element:
            column = element.let("column", _integer(columns, buffers[columns], element.axis))
            size = right.shape.dimensions[0]
            inside = [ir.condition("ge", column, 0), ir.condition("lt", column, size)]
            with Branch(element, ir.all_of(inside)) as branch:
                factor = branch.let("factor", ir.Load(buffers[data], kind, element.axis))
                with Loop(branch, "n", width) as each:
                    at = column * width + each.axis
                    load = ir.Load(buffers[right], kind, at)
                    product = ir.Apply(f"mul{suffix}", (factor, load), kind)
                    at = items.axis * width + each.axis
                    old = ir.Load(buffers[result], kind, at)
                    new = ir.Apply(f"add{suffix}", (old, product), kind)
                    each.store(buffers[result], kind, at, new)


def _integer(value: Value, memory: ir.Buffer, index: ir.Expression) -> ir.Expression:
    """Return the integer at an index of an array of indices."""
    kind = Type(KERNEL_TYPE[value.shape.element_type].storage)
    return ir.integer_op("to_i64", ir.Load(memory, kind, index))
