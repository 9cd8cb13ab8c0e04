"""Products of matrices and tensors. Semantics: XLA's Dot, DotGeneral, RaggedDot and kScaledDot."""

import numpy as np

from xla_client.coercion.records import DotNumbers, Precision, dot_numbers, precisions
from xla_client.coercion.shapes import optional_type
from xla_client.programs.builder import Op
from xla_client.programs.checked import checked
from xla_contract.errors import ShapeError
from xla_contract.ops.contraction.dot import DotAttributes
from xla_contract.ops.contraction.ragged_dot import RaggedDotAttributes
from xla_contract.types.dimension_numbers import DotDimensionNumbers
from xla_contract.types.element_type import ElementType, ElementTypeLike
from xla_contract.types.literal import Literal
from xla_contract.types.opcode import Opcode


@checked
def dot_general(
    lhs: Op,
    rhs: Op,
    dimension_numbers: DotNumbers,
    precision: Precision = None,
    preferred_element_type: ElementTypeLike | None = None,
) -> Op:
    """Sums of products over the contracting dimensions, for each index of the batch dimensions.

    The result has the batch dimensions, then the free dimensions of lhs, then those of rhs.
    `precision` is "default", "high" or "highest", or one of them for each operand.

    Args:
        lhs: The left operand.
        rhs: The right operand.
        dimension_numbers: DotDimensionNumbers, or ((lhs contracting, rhs contracting), (lhs
            batch, rhs batch)).
        precision: "default", "high" or "highest", for both operands or one for each.
        preferred_element_type: The element type of the result, if it is not the
            operands'.

    Returns:
        The array of the sums.

    Raises:
        InvalidArgumentError: The name of a precision or of the element type is unknown.

    Example:
        >>> b = Builder("example")
        >>> x, y = b.parameter(0, "f32[5,2,3]"), b.parameter(1, "f32[5,3,4]")
        >>> ops.dot_general(x, y, (([2], [1]), ([0], [0])))
        %dot.3: f32[5,2,4]

    See https://openxla.org/xla/operation_semantics#dotgeneral
    """
    attributes = DotAttributes(
        dot_numbers("dimension_numbers", dimension_numbers),
        optional_type(preferred_element_type),
        precisions("precision", precision),
    )
    return lhs.builder.instruction(Opcode.DOT, [lhs, rhs], attributes)


@checked
def dot(
    lhs: Op,
    rhs: Op,
    precision: Precision = None,
    preferred_element_type: ElementTypeLike | None = None,
) -> Op:
    """The product of two vectors, a matrix and a vector, or two matrices.

    The last dimension of lhs is contracted with the first of rhs.

    Args:
        lhs: A vector or a matrix.
        rhs: A vector or a matrix.
        precision: "default", "high" or "highest", for both operands or one for each.
        preferred_element_type: The element type of the result, if it is not the
            operands'.

    Returns:
        The product: a scalar, a vector or a matrix.

    Raises:
        InvalidArgumentError: The name of a precision or of the element type is unknown.

    Example:
        >>> b = Builder("example")
        >>> x, y = b.parameter(0, "f32[2,3]"), b.parameter(1, "f32[3]")
        >>> ops.dot(x, y)
        %dot.3: f32[2]

    See https://openxla.org/xla/operation_semantics#dot
    """
    numbers = DotDimensionNumbers((max(lhs.shape.rank - 1, 0),), (0,))
    return dot_general(lhs, rhs, numbers, precision, preferred_element_type)


@checked
def matmul(
    lhs: Op,
    rhs: Op,
    *,
    precision: Precision = None,
    preferred_element_type: ElementTypeLike | None = None,
) -> Op:
    """The product numpy's matmul means, where it stretches no batch: `lhs @ rhs`.

    A `rhs` that is one vector or matrix meets every one of `lhs`; otherwise the batches are equal.
    Raises ShapeError for other ranks and for scalars.

    Args:
        lhs: A vector, a matrix, or a batch of matrices.
        rhs: A vector, a matrix, or a batch like that of `lhs`.
        precision: "default", "high" or "highest", for both operands or one for each.
        preferred_element_type: The element type of the result, if it is not the
            operands'.

    Returns:
        The product.

    Raises:
        ShapeError: The operands do not fit the operation.
        InvalidArgumentError: The name of a precision or of the element type is unknown.

    Example:
        >>> b = Builder("example")
        >>> x, y = b.parameter(0, "f32[5,2,3]"), b.parameter(1, "f32[3,4]")
        >>> ops.matmul(x, y)
        %dot.3: f32[5,2,4]

    See https://openxla.org/xla/operation_semantics#dotgeneral
    """
    if rhs.shape.rank > 2:
        return batch_dot(
            lhs, rhs, precision=precision, preferred_element_type=preferred_element_type
        )
    if not lhs.shape.rank or not rhs.shape.rank:
        raise ShapeError(f"operands must not be scalars, got {lhs.shape} and {rhs.shape}").at(
            "matmul"
        )
    numbers = DotDimensionNumbers((lhs.shape.rank - 1,), (max(rhs.shape.rank - 2, 0),))
    return dot_general(lhs, rhs, numbers, precision, preferred_element_type)


