"""Functions that neural networks put between their products."""

import math

from xla_client import ops
from xla_client.coercion.shapes import as_element_type
from xla_client.lib import arithmetic, constants
from xla_client.programs.arguments.checked import checked
from xla_client.programs.builder import Op
from xla_contract.types.element_type import ElementType, ElementTypeLike
from xla_contract.types.shape import Shape


@checked
def relu(operand: Op) -> Op:
    """The larger of each element and zero; NaN stays NaN.

    Args:
        operand: An array of a type that has an order.

    Returns:
        The results, of the operand's shape.

    Raises:
        InvalidArgumentError: The element type has no zero.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> lib.activations.relu(x)
        %maximum.4: f32[2,3]
    """
    return ops.max(operand, constants.zero(operand.builder, operand.shape.element_type))


@checked
def gelu(operand: Op, *, approximate: bool = False) -> Op:
    """The Gaussian error linear unit: x times the standard normal distribution function at x.

    Args:
        operand: An array of a floating type.
        approximate: Whether to use the approximation 0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³)))
            instead of the error function.

    Returns:
        The results, of the operand's shape.

    Raises:
        ShapeError: The element type is complex and `approximate` False.
        InvalidArgumentError: The element type is neither floating nor complex.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> print(lib.activations.gelu(x).shape)
        f32[2,3]
    """
    if approximate:
        inner = (operand + operand * operand * operand * 0.044715) * math.sqrt(2 / math.pi)
        return operand * (ops.tanh(inner) + 1.0) * 0.5
    return operand * (ops.erf(operand * math.sqrt(0.5)) + 1.0) * 0.5


@checked
def silu(operand: Op) -> Op:
    """The sigmoid linear unit: x times `ops.logistic` of x.

    Args:
        operand: An array of a floating or complex type.

    Returns:
        The results, of the operand's shape.

    Raises:
        ShapeError: The element type is neither floating nor complex.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> lib.activations.silu(x)
        %multiply.3: f32[2,3]
    """
    return operand * ops.logistic(operand)


@checked
def softplus(operand: Op) -> Op:
    """The logarithm of 1 + exp(x), without overflow.

    Args:
        operand: An array of a floating type.

    Returns:
        The results, of the operand's shape.

    Raises:
        ShapeError: The element type is not floating.
        InvalidArgumentError: The element type has no zero.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> print(lib.activations.softplus(x).shape)
        f32[2,3]
    """
    return relu(operand) + ops.log1p(ops.exp(-ops.abs(operand)))


@checked
def softmax(operand: Op, dimension: int = -1) -> Op:
    """The exponentials divided by their sum along a dimension.

    The largest element is subtracted first, so that no exponential overflows.

    Args:
        operand: An array of a floating type.
        dimension: The dimension; a negative number counts from the end.

    Returns:
        The results, of the operand's shape.

    Raises:
        ShapeError: The array has no such dimension, or its element type is not floating.
        InvalidArgumentError: The element type has no order or no zero.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> print(lib.activations.softmax(x).shape)
        f32[2,3]
    """
    powers = ops.exp(_below_largest(operand, dimension))
    return ops.div(powers, *_kept(arithmetic.sum(powers, [dimension]), powers, dimension))


@checked
def log_softmax(operand: Op, dimension: int = -1) -> Op:
    """The logarithm of `softmax`, accurate where that is close to zero.

    Args:
        operand: An array of a floating type.
        dimension: The dimension; a negative number counts from the end.

    Returns:
        The results, of the operand's shape.

    Raises:
        ShapeError: The array has no such dimension, or its element type is not floating.
        InvalidArgumentError: The element type has no order or no zero.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> print(lib.activations.log_softmax(x).shape)
        f32[2,3]
    """
    shifted = _below_largest(operand, dimension)
    total = ops.log(arithmetic.sum(ops.exp(shifted), [dimension]))
    return ops.sub(shifted, *_kept(total, shifted, dimension))


@checked
def logsumexp(operand: Op, dimension: int = -1) -> Op:
    """The logarithm of the sum of exponentials along a dimension.

    Args:
        operand: An array of a floating type.
        dimension: The dimension; a negative number counts from the end.

    Returns:
        The logarithms, without that dimension.

    Raises:
        ShapeError: The array has no such dimension, or its element type is not floating.
        InvalidArgumentError: The element type has no order or no zero.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> print(lib.activations.logsumexp(x).shape)
        f32[2]
    """
    largest = _finite_largest(operand, dimension)
    shifted = ops.sub(operand, *_kept(largest, operand, dimension))
    return ops.log(arithmetic.sum(ops.exp(shifted), [dimension])) + largest


@checked
def one_hot(indices: Op, size: int, element_type: ElementTypeLike = ElementType.F32) -> Op:
    """One-hot vectors: a one at each index, zeros elsewhere.

    Args:
        indices: An array of integers; one out of range gives a vector of zeros.
        size: The length of the vectors.
        element_type: The element type of the result.

    Returns:
        The vectors, along a new last dimension.

    Raises:
        ShapeError: The indices are not integers.
        InvalidArgumentError: The size is negative or too large, or the name of the element type is
            unknown.

    Example:
        >>> n = Builder("example").parameter(0, "s32[4]")
        >>> lib.activations.one_hot(n, 10)
        %convert.5: f32[4,10]
    """
    element_type = as_element_type(element_type)
    dimensions = (*indices.shape.dimensions, size)
    shape = Shape.array(indices.shape.element_type, dimensions)
    counted = indices.builder.iota(shape, indices.shape.rank)
    wanted = ops.broadcast_in_dim(indices, dimensions, range(indices.shape.rank))
    return ops.convert_element_type(ops.eq(counted, wanted), element_type)


def _below_largest(operand: Op, dimension: int) -> Op:
    largest = arithmetic.max(operand, [dimension])
    return ops.sub(operand, *_kept(largest, operand, dimension))


def _finite_largest(operand: Op, dimension: int) -> Op:
    # An infinity is not subtracted: inf - inf would lose that the sum is infinite.
    largest = arithmetic.max(operand, [dimension])
    return ops.select(ops.is_finite(largest), largest, constants.zeros_like(largest))


def _kept(reduced: Op, operand: Op, dimension: int) -> tuple[Op, list[int]]:
    number = operand.shape.dimension_number(dimension)
    return reduced, [n for n in range(operand.shape.rank) if n != number]
