"""Lowering of dot of s8 to s32 for a GPU: a library's product of operands that kernels prepare.

The library reads both operands along the contracted dimension, in whole words. An operand in
another order is transposed and padded with zeros, by one kernel.
"""

import dataclasses

from xla_contract.ops.control.constant import ConstantAttributes
from xla_contract.ops.shaping.pad import PadAttributes
from xla_contract.ops.shaping.slice import SliceAttributes
from xla_contract.ops.shaping.transpose import TransposeAttributes
from xla_contract.types.dimension_numbers import PaddingConfig, PaddingDimension
from xla_contract.types.element_type import ElementType
from xla_contract.types.literal import Literal
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.buffers.code import Value
from xla_server.codegen.gpu.lower.contraction.dot import lower_dot, plan_of
from xla_server.codegen.gpu.lower.loop_nests.synthetic import add_computed, array_of
from xla_server.codegen.gpu.lower.thunks.library_thunks import add_with_workspace
from xla_server.codegen.gpu.plans.library_plans import ALIGNMENT, MAX_BATCH, GemmPlan, Matrix
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.fusion.analysis.fusible import continues_product
from xla_server.ir.module import HloInstruction

_S8, _S32 = ElementType.S8, ElementType.S32


def lower_product(lowering: Lowering, i: HloInstruction) -> Tree:
    """Add a product of integers with prepared operands; other products as lower_dot."""
    plan = plan_of(i)
    is_small = continues_product(i, lowering.target.capability)
    if plan is None or is_small or not is_prepared(plan):
        return lower_dot(lowering, i)
    columns, depth = (_whole(size) for size in (plan.columns, plan.depth))
    sides = (i.operands[0], plan.left, plan.rows), (i.operands[1], plan.right, columns)
    prepared = [
        _prepared(lowering, i.name, lowering.array(operand), plan, side, (size, depth))
        for operand, side, size in sides
    ]
    shape = Shape.array(_S32, (plan.batch, plan.rows, columns))
    wide = dataclasses.replace(
        plan,
        columns=columns,
        depth=depth,
        left=Matrix(_S8, depth, plan.rows * depth),
        right=Matrix(_S8, depth, columns * depth, is_transposed=True),
        result=Matrix(_S32, columns, plan.rows * columns),
    )
    result = lowering.new(i.shape, i.name)
    made = result if columns == plan.columns else lowering.new(shape, f"{i.name}.wide")
    add_with_workspace(lowering, i.name, wide, prepared, made)
    if made is not result:
        source, limits = array_of(shape), (plan.batch, plan.rows, plan.columns)
        box = SliceAttributes((0, 0, 0), limits, (1, 1, 1))
        name, part = f"{i.name}.part", Shape.array(_S32, limits)
        sliced = HloInstruction(name, 0, Opcode.SLICE, part, (source,), box)
        root = HloInstruction(name, 0, Opcode.RESHAPE, i.shape, (sliced,))
        add_computed(lowering, source, made, root, result)
    return result


def is_prepared(plan: GemmPlan) -> bool:
    """Return whether a product of integers needs prepared operands for a library to compute it.

    Products smaller than a word would mostly be padding.
    """
    sizes = plan.rows, plan.columns, plan.depth
    is_dense = all(
        side.ahead == wide and (plan.batch == 1 or side.apart == tall * wide)
        for side, tall, wide in _forms(plan)
    )
    is_other = plan.sums is _S32 and plan.problem is not None and plan.batch <= MAX_BATCH
    return is_other and is_dense and min(sizes) >= ALIGNMENT


def _forms(plan: GemmPlan) -> tuple[tuple[Matrix, int, int], ...]:
    """Return the operands with the sizes of their matrices in memory."""
    left, right = (plan.rows, plan.depth), (plan.depth, plan.columns)
    return tuple(
        (side, *(sizes[::-1] if side.is_transposed else sizes))
        for side, sizes in ((plan.left, left), (plan.right, right))
    )


def _whole(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _prepared(
    lowering: Lowering,
    name: str,
    value: Value,
    plan: GemmPlan,
    side: Matrix,
    sizes: tuple[int, int],
) -> Value:
    """Return an operand as matrices of these sizes, contracted last; itself if it fits."""
    tall, wide = next((tall, wide) for each, tall, wide in _forms(plan) if each is side)
    source = array_of(Shape.array(_S8, (plan.batch, tall, wide)))
    root, is_left = source, side is plan.left
    if side.is_transposed is is_left:
        turned, order = Shape.array(_S8, (plan.batch, wide, tall)), TransposeAttributes((0, 2, 1))
        root = HloInstruction(f"{name}.turned", 0, Opcode.TRANSPOSE, turned, (root,), order)
    if root.shape.dimensions[1:] != sizes:
        more = [new - old for new, old in zip(sizes, root.shape.dimensions[1:], strict=True)]
        config = PaddingConfig((PaddingDimension(), *(PaddingDimension(0, n) for n in more)))
        scalar = Shape.array(_S8, ())
        literal = ConstantAttributes(Literal.from_numpy(_S8.dtype.type(0), scalar))
        zero = HloInstruction("zero", 0, Opcode.CONSTANT, scalar, (), literal)
        padded, attributes = Shape.array(_S8, (plan.batch, *sizes)), PadAttributes(config)
        root = HloInstruction(f"{name}.padded", 0, Opcode.PAD, padded, (root, zero), attributes)
    return value if root is source else add_computed(lowering, source, value, root)
