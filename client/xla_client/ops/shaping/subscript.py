"""Operations for an index between the brackets of `x[...]`.

Semantics: numpy's basic indexing, with Ops as indices computed at run time. Those are moved to the
edge if they are outside, as in `dynamic_slice` and `gather`, and do not count from the end.
"""

import dataclasses
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from xla_client.coercion.literals import as_array
from xla_client.coercion.numbers import described
from xla_client.ops.control import get_tuple_element
from xla_client.ops.indexing import gather
from xla_client.ops.shaping.shaping import reshape, rev
from xla_client.ops.shaping.slicing import dynamic_slice, slice
from xla_client.programs.builder import Op
from xla_contract.errors import ArgumentTypeError, ShapeError, XlaError
from xla_contract.types.dimension_numbers import GatherDimensionNumbers
from xla_contract.types.opcode import Opcode

_Slice = type(np.s_[:])  # `slice` is an operation here


@dataclasses.dataclass
class _Plan:
    """The operations for each dimension of the operand, and the dimensions of the result."""

    starts: list[int]
    limits: list[int]
    steps: list[int]
    reversed: list[int] = dataclasses.field(default_factory=list)
    scalars: dict[int, Op] = dataclasses.field(default_factory=dict)
    arrays: dict[int, Op] = dataclasses.field(default_factory=dict)
    kept: list[int | None] = dataclasses.field(default_factory=list)
    """The operand dimension of each result dimension; None for a new one."""


def subscript(operand: Op, index: Any) -> Op:
    """The part of an array that an index describes, or an element of a tuple.

    Args:
        operand: An array or a tuple.
        index: Ints, slices, None and `...`, alone or in a tuple, as numpy takes them. An index may
            also be an Op of integers, and one of them an array or a list of ints.

    Returns:
        The part or the element.

    Raises:
        ArgumentTypeError: `index` is no index.
        ShapeError: The index is outside the array.
    """
    indices = index if isinstance(index, tuple) else (index,)
    try:
        if operand.shape.is_tuple:
            return _element(operand, indices)
        plan = _planned(operand, indices)
    except XlaError as error:
        raise error.at("x[...]") from None
    return _by_arrays(operand, plan)


def _element(operand: Op, indices: Sequence[Any]) -> Op:
    count = len(operand.shape.tuple_shapes)
    if len(indices) != 1 or isinstance(indices[0], bool) or not hasattr(indices[0], "__index__"):
        raise ArgumentTypeError(
            f"an element of a tuple is taken by an int, got {described(indices)} for {operand!r}"
        )
    number = operator.index(indices[0])
    if not -count <= number < count:
        raise ShapeError(f"an element of a tuple of {count} is needed, got {number} of {operand!r}")
    builder = operand.builder
    if builder.message_of(operand).opcode == str(Opcode.TUPLE):
        return builder.operands_of(operand)[number]
    return get_tuple_element(operand, number % count)


def _planned(operand: Op, indices: Sequence[Any]) -> _Plan:
    sizes = operand.shape.dimensions
    plan = _Plan([0] * len(sizes), list(sizes), [1] * len(sizes))
    named = sum(index is not None and index is not Ellipsis for index in indices)
    if named > len(sizes) or sum(index is Ellipsis for index in indices) > 1:
        raise ShapeError(
            f"there must be at most one index per dimension and one ..., got {named} indices for "
            f"{operand.shape}"
        )
    number = 0
    for index in indices:
        if index is None:
            plan.kept.append(None)
        elif index is Ellipsis:
            plan.kept += range(number, number + len(sizes) - named)
            number += len(sizes) - named
        else:
            _add_index(operand, plan, number, index)
            number += 1
    plan.kept += range(number, len(sizes))
    return plan


def _add_index(operand: Op, plan: _Plan, number: int, index: Any) -> None:
    """Add one index to the plan."""
    size = operand.shape.dimensions[number]
    if isinstance(index, _Slice):
        _add_slice(plan, number, size, index)
        return
    if isinstance(index, list | np.ndarray):
        index = _constant(operand, index, number, size)
    if isinstance(index, Op):
        if not index.shape.element_type.is_integer:
            raise ArgumentTypeError(
                f"an index must have an integer type, got {index!r}; ops.select chooses by pred"
            )
        if index.shape.rank:
            plan.arrays[number] = index
            plan.kept.append(number)
        else:
            plan.scalars[number] = index
        return
    if isinstance(index, bool | np.bool_) or not hasattr(index, "__index__"):
        raise ArgumentTypeError(
            f"an index must be an int, a slice, None, ... or an Op, got {described(index)}"
        )
    at = operator.index(index)
    if not -size <= at < size:
        raise ShapeError(
            f"an index must lie inside its dimension, got {at} of dim {number} = {size} of "
            f"{operand.shape}"
        )
    plan.starts[number], plan.limits[number] = at % size, at % size + 1


