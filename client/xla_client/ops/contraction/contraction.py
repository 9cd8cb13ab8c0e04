"""Products of matrices and tensors. Semantics: XLA's Dot, DotGeneral, RaggedDot and kScaledDot."""

import numpy as np

from xla_client.coercion.records import DotNumbers, Precision, dot_numbers, precisions
from xla_client.coercion.shapes import optional_type
from xla_client.programs.arguments.checked import checked
from xla_client.programs.builder import Op
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

    Args:
        lhs: The left operand.
        rhs: The right operand.
        dimension_numbers: DotDimensionNumbers, or ((lhs contracting, rhs contracting), (lhs
            batch, rhs batch)), where each part is a sequence of dimensions. All others are free.
        precision: "default", "high" or "highest", for both operands or one for each.
        preferred_element_type: The element type of the result, if it is not the
            operands'.

    Returns:
        The sums. Their dimensions are the batch dimensions, then the free dimensions of `lhs`, then
            those of `rhs`.

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
    """The matrix product `lhs @ rhs`.

    It is that of numpy's matmul, which also broadcasts batches of other shapes.

    Args:
        lhs: A vector, a matrix, or a batch of matrices.
        rhs: A vector or a matrix, which is multiplied with every matrix of `lhs`; or a batch of
            matrices with the batch dimensions of `lhs`.
        precision: "default", "high" or "highest", for both operands or one for each.
        preferred_element_type: The element type of the result, if it is not the
            operands'.

    Returns:
        The product.

    Raises:
        ShapeError: An operand is a scalar, or the sizes do not fit.
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
    """The product of the matrices at each index of the batch dimensions.

    Args:
        lhs: Matrices in the last two dimensions.
        rhs: Matrices in the last two dimensions, with the batch dimensions of `lhs`.
        transpose_lhs: Whether to transpose the matrices of `lhs`.
        transpose_rhs: Whether to transpose the matrices of `rhs`.
        precision: "default", "high" or "highest", for both operands or one for each.
        preferred_element_type: The element type of the result, if it is not the
            operands'.

    Returns:
        The product of each pair of matrices.

    Raises:
        ShapeError: The operands differ in rank or batch dimensions, or the sizes do not fit.
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
    """A `dot_general` whose left operand is divided into groups of different sizes.

    The effect depends on the ragged dimension. If it is free, each group of `lhs` is multiplied
    with its own part of `rhs`. If it is contracting, each group has a product of its own, and they
    are stacked along a new first dimension. If it is a batch dimension, groups change nothing.

    Args:
        lhs: The left operand.
        rhs: The right operand.
        group_sizes: The size of each group along the ragged dimension, integers.
        dimension_numbers: DotDimensionNumbers, or pairs as in `dot_general`.
        lhs_ragged_dimension: The dimension of `lhs` that is divided into groups.
        rhs_group_dimension: The dimension of `rhs` with a part for each group, if the ragged
            dimension is free.
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
    """A `dot_general` of operands whose blocks of elements are multiplied by a scale first.

    Operands and scales narrower than 16 bits are multiplied as bf16.

    Args:
        lhs: The left operand.
        rhs: The right operand.
        lhs_scale: A scale for each block of `lhs`, in an array of the rank of `lhs` with sizes that
            divide its sizes; or None.
        rhs_scale: A scale for each block of `rhs`, in the same way; or None.
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
