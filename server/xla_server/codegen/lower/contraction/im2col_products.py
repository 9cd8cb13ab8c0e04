"""Kernels of convolutions by products of im2col matrices with the kernel."""

from xla_contract.types.shape import Shape
from xla_server.buffers.code import Value as Array
from xla_server.codegen.instructions.products import product_into
from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.builder import Items, Loop, dealt
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.lower.contraction.exact_sums import ExactSums
from xla_server.codegen.lower.contraction.im2col_plan import Plan
from xla_server.codegen.lower.loop_nests.epilogue import Epilogue, EpilogueKernel, Product
from xla_server.codegen.lower.movement.im2col import MatrixCopy


def add_products(
    made: Product,
    plan: Plan,
    operands: tuple[Array, Array],
    epilogue: Epilogue,
    exact: ExactSums | None,
) -> None:
    """Add the kernel that does a work item's share of all blocks, one after the other.

    A block's matrix is copied and multiplied a part of the depth at a time. `exact` sums its
    results again.
    """
    element_type = made.value.shape.element_type
    width, features = element_type.byte_width, plan.columns * plan.groups
    blocks = -(-plan.rows // plan.block_rows)
    tasks = blocks * plan.groups
    items = min(tasks, made.lowering.target.tuning.convolutions.work_items)
    size = plan.block_rows * plan.block_depth
    shape = Shape.array(element_type, (items * size,))
    copied = made.lowering.new(shape, f"{made.value.name}.im2col")
    building = EpilogueKernel(epilogue)
    values, roles = (*operands, made.value, copied), (ir.Role.READ,) * 2 + (ir.Role.WRITE,) * 2
    source, weights, result, scratch = map(building.buffer, values, roles)
    with Items(building.body, items, "item") as item:
        matrix = item.let("matrix", ir.Address(scratch) + item.axis * (size * width))
        copy = MatrixCopy(plan.matrix, element_type, source, ir.Region(matrix, ir.Role.WRITE))
        first, last = dealt(item.axis, tasks, items)
        with Loop(item, "task", last, first, iterations=tasks / items) as task:
            row = task.let("row", task.axis % blocks * plan.block_rows)
            limit = ir.integer_op("minimum", row + plan.block_rows, plan.rows)
            rows = row, task.let("row_stop", limit)
            group = task.let("group", task.axis // blocks)
            feature = group * plan.columns
            into = task.let("into", ir.Address(result) + (row * features + feature) * width)
            base = task.let("base", group * plan.group_step)
            with Loop(task, "depth", plan.depth, step=plan.block_depth) as part:
                depth = part.axis
                limit = ir.integer_op("minimum", depth + plan.block_depth, plan.depth)
                stop = part.let("depth_stop", limit)
                copy.emit(part, rows, (depth, stop), base)
                ahead = depth * features + feature
                part.call(
                    product_into(element_type.text),
                    {
                        **{"a": matrix, "a_ahead": stop - depth, "a_is_transposed": 0},
                        **{"b": ir.Address(weights) + ahead * width, "b_ahead": features},
                        **{"b_is_transposed": 0, "c": into, "c_ahead": features},
                        **{"m": rows[1] - row, "n": plan.columns, "k": stop - depth},
                        "adds": ir.condition("gt", depth, 0),
                    },
                )
            columns = feature, feature + plan.columns
            if exact:
                addresses = ir.Address(source), ir.Address(weights), ir.Address(result)
                exact.emit(task, addresses, rows, columns)
            epilogue.emit(task, rows, columns)
    building.add(made.lowering, made.name, Effort.OPTIMISED)
