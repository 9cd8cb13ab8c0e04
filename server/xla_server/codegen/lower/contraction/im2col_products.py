"""Kernels of convolutions by products of im2col matrices with the filter."""

import dataclasses
import functools
from typing import TypeAlias

from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape
from xla_server.codegen.instructions.products import product_into
from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.builder import Body, Items, Loop, task_range
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.routine import Operands
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.lower.contraction.exact_sums import exact_sums_of
from xla_server.codegen.lower.contraction.im2col_plan import Im2colPlan
from xla_server.codegen.lower.loop_nests.epilogue import Ends, EpilogueKernel, Product
from xla_server.codegen.lower.lowering import Tree
from xla_server.codegen.lower.movement.im2col import Indices, MatrixCopy, indices
from xla_server.codegen.lower.movement.reordering import in_order
from xla_server.codegen.trace.elementwise import zero


def lower_products(made: Product, plan: Im2colPlan) -> Tree:
    """Add the kernel whose work items each process a share of the blocks, one after the other.

    A kernel before it copies the weights to a matrix, if they are none.
    """
    i, lowering = made.producer, made.lowering
    base, kernel = made.operands
    shape = i.operands[1].shape
    packed = in_order(lowering, kernel, shape, plan.kernel_order, f"{i.name}.kernel")
    blocks = -(-plan.rows // plan.block_rows)
    tasks = blocks * plan.groups * plan.batches
    items = min(tasks, lowering.target.tuning.convolutions.work_items)
    features = plan.columns * plan.groups
    sizes = (plan.rows, features) if plan.is_nhwc else (plan.batches * features, plan.rows)
    epilogue = made.epilogue(*sizes)
    element_type = i.shape.element_type
    building = EpilogueKernel(epilogue)
    source, weights, result = building.buffers((base, packed), made.value)
    orders = tuple(range(part.shape.rank) for part in (*i.operands, i))
    exact = exact_sums_of(i, (orders[0], orders[1], orders[2]))
    original = ir.Address(building.buffer(kernel, ir.Usage.READ)) if exact else ir.Address(weights)
    with Items(building.body, items, "item") as item:
        matrix: ir.Value | None = None
        if plan.leading is None:
            size = plan.block_rows * plan.block_depth
            shape = Shape.array(element_type, (items * size,))
            scratch = building.buffer(lowering.new(shape, f"{i.name}.im2col"), ir.Usage.WRITE)
            ahead = item.axis * (size * element_type.byte_width)
            matrix = item.let("matrix", ir.Address(scratch) + ahead)
        first, last = task_range(item.axis, tasks, items)
        with Loop(item, "task", last, first, iterations=tasks / items) as task:
            block = _Block.of(plan, task, blocks)
            writer = _BlockWriter(plan, element_type, block, source, matrix)
            writer.emit(task, ir.Address(weights), ir.Address(result))
            rows, columns = block.positions(plan), block.features(plan)
            if exact:
                addresses = ir.Address(source), original, ir.Address(result)
                exact.emit(task, addresses, rows, columns)
            if plan.is_nhwc:
                epilogue.emit(task, rows, columns)
            else:
                before = block.outer * features
                ends = before + columns[0], before + columns[1]
                epilogue.emit(task, ends, (block.row, block.row_stop))
    building.add(lowering, i.name, Effort.OPTIMISED)
    return made.tree


@dataclasses.dataclass(frozen=True, slots=True)
class _Block:
    """A block of rows of products, its group, and its indices in the outer dimensions."""

    row: ir.Value
    row_stop: ir.Value
    group: ir.Value
    outer: ir.Value
    fixed: Indices

    @classmethod
    def of(cls, plan: Im2colPlan, task: Loop, blocks: int) -> "_Block":
        """Return the block of a task."""
        row = task.let("row", task.axis % blocks * plan.block_rows)
        limit = ir.integer_op("minimum", row + plan.block_rows, plan.rows)
        row_stop = task.let("row_stop", limit)
        rest = task.let("rest", task.axis // blocks)
        group = task.let("group", rest % plan.groups)
        outer = task.let("outer", rest // plan.groups)
        return cls(row, row_stop, group, outer, indices(task, outer, plan.matrix.fixed))

    def positions(self, plan: Im2colPlan) -> tuple[ir.Expression, ir.Expression]:
        """Return the range of the results' positions, counted without features."""
        if plan.is_nhwc:
            return self.row, self.row_stop
        before = self.outer * plan.rows
        return before + self.row, before + self.row_stop

    def features(self, plan: Im2colPlan) -> tuple[ir.Expression, ir.Expression]:
        """Return the range of the results' features."""
        first = self.group * plan.columns
        return first, first + plan.columns


_Operand: TypeAlias = tuple[ir.Expression, int | ir.Expression, int]
"""The address of a factor, elements from row to row, and whether it is transposed."""


@dataclasses.dataclass(frozen=True, slots=True)
class _BlockWriter:
    """Builds the products of one block. `matrix` is memory for im2col if that is needed."""

    plan: Im2colPlan
    element_type: ElementType
    block: _Block
    source: ir.Buffer
    matrix: ir.Value | None

    def emit(self, body: Body, weights: ir.Expression, result: ir.Expression) -> None:
        """Append the products, a part of the depth at a time."""
        plan, block, width = self.plan, self.block, self.element_type.byte_width
        features = plan.columns * plan.groups
        if plan.is_nhwc:
            ahead = block.row * features + block.group * plan.columns
        else:
            ahead = block.outer * (features * plan.rows)
            ahead = ahead + block.group * (plan.columns * plan.rows) + block.row
        into = body.let("into", result + ahead * width)
        of_rows = plan.is_nhwc
        ends: Ends = block.row_stop - block.row, plan.columns
        ends, result_ahead = (ends, features) if of_rows else (ends[::-1], plan.rows)
        base = body.let("base", block.group * plan.group_step)
        with Loop(body, "depth", plan.depth, step=plan.block_depth) as part:
            depth = part.axis
            stop = ir.integer_op("minimum", depth + plan.block_depth, plan.depth)
            depth_stop = part.let("depth_stop", stop)
            matrix, matrix_ahead = self._matrix(part, base, (depth, depth_stop))
            if plan.kernel_is_transposed:
                ahead, weights_ahead = block.group * (plan.columns * plan.depth) + depth, plan.depth
            else:
                ahead, weights_ahead = depth * features + block.group * plan.columns, features
            by_depth = plan.depth_inside
            left: _Operand = matrix, matrix_ahead, int(not by_depth if of_rows else by_depth)
            is_transposed = plan.kernel_is_transposed == of_rows
            right: _Operand = weights + ahead * width, weights_ahead, int(is_transposed)
            if not of_rows:
                left, right = right, left
            operands: Operands = {
                **dict(zip(("a", "a_ahead", "a_is_transposed"), left, strict=True)),
                **dict(zip(("b", "b_ahead", "b_is_transposed"), right, strict=True)),
                **{"c": into, "c_ahead": result_ahead, "m": ends[0], "n": ends[1]},
                **{"k": depth_stop - depth, "adds": ir.condition("gt", depth, 0)},
            }
            part.call(product_into(self.element_type.text), operands)
        if self.element_type.is_complex:
            # BLAS gives -0 for some complex sums of zeros.
            self._add_zero(body, into, ends, result_ahead)

    def _add_zero(self, body: Body, into: ir.Value, ends: Ends, ahead: int) -> None:
        """Append the loops that add zero to a block of results, so that -0 becomes 0."""
        kind, nothing = self.element_type.text, zero(self.element_type).constant
        sizes = self.plan.block_rows, self.plan.columns
        outer, inner = sizes if self.plan.is_nhwc else sizes[::-1]
        with (
            Loop(body, "line", ends[0], iterations=outer) as line,
            Loop(line, "at", ends[1], iterations=inner) as each,
        ):
            at = line.axis * ahead + each.axis
            total = ir.Apply(f"add_{kind}", (ir.load_at(kind, into, at), nothing), Type(kind))
            each.store_at(kind, into, at, total)

    def _matrix(
        self, body: Body, base: ir.Value, depth: tuple[ir.Expression, ir.Expression]
    ) -> tuple[ir.Expression, int | ir.Expression]:
        """Return a block's matrix, address and leading dimension; copies it first, if needed."""
        plan, block = self.plan, self.block
        rows = block.row, block.row_stop
        if self.matrix is None:
            ahead = base + _first_element(plan, block, depth[0])
            assert plan.leading is not None
            return ir.Address(self.source) + ahead * self.element_type.byte_width, plan.leading
        outer, inner = (rows, depth) if plan.depth_inside else (depth, rows)
        target = ir.Region(self.matrix, ir.Usage.WRITE)
        copy = MatrixCopy(plan.matrix, self.element_type, self.source, target)
        copy.emit(body, outer, inner, base, block.fixed)
        return self.matrix, inner[1] - inner[0]


def _first_element(plan: Im2colPlan, block: _Block, depth: ir.Expression) -> ir.Expression:
    """Return the input element at which a block's matrix begins, if it needs no im2col."""
    assert plan.leading is not None
    lines = {axis.line for axis in plan.matrix.axes if axis.line is not None}
    row: ir.Expression = block.row
    row, depth = (row * plan.leading, depth) if plan.depth_inside else (row, depth * plan.leading)
    fixed = (block.fixed[axis] * axis.stride for axis in plan.matrix.fixed if axis in block.fixed)
    start = sum(line.start * line.stride for line in lines)
    return functools.reduce(ir.plus, [*fixed, row, depth, ir.whole(start)])
