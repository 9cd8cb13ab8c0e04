"""reshape: the same elements, in row-major order, under other dimensions.

Semantics: XLA's Reshape; its result does not depend on layouts.
"""

import dataclasses
from collections.abc import Sequence

from xla_contract.errors import ShapeError
from xla_contract.opcode import Opcode
from xla_contract.ops import rules
from xla_contract.ops.definition import OpDefinition
from xla_contract.shape import ProgramShape, Shape
from xla_contract.stubs import hlo_pb2


@dataclasses.dataclass(frozen=True, slots=True)
class ReshapeAttributes:
    """The sizes of the result and, if any, which of them are dynamic."""

    dimensions: tuple[int, ...]
    dynamic_dimensions: tuple[bool, ...] = ()


def infer_reshape(
    operands: Sequence[Shape], attributes: ReshapeAttributes, called: Sequence[ProgramShape]
) -> Shape:
    """An array of these sizes, which hold as many elements as the operand."""
    (operand,) = operands
    rules.expect_array(operand, "the operand")
    result = operand.with_dimensions(attributes.dimensions, attributes.dynamic_dimensions)
    if operand.element_count != result.element_count:
        raise ShapeError(
            f"operand and result must have the same number of elements, got "
            f"{operand.element_count} of {operand.without_layout()} and "
            f"{result.element_count} of {result}"
        )
    return result


def decode(proto: hlo_pb2.HloInstructionProto, shape: Shape) -> ReshapeAttributes:
    """The sizes are the declared shape's."""
    return ReshapeAttributes(shape.dimensions, shape.dynamic_dimensions)


def encode(attributes: ReshapeAttributes, proto: hlo_pb2.HloInstructionProto) -> None:
    """Nothing: the sizes are in the instruction's shape."""


DEFINITION = OpDefinition(Opcode.RESHAPE, ReshapeAttributes, infer_reshape, decode, encode)
