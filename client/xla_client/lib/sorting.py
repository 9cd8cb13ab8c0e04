"""Arrays in order.

Floating types are sorted by the total order of `ops.lt_total_order`, in which -0 comes before +0
and NaNs stand at both ends by their sign. All sorts are stable.
"""

import functools
from collections.abc import Callable, Sequence

from xla_client import ops
from xla_client.builder import Builder, Op, as_sequence
from xla_client.coercion.checked import checked
from xla_client.coercion.operands import Operands
from xla_client.coercion.shapes import as_element_type
from xla_client.computation import Computation
from xla_client.lib import constants
from xla_contract.element_type import ElementType, ElementTypeLike
from xla_contract.errors import ShapeError
from xla_contract.shape import Shape


@checked
@functools.cache
def create_scalar_lt_computation(*element_types: ElementTypeLike) -> Computation:
    """The comparator of an ascending sort of operands of these types, by the first of them."""
    return _comparator([as_element_type(each) for each in element_types], descending=False)


@checked
@functools.cache
def create_scalar_gt_computation(*element_types: ElementTypeLike) -> Computation:
    """The comparator of a descending sort of operands of these types, by the first of them."""
    return _comparator([as_element_type(each) for each in element_types], descending=True)


@checked
def sort(operand: Op, dimension: int = -1, *, descending: bool = False) -> Op:
    """The elements in order along a dimension; ShapeError for complex types."""
    comparator = _comparators(descending)(operand.shape.element_type)
    return ops.sort(operand, comparator, dimension, is_stable=True)


@checked
def sort_by_key(
    key: Op, values: Operands, dimension: int = -1, *, descending: bool = False
) -> tuple[Op, ...]:
    """The key and the values, of the same dimensions, all in the order of the key."""
    values = as_sequence(values)
    if not values:
        return (sort(key, dimension, descending=descending),)
    operands = [key, *values]
    comparator = _comparators(descending)(*(each.shape.element_type for each in operands))
    together = ops.sort(operands, comparator, dimension, is_stable=True)
    return tuple(ops.get_tuple_element(together, number) for number in range(len(operands)))


@checked
def sort_with_indices(
    operand: Op, dimension: int = -1, *, descending: bool = False
) -> tuple[Op, Op]:
    """The elements in order along a dimension, and the s32 indices they had there."""
    indices = constants.iota_like(operand, dimension)
    ordered, where = sort_by_key(operand, [indices], dimension, descending=descending)
    return ordered, where


@checked
def argsort(operand: Op, dimension: int = -1, *, descending: bool = False) -> Op:
    """The s32 indices along a dimension that put the elements in order."""
    return sort_with_indices(operand, dimension, descending=descending)[1]


@checked
def top_k(operand: Op, k: int, dimension: int = -1, *, largest: bool = True) -> tuple[Op, Op]:
    """The k largest (or smallest) elements along a dimension in order, and their s32 indices.

    Unlike `ops.top_k` it takes any dimension and is written with a sort alone. Raises ShapeError
    when there are fewer than k.
    """
    number = operand.shape.dimension_number(dimension)
    size = operand.shape.dimensions[number]
    if not 0 <= k <= size:
        raise ShapeError(
            f"k must be at most the size of the dimension, got k = {k} and dim {number} = {size} "
            f"of {operand.shape}"
        ).at("top_k")
    values, indices = sort_with_indices(operand, number, descending=largest)
    return ops.slice_in_dim(values, 0, k, 1, number), ops.slice_in_dim(indices, 0, k, 1, number)


def _comparators(descending: bool) -> Callable[..., Computation]:
    return create_scalar_gt_computation if descending else create_scalar_lt_computation


def _comparator(element_types: Sequence[ElementType], *, descending: bool) -> Computation:
    builder = Builder("gt" if descending else "lt")
    shapes = [Shape.scalar(each) for each in element_types for _ in range(2)]
    lhs, rhs, *_ = [builder.parameter(number, shape) for number, shape in enumerate(shapes)]
    if element_types[0].is_floating:
        return builder.build((ops.gt_total_order if descending else ops.lt_total_order)(lhs, rhs))
    return builder.build((ops.gt if descending else ops.lt)(lhs, rhs))