def _add_slice(plan: _Plan, number: int, size: int, index: Any) -> None:
    for bound in (index.start, index.stop, index.step):
        if isinstance(bound, Op):
            raise ArgumentTypeError(
                f"the bounds of a slice must be ints, got {bound!r}; a size must be known while "
                "the program is written: ops.dynamic_slice takes a start and a size"
            )
        if bound is not None and (isinstance(bound, bool) or not hasattr(bound, "__index__")):
            raise ArgumentTypeError(f"the bounds of a slice must be ints, got {described(bound)}")
    if index.step is not None and operator.index(index.step) == 0:
        raise ShapeError("the step of a slice must not be 0, got 0")
    chosen = range(size)[index]
    first, last = (chosen[0], chosen[-1]) if chosen else (0, -1)
    if chosen.step < 0:
        plan.reversed.append(number)
        first, last = (last, first) if chosen else (0, -1)
    plan.starts[number], plan.limits[number] = first, last + 1
    plan.steps[number] = abs(chosen.step)
    plan.kept.append(number)


def _constant(operand: Op, index: Any, number: int, size: int) -> Op:
    """Indices that are known: an array of ints, those below zero counted from the end."""
    array = as_array(index)
    if array.dtype.kind not in "iu":
        raise ArgumentTypeError(
            f"an index must have an integer type, got {described(index)}; ops.select chooses by "
            "pred"
        )
    if array.size and not (-size <= int(array.min()) and int(array.max()) < size):
        raise ShapeError(
            f"an index must lie inside its dimension, got {described(index)} of dim {number} = "
            f"{size} of {operand.shape}"
        )
    return operand.builder.constant(np.where(array < 0, array + size, array).astype(np.int32))


def _by_arrays(operand: Op, plan: _Plan) -> Op:
    if len(plan.arrays) > 1:
        raise ShapeError(
            f"at most one index may be an array, got {list(plan.arrays.values())}; ops.gather "
            "takes more"
        ).at("x[...]")
    result = operand
    sizes = operand.shape.dimensions
    is_whole = not any(plan.starts) and tuple(plan.limits) == sizes
    if not is_whole or any(step != 1 for step in plan.steps):
        result = slice(operand, plan.starts, plan.limits, plan.steps)
    if plan.reversed:
        result = rev(result, plan.reversed)
    if plan.scalars:
        taken = [1 if n in plan.scalars else size for n, size in enumerate(result.shape.dimensions)]
        like = next(iter(plan.scalars.values())).shape.element_type
        starts = [
            plan.scalars[n].astype(like) if n in plan.scalars else 0 for n in range(len(sizes))
        ]
        result = dynamic_slice(result, starts, taken)
    for number, indices in plan.arrays.items():
        return _gathered(result, indices, number, plan.kept)
    dimensions = [1 if n is None else result.shape.dimensions[n] for n in plan.kept]
    return result if result.shape.dimensions == tuple(dimensions) else reshape(result, dimensions)


def _gathered(operand: Op, indices: Op, number: int, kept: Sequence[int | None]) -> Op:
    """The slices at each index along a dimension, which the dimensions of the indices replace."""
    rank, more = operand.shape.rank, indices.shape.rank
    sizes = list(operand.shape.dimensions)
    sizes[number] = min(1, sizes[number])
    behind = range(number + more, rank - 1 + more)
    numbers = GatherDimensionNumbers(
        offset_dims=(*range(number), *behind),
        collapsed_slice_dims=(number,),
        start_index_map=(number,),
        index_vector_dim=more,
    )
    result = gather(operand, indices, numbers, sizes)
    dimensions: list[int] = []
    for each in kept:
        if each == number:
            dimensions += indices.shape.dimensions
        else:
            dimensions.append(1 if each is None else operand.shape.dimensions[each])
    return result if result.shape.dimensions == tuple(dimensions) else reshape(result, dimensions)
