"""Running sums, products and extremes along a dimension, each one ReduceWindow."""

from xla_client import ops
from xla_client.builder import Op
from xla_client.coercion.checked import checked
from xla_client.computation import Computation
from xla_client.lib import arithmetic, constants


@checked
def cumsum(operand: Op, dimension: int, *, reverse: bool = False) -> Op:
    """Each element plus those before it; with `reverse`, plus those behind it."""
    element_type = operand.shape.element_type
    initial = constants.zero(operand.builder, element_type)
    reducer = arithmetic.create_scalar_add_computation(element_type)
    return _running(operand, dimension, initial, reducer, reverse)


@checked
def cumprod(operand: Op, dimension: int, *, reverse: bool = False) -> Op:
    """Each element times those before it; with `reverse`, times those behind it."""
    element_type = operand.shape.element_type
    initial = constants.one(operand.builder, element_type)
    reducer = arithmetic.create_scalar_multiply_computation(element_type)
    return _running(operand, dimension, initial, reducer, reverse)


@checked
def cummax(operand: Op, dimension: int, *, reverse: bool = False) -> Op:
    """The largest up to each element; with `reverse`, from it on. NaN once there was one."""
    element_type = operand.shape.element_type
    initial = constants.min_value(operand.builder, element_type)
    reducer = arithmetic.create_scalar_max_computation(element_type)
    return _running(operand, dimension, initial, reducer, reverse)


@checked
def cummin(operand: Op, dimension: int, *, reverse: bool = False) -> Op:
    """The smallest up to each element; with `reverse`, from it on. NaN once there was one."""
    element_type = operand.shape.element_type
    initial = constants.max_value(operand.builder, element_type)
    reducer = arithmetic.create_scalar_min_computation(element_type)
    return _running(operand, dimension, initial, reducer, reverse)


def _running(operand: Op, dimension: int, initial: Op, reducer: Computation, reverse: bool) -> Op:
    number = operand.shape.dimension_number(dimension)
    size = operand.shape.dimensions[number]
    if not size:
        return operand
    sizes, strides = [1] * operand.shape.rank, [1] * operand.shape.rank
    padding = [(0, 0)] * operand.shape.rank
    sizes[number] = size
    padding[number] = (0, size - 1) if reverse else (size - 1, 0)
    return ops.reduce_window_with_general_padding(
        operand, initial, reducer, sizes, strides, padding=padding
    )
