"""Arrays in order.

Floating types are sorted by the total order of `ops.lt_total_order`, in which -0 comes before +0
and NaNs stand at both ends by their sign. All sorts are stable.
"""

import functools
from collections.abc import Callable, Sequence

from xla_client import ops
from xla_client.coercion.shapes import as_element_type
from xla_client.lib import constants
from xla_client.programs.arguments.checked import checked
from xla_client.programs.builder import Builder, Op, Operands, as_sequence
from xla_client.programs.computation import Computation
from xla_contract.errors import ShapeError
from xla_contract.types.element_type import ElementType, ElementTypeLike
from xla_contract.types.shape import Shape


@checked
@functools.cache
def create_scalar_lt_computation(*element_types: ElementTypeLike) -> Computation:
    """The comparator of an ascending sort by the first of several operands.

    Args:
        element_types: The element type of each operand.

    Returns:
        The computation, the same one for the same types.

    Raises:
        ShapeError: The first type has no order.
        InvalidArgumentError: The name of the element type is unknown.

    Example:
        >>> comparator = lib.sorting.create_scalar_lt_computation("f32", "s32")
        >>> [str(shape) for shape in comparator.parameters]
        ['f32[]', 'f32[]', 's32[]', 's32[]']

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/comparators.h
    """
    return _comparator([as_element_type(each) for each in element_types], descending=False)


@checked
@functools.cache
def create_scalar_gt_computation(*element_types: ElementTypeLike) -> Computation:
    """The comparator of a descending sort by the first of several operands.

    Args:
        element_types: The element type of each operand.

    Returns:
        The computation, the same one for the same types.

    Raises:
        ShapeError: The first type has no order.
        InvalidArgumentError: The name of the element type is unknown.

    Example:
        >>> comparator = lib.sorting.create_scalar_gt_computation("f32", "s32")
        >>> [str(shape) for shape in comparator.parameters]
        ['f32[]', 'f32[]', 's32[]', 's32[]']

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/comparators.h
    """
    return _comparator([as_element_type(each) for each in element_types], descending=True)


@checked
def sort(operand: Op, dimension: int = -1, *, descending: bool = False) -> Op:
    """The elements in order along a dimension; the sort is stable.

    Args:
        operand: An array of a type that has an order.
        dimension: The dimension; a negative number counts from the end.
        descending: Whether the largest element comes first.

    Returns:
        The sorted array.

    Raises:
        ShapeError: The operand is complex, or has no such dimension.
        InvalidArgumentError: The operand is no array.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> lib.sorting.sort(x)
        %sort.2: f32[2,3]

    See https://openxla.org/xla/operation_semantics#sort
    """
    comparator = _comparators(descending)(operand.shape.element_type)
    return ops.sort(operand, comparator, dimension, is_stable=True)


@checked
def sort_by_key(
    key: Op, values: Operands, dimension: int = -1, *, descending: bool = False
) -> tuple[Op, ...]:
    """The key and other arrays, all in the order of the key.

    Args:
        key: An array of a type that has an order.
        values: One array or several, of the key's dimensions.
        dimension: The dimension; a negative number counts from the end.
        descending: Whether the largest key comes first.

    Returns:
        The sorted key, then the values in its order.

    Raises:
        ShapeError: The key is complex, has no such dimension, or has other dimensions than the
            values.
        InvalidArgumentError: The key or a value is no array.

    Example:
        >>> b = Builder("example")
        >>> x, n = b.parameter(0, "f32[2,3]"), b.parameter(1, "s32[2,3]")
        >>> lib.sorting.sort_by_key(x, [n])
        (%get-tuple-element.4: f32[2,3], %get-tuple-element.5: s32[2,3])

    See https://openxla.org/xla/operation_semantics#sort
    """
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
    """The elements in order along a dimension, and the indices that they had there.

    Args:
        operand: An array of a type that has an order.
        dimension: The dimension; a negative number counts from the end.
        descending: Whether the largest element comes first.

    Returns:
        The sorted array and the s32 indices.

    Raises:
        ShapeError: The operand is complex, or has no such dimension.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> lib.sorting.sort_with_indices(x)
        (%get-tuple-element.4: f32[2,3], %get-tuple-element.5: s32[2,3])

    See https://openxla.org/xla/operation_semantics#sort
    """
    indices = constants.iota_like(operand, dimension)
    ordered, where = sort_by_key(operand, [indices], dimension, descending=descending)
    return ordered, where


@checked
def argsort(operand: Op, dimension: int = -1, *, descending: bool = False) -> Op:
    """The indices along a dimension that put the elements in order.

    Args:
        operand: An array of a type that has an order.
        dimension: The dimension; a negative number counts from the end.
        descending: Whether the largest element comes first.

    Returns:
        The s32 indices, of the operand's dimensions.

    Raises:
        ShapeError: The operand is complex, or has no such dimension.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,3]")
        >>> lib.sorting.argsort(x)
        %get-tuple-element.5: s32[2,3]

    See https://openxla.org/xla/operation_semantics#sort
    """
    return sort_with_indices(operand, dimension, descending=descending)[1]


@checked
def top_k(operand: Op, k: int, dimension: int = -1, *, largest: bool = True) -> tuple[Op, Op]:
    """The k largest or smallest elements along a dimension in order, and their indices.

    Unlike `ops.top_k` it takes any dimension and is written with a sort alone.

    Args:
        operand: An array of a type that has an order.
        k: The number of elements.
        dimension: The dimension; a negative number counts from the end.
        largest: Whether to take the largest elements and not the smallest.

    Returns:
        The elements and their s32 indices.

    Raises:
        ShapeError: There are fewer than k elements, the operand is complex, or has no such
            dimension.

    Example:
        >>> x = Builder("example").parameter(0, "f32[2,8]")
        >>> lib.sorting.top_k(x, 3)
        (%slice.6: f32[2,3], %slice.7: s32[2,3])

    See https://github.com/openxla/xla/blob/main/xla/hlo/builder/lib/sorting.h
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
