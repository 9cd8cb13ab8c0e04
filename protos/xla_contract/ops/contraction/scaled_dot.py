"""scaled-dot: a dot of two arrays that are stored narrow, with a scale for each block of elements.

Semantics: XLA's kScaledDot as XLA itself rewrites it for devices that lack it. The operands are
lhs, rhs, lhs scale, rhs scale. A scale has the rank of its operand, and each of its dimensions
divides the operand's: one scale is for a block of as many elements as the quotients say. A scalar
as the scale means that the operand is not scaled.
"""

from collections.abc import Sequence

from xla_contract.errors import ShapeError
from xla_contract.ops.contraction.dot import DotAttributes, infer_dot
from xla_contract.ops.signature import require_array
from xla_contract.types.shape import Shape


def infer_scaled_dot(operands: Sequence[Shape], attributes: DotAttributes) -> Shape:
    """The shape of lhs dot rhs; ShapeError if a scale does not fit its operand."""
    lhs, rhs, lhs_scale, rhs_scale = (require_array(shape, "an operand") for shape in operands)
    for shape in (lhs, rhs, lhs_scale, rhs_scale):
        if not shape.element_type.is_floating:
            raise ShapeError(f"operands and scales must be floating-point, got {shape}")
    product = infer_dot((lhs, rhs), attributes)
    if not product.element_type.is_floating:
        raise ShapeError(f"the result must be floating-point, got {product}")
    _check_scale("lhs", lhs, lhs_scale)
    _check_scale("rhs", rhs, rhs_scale)
    return product


def _check_scale(side: str, operand: Shape, scale: Shape) -> None:
    if not scale.rank:
        return
    if scale.rank != operand.rank:
        raise ShapeError(
            f"the scale of {side} must be a scalar or have the rank of {side}, got {scale} for "
            f"{operand}"
        )
    for number, (size, blocks) in enumerate(zip(operand.dimensions, scale.dimensions, strict=True)):
        if size != blocks and (not blocks or size % blocks):
            raise ShapeError(
                f"every dimension of the scale of {side} must divide that of {side}, got dim "
                f"{number} = {blocks} of {scale} for {size} of {operand}"
            )
