"""Rules that cut and fill operands of dynamic size so that they fit each other, by opcode.

Semantics: XLA's dynamic dimension inference. If a static size must equal a dynamic one, the operand
of static size is cut to it. Two dynamic sizes that must be equal are an error if they differ. In
elementwise operations size 1 stretches, and other sizes are cut to the smallest. An operation that
needs more elements than there are gets zeros.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from xla_contract.errors import InvalidArgumentError, UnimplementedError
from xla_contract.ops.elementwise.elementwise import BINARY
from xla_contract.ops.shaping.broadcast import BroadcastAttributes
from xla_contract.ops.shaping.reshape import ReshapeAttributes, groups
from xla_contract.ops.signature import listed
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Array
from xla_server.ops.numerics.dynamic_bounds import broadcast_to, padded, sliced, with_size

UPDATED_IN_PLACE = frozenset({Opcode.DYNAMIC_UPDATE_SLICE})
"""Operations that replace some elements of an operand; offsets are those in the bounds."""

_STATIC_ONLY = frozenset(
    {
        Opcode.BITCAST,
        Opcode.RAGGED_ALL_TO_ALL,
        Opcode.RAGGED_DOT,
        Opcode.SCALED_DOT,
    }
)

OperandDim: TypeAlias = tuple[int, int]
"""The number of an operand, and one of its dimensions."""


def fit_operands(instruction: HloInstruction, operands: list[Array]) -> tuple[list[Array], Any]:
    """Return operands that fit each other, and the attributes at these sizes.

    Raises InvalidArgumentError if dynamic sizes that must be equal are not, and UnimplementedError
    for an operation that takes no dynamic sizes.
    """
    opcode = instruction.opcode
    if opcode in _STATIC_ONLY:
        shapes = listed([part.shape.without_layout() for part in instruction.operands])
        raise UnimplementedError(f"the operation takes static sizes alone, got {shapes}")
    fit = _FIT.get(opcode)
    changed = None if fit is None else fit(instruction, operands)
    return operands, instruction.attributes if changed is None else changed


def _agree(
    instruction: HloInstruction,
    operands: list[Array],
    dimensions: Iterable[OperandDim],
    *,
    is_elementwise: bool = False,
) -> None:
    """Give these dimensions of the operands one size; stores into `operands`."""
    dimensions = list(dimensions)
    sizes = {operands[number].shape[dimension] for number, dimension in dimensions}
    if len(sizes) == 1:
        return
    dynamic = {
        operands[number].shape[dimension]
        for number, dimension in dimensions
        if _is_dynamic(instruction.operands[number], operands[number], dimension)
    }
    if is_elementwise and len(dynamic) > 1:
        dynamic = {min(dynamic - {1})}
    if len(dynamic) != 1:
        described = ", ".join(
            f"{operands[number].shape[dimension]} in dimension {dimension} of operand {number}"
            for number, dimension in dimensions
        )
        raise InvalidArgumentError(f"sizes that meet must agree, got {described}")
    (size,) = dynamic
    for number, dimension in dimensions:
        operands[number] = _resized(operands[number], dimension, size)


def _is_dynamic(operand: HloInstruction, array: Array, dimension: int) -> bool:
    shape = operand.shape
    return shape.is_dynamic(dimension) or array.shape[dimension] != shape.dimensions[dimension]


def _resized(array: Array, dimension: int, size: int) -> Array:
    sizes = with_size(array.shape, dimension, size)
    if array.shape[dimension] == 1 and size != 0:
        return broadcast_to(array, sizes)
    return sliced(array, sizes)


def _elementwise(
    instruction: HloInstruction, operands: list[Array], *, is_elementwise: bool = True
) -> None:
    arrays = [number for number, array in enumerate(operands) if array.ndim]
    for dimension in range(operands[arrays[0]].ndim):
        dimensions = [(number, dimension) for number in arrays]
        _agree(instruction, operands, dimensions, is_elementwise=is_elementwise)


def _concatenate(instruction: HloInstruction, operands: list[Array]) -> None:
    for dimension in range(operands[0].ndim):
        if dimension != instruction.attributes.dimension:
            _agree(instruction, operands, [(n, dimension) for n in range(len(operands))])


def _broadcast(instruction: HloInstruction, operands: list[Array]) -> BroadcastAttributes:
    attributes: BroadcastAttributes = instruction.attributes
    sizes = list(attributes.result_dimensions)
    for source, target in enumerate(attributes.dimensions):
        sizes[target] = operands[0].shape[source]
    return dataclasses.replace(attributes, result_dimensions=tuple(sizes))


def _reshape(instruction: HloInstruction, operands: list[Array]) -> ReshapeAttributes:
    """Compute the size of the dynamic dimension in each group of result dimensions."""
    (operand,), bounds = operands, instruction.operands[0].shape.dimensions
    result = instruction.shape
    sizes = list(result.dimensions)
    attributes: ReshapeAttributes = instruction.attributes
    if not math.prod(bounds):
        operands[0] = padded(operand, bounds)
        return dataclasses.replace(attributes, dynamic_dimensions=())
    for group in groups(bounds, result.dimensions):
        count = math.prod(operand.shape[number] for number in group.of_operand)
        if not group.of_result:
            # A dimension of bound 1 that is left out: with no element in it there is none to take.
            kept = [*operand.shape]
            for number in group.of_operand:
                kept[number] = 1
            operands[0] = operand = padded(operand, kept)
            continue
        wide = [n for n in group.of_result if result.dimensions[n] != 1]
        dynamic = [n for n in group.of_result if result.is_dynamic(n)] or wide or group.of_result
        others = math.prod(result.dimensions[n] for n in group.of_result if n != dynamic[0])
        if count % others:
            raise InvalidArgumentError(
                f"the elements must fill whole rows, got {count} of {operand.shape} for "
                f"{result.without_layout()}"
            )
        sizes[dynamic[0]] = count // others
    return dataclasses.replace(attributes, dimensions=tuple(sizes), dynamic_dimensions=())


def _slice(instruction: HloInstruction, operands: list[Array]) -> Any:
    attributes, operand = instruction.attributes, instruction.operands[0].shape
    boxes = zip(attributes.starts, attributes.limits, attributes.strides, strict=True)
    whole = [
        box == (0, bound, 1) and operand.is_dynamic(number)
        for number, (box, bound) in enumerate(zip(boxes, operand.dimensions, strict=True))
    ]
    return _taken(instruction, operands, "limits", whole)


def _taken(
    instruction: HloInstruction, operands: list[Array], field: str, whole: Sequence[bool]
) -> Any:
    """Use the actual size in `whole` dimensions; zero-fill the operand to its bound in others."""
    bounds, ends = instruction.operands[0].shape.dimensions, getattr(instruction.attributes, field)
    kept = [
        size if is_whole else bound
        for size, bound, is_whole in zip(operands[0].shape, bounds, whole, strict=True)
    ]
    operands[0] = padded(operands[0], kept)
    cut_off = zip(kept, ends, whole, strict=True)
    ends = tuple(size if is_whole else end for size, end, is_whole in cut_off)
    return dataclasses.replace(instruction.attributes, **{field: ends})


def _boxed(instruction: HloInstruction, operands: list[Array], field: str) -> Any:
    """Set each box size that equals the operand's bound to the operand's actual size."""
    bounds, sizes = instruction.operands[0].shape.dimensions, getattr(instruction.attributes, field)
    whole = [size == bound for size, bound in zip(sizes, bounds, strict=True)]
    return _taken(instruction, operands, field, whole)


def _gather(instruction: HloInstruction, operands: list[Array]) -> Any:
    numbers = instruction.attributes.dimension_numbers
    pairs = zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True)
    for pair in pairs:
        _agree(instruction, operands, enumerate(pair))
    return _boxed(instruction, operands, "slice_sizes")


def _scatter(instruction: HloInstruction, operands: list[Array]) -> None:
    """Updates are taken as far as the indices, and whole windows as far as the inputs."""
    numbers = instruction.attributes.dimension_numbers
    count = len(operands) // 2
    inputs, indices, updates = range(count), count, range(count + 1, len(operands))
    shapes = [part.shape.dimensions for part in instruction.operands]
    for dimension in range(operands[0].ndim):
        _agree(instruction, operands, [(n, dimension) for n in inputs])
    dropped = {*numbers.inserted_window_dims, *numbers.input_batching_dims}
    kept = [n for n in range(operands[0].ndim) if n not in dropped]
    for mine, theirs in zip(kept, numbers.update_window_dims, strict=True):
        dimensions = [(n, theirs) for n in updates]
        if shapes[0][mine] == shapes[updates[0]][theirs]:
            dimensions.append((0, mine))
        _agree(instruction, operands, dimensions)
    counted = [n for n in range(operands[indices].ndim) if n != numbers.index_vector_dim]
    batch = [n for n in range(operands[-1].ndim) if n not in numbers.update_window_dims]
    for mine, theirs in zip(counted, batch, strict=True):
        _agree(instruction, operands, [(indices, mine), *((n, theirs) for n in updates)])
    for mine, theirs in zip(
        numbers.input_batching_dims, numbers.scatter_indices_batching_dims, strict=True
    ):
        _agree(instruction, operands, [(0, mine), (indices, theirs)])


def _dot(instruction: HloInstruction, operands: list[Array]) -> None:
    numbers = instruction.attributes.dimension_numbers
    for left, right in (
        (numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions),
        (numbers.lhs_batch_dimensions, numbers.rhs_batch_dimensions),
    ):
        for pair in zip(left, right, strict=True):
            _agree(instruction, operands, enumerate(pair))


def _convolution(instruction: HloInstruction, operands: list[Array]) -> None:
    numbers = instruction.attributes.dimension_numbers
    if instruction.attributes.feature_group_count == 1:
        pair = numbers.input_feature_dimension, numbers.kernel_input_feature_dimension
        _agree(instruction, operands, enumerate(pair))


def _select_and_scatter(instruction: HloInstruction, operands: list[Array]) -> None:
    window = instruction.attributes.window
    operands[1] = sliced(operands[1], window.output_sizes(operands[0].shape))


_FIT: Mapping[Opcode, Callable[[HloInstruction, list[Array]], Any]] = {
    **dict.fromkeys(BINARY, _elementwise),
    Opcode.CLAMP: _elementwise,
    Opcode.COMPARE: _elementwise,
    Opcode.SELECT: _elementwise,
    Opcode.STOCHASTIC_CONVERT: _elementwise,
    **dict.fromkeys(
        (Opcode.MAP, Opcode.REDUCE, Opcode.REDUCE_WINDOW, Opcode.SORT),
        functools.partial(_elementwise, is_elementwise=False),
    ),
    Opcode.CONCATENATE: _concatenate,
    Opcode.BROADCAST: _broadcast,
    Opcode.RESHAPE: _reshape,
    Opcode.SLICE: _slice,
    Opcode.DYNAMIC_SLICE: functools.partial(_boxed, field="sizes"),
    Opcode.GATHER: _gather,
    Opcode.SCATTER: _scatter,
    Opcode.DOT: _dot,
    Opcode.CONVOLUTION: _convolution,
    Opcode.SELECT_AND_SCATTER: _select_and_scatter,
}
"""Rules by opcode; other operations take their only array at its own size.

A rule stores the fitting operands in the list, and returns the attributes with the sizes of the
run; None if they stay.
"""
