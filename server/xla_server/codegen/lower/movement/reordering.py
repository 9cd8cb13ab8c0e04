"""Kernels that bring the dimensions of an array into another order."""

from collections.abc import Sequence

from xla_contract.types.shape import Shape
from xla_server.buffers.code import Value
from xla_server.codegen.lower.lowering import Lowering
from xla_server.codegen.lower.movement.im2col import CopiedMatrix, MatrixAxis, add_matrix
from xla_server.codegen.lower.movement.transpose import add_transposition, transposition
from xla_server.ir.analysis.affine import dense_strides


def permuted(shape: Shape, order: Sequence[int]) -> Shape:
    """Return the shape with its dimensions in this order."""
    return Shape.array(shape.element_type, [shape.dimensions[d] for d in order])


def is_in_order(shape: Shape, order: Sequence[int]) -> bool:
    """Return whether dimensions are in this order already, those of size 1 aside."""
    moved = [d for d in order if shape.dimensions[d] != 1]
    return moved == sorted(moved)


def in_order(
    lowering: Lowering, value: Value, shape: Shape, order: Sequence[int], name: str
) -> Value:
    """Return a value of a shape with its dimensions in this order: itself, or a copy."""
    if is_in_order(shape, order):
        return value
    result = lowering.new(permuted(shape, order), name)
    reorder(lowering, value, shape, order, result)
    return result


def reorder(
    lowering: Lowering, value: Value, shape: Shape, order: Sequence[int], result: Value
) -> None:
    """Add the copy of a value of a shape to another, with its dimensions in this order."""
    plan = transposition(shape.dimensions, order, shape.element_type.byte_width)
    if plan is None:
        # Runs along the last of the dimensions in this order.
        read = dense_strides(shape.dimensions)
        axes = tuple(MatrixAxis(f"d{d}", shape.dimensions[d], read[d]) for d in order)
        add_matrix(lowering, CopiedMatrix(axes[:-1], axes[-1:]), value, result)
    else:
        add_transposition(lowering, plan, value, result)
