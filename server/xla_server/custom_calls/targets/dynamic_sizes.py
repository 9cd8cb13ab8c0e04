"""PadToStatic and SliceToDynamic: the edges of what XLA's dynamic padder made static.

Semantics: XLA's EmitPadToStatic and EmitSliceToDynamic. The dynamic value is a box of the first
elements of the static one. XLA leaves elements outside of the box undefined; here they are zeros.
"""

from collections.abc import Sequence
from typing import cast

import numpy as np

from xla_contract.errors import InvalidArgumentError, ShapeError
from xla_contract.ops.signature import listed
from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape
from xla_server.custom_calls.target import CustomCallTarget, require_result
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Array, Frame, Value
from xla_server.ops.numerics.dynamic_bounds import padded, part_of, plain

_SIZE = Shape.scalar(ElementType.S32)


def check_pad(instruction: HloInstruction) -> None:
    """One array of any size; the array at its bounds and one size for each dimension."""
    shapes = [operand.shape.without_layout() for operand in instruction.operands]
    if len(shapes) != 1 or not shapes[0].is_array:
        raise ShapeError(f"PadToStatic takes one array, got {listed(shapes)}")
    (operand,) = shapes
    static = Shape.array(operand.element_type, operand.dimensions)
    require_result(instruction, Shape.tuple_of([static, *[_SIZE] * operand.rank]))


def evaluate_pad(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
    """The array with zeros behind its elements, and its sizes."""
    array = plain(cast(Array, operands[0]))
    whole = padded(array, instruction.operands[0].shape.dimensions)
    return (whole, *(np.asarray(size, np.int32) for size in array.shape))


def check_slice(instruction: HloInstruction) -> None:
    """An array of one size and one size for each dimension; the array, some of it dynamic."""
    shapes = [operand.shape.without_layout() for operand in instruction.operands]
    result = instruction.shape.without_layout()
    if not result.is_array:
        raise ShapeError(f"SliceToDynamic gives one array, got {result}")
    wanted = [Shape.array(result.element_type, result.dimensions), *[_SIZE] * result.rank]
    if shapes != wanted:
        raise ShapeError(
            "SliceToDynamic takes the array at the bounds of the result and the size in each "
            f"dimension, got {listed(shapes)} for {result}"
        )


def evaluate_slice(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
    """A view of the first elements; InvalidArgumentError for sizes that the shape excludes."""
    whole, *numbers = (cast(Array, operand) for operand in operands)
    sizes, shape = tuple(map(int, numbers)), instruction.shape
    for dimension, (size, bound) in enumerate(zip(sizes, shape.dimensions, strict=True)):
        least = 0 if shape.is_dynamic(dimension) else bound
        if not least <= size <= bound:
            raise InvalidArgumentError(
                f"the size must be in [{least}, {bound}], got {size} for dimension {dimension} of "
                f"{shape.without_layout()}"
            )
    return part_of(plain(whole), sizes)


TARGETS = (
    CustomCallTarget("PadToStatic", evaluate_pad, check_pad),
    CustomCallTarget("SliceToDynamic", evaluate_slice, check_slice),
)