@checked
def batch_dot(
    lhs: Op,
    rhs: Op,
    *,
    transpose_lhs: bool = False,
    transpose_rhs: bool = False,
    precision: Precision = None,
    preferred_element_type: ElementTypeLike | None = None,
) -> Op:
    """The product of the matrices at each index of the batch, which both operands have alike.

    Raises ShapeError for operands of different rank, or of other sizes than fit.

    Args:
        lhs: Matrices in the last two dimensions.
        rhs: The right matrices, as many.
        transpose_lhs: Whether the matrices of `lhs` are read transposed.
        transpose_rhs: Whether those of `rhs` are.
        precision: "default", "high" or "highest", for both operands or one for each.
        preferred_element_type: The element type of the result, if it is not the
            operands'.

    Returns:
        The product of each pair of matrices.

    Raises:
        ShapeError: The operands do not fit the operation.
        InvalidArgumentError: The name of a precision or of the element type is unknown.

    Example:
        >>> b = Builder("example")
        >>> x, y = b.parameter(0, "f32[5,2,3]"), b.parameter(1, "f32[5,4,3]")
        >>> ops.batch_dot(x, y, transpose_rhs=True)
        %dot.3: f32[5,2,4]

    See https://openxla.org/xla/operation_semantics#dotgeneral
    """
    rank = lhs.shape.rank
    if rank < 2 or rhs.shape.rank != rank:
        raise ShapeError(
            "operands must be matrices, or batches of matrices of equal batch dimensions, got "
            f"{lhs.shape} and {rhs.shape}"
        ).at("batch_dot")
    batch = tuple(range(rank - 2))
    numbers = DotDimensionNumbers(
        (rank - 2 if transpose_lhs else rank - 1,),
        (rank - 1 if transpose_rhs else rank - 2,),
        batch,
        batch,
    )
    return dot_general(lhs, rhs, numbers, precision, preferred_element_type)


@checked
def ragged_dot(
    lhs: Op,
    rhs: Op,
    group_sizes: Op,
    dimension_numbers: DotNumbers,
    lhs_ragged_dimension: int,
    rhs_group_dimension: int | None = None,
    precision: Precision = None,
    preferred_element_type: ElementTypeLike | None = None,
) -> Op:
    """A dot in which `group_sizes`, integers, cut the ragged dimension of lhs into groups.

    Each group of a free dimension meets the rhs that `rhs_group_dimension` numbers; groups of a
    contracting dimension give one product each, stacked in front; groups of a batch dimension
    change nothing.

    Args:
        lhs: The left operand.
        rhs: The right operand.
        group_sizes: The size of each group, integers.
        dimension_numbers: DotDimensionNumbers, or pairs as in `dot_general`.
        lhs_ragged_dimension: The dimension of `lhs` with the groups.
        rhs_group_dimension: The dimension of `rhs` that numbers the groups.
        precision: "default", "high" or "highest", for both operands or one for each.
        preferred_element_type: The element type of the result, if it is not the
            operands'.

    Returns:
        The array of the sums.

    Raises:
        InvalidArgumentError: The name of a precision or of the element type is unknown.

    Example:
        >>> b = Builder("example")
        >>> x, y = b.parameter(0, "f32[8,3]"), b.parameter(1, "f32[2,3,4]")
        >>> sizes = b.parameter(2, "s32[2]")
        >>> ops.ragged_dot(x, y, sizes, (([1], [1]), ([], [])), 0, 0)
        %ragged-dot.4: f32[8,4]
    """
    attributes = RaggedDotAttributes(
        dot_numbers("dimension_numbers", dimension_numbers),
        lhs_ragged_dimension,
        rhs_group_dimension,
        optional_type(preferred_element_type),
        precisions("precision", precision),
    )
    return lhs.builder.instruction(Opcode.RAGGED_DOT, [lhs, rhs, group_sizes], attributes)


@checked
def scaled_dot(
    lhs: Op,
    rhs: Op,
    lhs_scale: Op | None,
    rhs_scale: Op | None,
    dimension_numbers: DotNumbers,
    precision: Precision = None,
    preferred_element_type: ElementTypeLike | None = None,
) -> Op:
    """A dot of operands multiplied by a scale for each block of their elements.

    A scale has the rank of its operand and dimensions that divide the operand's; None is no scale.
    Operands and scales narrower than 16 bits are multiplied as bf16.

    Args:
        lhs: The left operand.
        rhs: The right operand.
        lhs_scale: A scale for each block of `lhs`, or None.
        rhs_scale: A scale for each block of `rhs`, or None.
        dimension_numbers: DotDimensionNumbers, or pairs as in `dot_general`.
        precision: "default", "high" or "highest", for both operands or one for each.
        preferred_element_type: The element type of the result, if it is not the
            operands'.

    Returns:
        The array of the sums.

    Raises:
        InvalidArgumentError: The name of the element type is unknown.

    Example:
        >>> b = Builder("example")
        >>> x, y = b.parameter(0, "f8e4m3fn[2,32]"), b.parameter(1, "f8e4m3fn[32,4]")
        >>> scale = b.parameter(2, "f8e8m0fnu[2,1]")
        >>> ops.scaled_dot(x, y, scale, None, (([1], [0]), ([], [])), preferred_element_type="f32")
        %scaled-dot.5: f32[2,4]
    """
    builder = lhs.builder
    one = builder.constant(Literal.from_numpy(np.ones((), ElementType.BF16.dtype)))
    scales = [one if scale is None else scale for scale in (lhs_scale, rhs_scale)]
    attributes = DotAttributes(
        dot_numbers("dimension_numbers", dimension_numbers),
        optional_type(preferred_element_type),
        precisions("precision", precision),
    )
    return builder.instruction(Opcode.SCALED_DOT, [lhs, rhs, *scales], attributes)
