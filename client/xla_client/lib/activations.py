"""Functions that neural networks put between their products."""

import math

from xla_client import ops
from xla_client.builder import Op
from xla_client.coercion.checked import checked
from xla_client.coercion.shapes import as_element_type
from xla_client.lib import arithmetic, constants
from xla_contract.element_type import ElementType, ElementTypeLike
from xla_contract.shape import Shape


@checked
def relu(operand: Op) -> Op:
    """The operand where it is positive, else 0; NaN stays."""
    return ops.max(operand, constants.zero(operand.builder, operand.shape.element_type))


@checked
def gelu(operand: Op, *, approximate: bool = False) -> Op:
    """The operand times the normal distribution up to it.

    `approximate` takes the usual formula with tanh in the place of erf.
    """
    if approximate:
        inner = (operand + operand * operand * operand * 0.044715) * math.sqrt(2 / math.pi)
        return operand * (ops.tanh(inner) + 1.0) * 0.5
    return operand * (ops.erf(operand * math.sqrt(0.5)) + 1.0) * 0.5


@checked
def silu(operand: Op) -> Op:
    """The operand times its `ops.logistic`."""
    return operand * ops.logistic(operand)


@checked
def softplus(operand: Op) -> Op:
    """The logarithm of 1 + exp(x), without overflow."""
    return relu(operand) + ops.log1p(ops.exp(-ops.abs(operand)))


@checked
def softmax(operand: Op, dimension: int = -1) -> Op:
    """Exponentials divided by their sum along a dimension."""
    powers = ops.exp(_below_largest(operand, dimension))
    return ops.div(powers, *_kept(arithmetic.sum(powers, [dimension]), powers, dimension))


@checked
def log_softmax(operand: Op, dimension: int = -1) -> Op:
    """The logarithm of `softmax`, without loss where that is small."""
    shifted = _below_largest(operand, dimension)
    total = ops.log(arithmetic.sum(ops.exp(shifted), [dimension]))
    return ops.sub(shifted, *_kept(total, shifted, dimension))


@checked
def logsumexp(operand: Op, dimension: int = -1) -> Op:
    """The logarithm of the sum of exponentials along a dimension, which goes away."""
    largest = _finite_largest(operand, dimension)
    shifted = ops.sub(operand, *_kept(largest, operand, dimension))
    return ops.log(arithmetic.sum(ops.exp(shifted), [dimension])) + largest


@checked
def one_hot(indices: Op, size: int, element_type: ElementTypeLike = ElementType.F32) -> Op:
    """A new last dimension with a one where each index says, all zeros for one out of range."""
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


def _kept(folded: Op, operand: Op, dimension: int) -> tuple[Op, list[int]]:
    number = operand.shape.dimension_number(dimension)
    return folded, [n for n in range(operand.shape.rank) if n != number]
