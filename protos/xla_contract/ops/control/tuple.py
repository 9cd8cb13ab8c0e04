"""tuple and get-tuple-element: values put together and taken apart.

Semantics: XLA's Tuple and GetTupleElement.
"""

import dataclasses
from collections.abc import Sequence

from xla_contract.errors import ShapeError
from xla_contract.ops.definition import (
    AnyDefinition,
    NoAttributes,
    OpDefinition,
    without_attributes,
)
from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import ProgramShape, Shape


@dataclasses.dataclass(frozen=True, slots=True)
class GetTupleElementAttributes:
    """The position of the element."""

    index: int


def infer_tuple(
    operands: Sequence[Shape], attributes: NoAttributes, called: Sequence[ProgramShape]
) -> Shape:
    """The tuple of the operands' shapes."""
    return Shape.tuple_of([operand.without_layout() for operand in operands])


def infer_get_tuple_element(
    operands: Sequence[Shape],
    attributes: GetTupleElementAttributes,
    called: Sequence[ProgramShape],
) -> Shape:
    """The shape of one element."""
    (operand,) = operands
    if not operand.is_tuple:
        raise ShapeError(f"the operand must be a tuple, got {operand.without_layout()}")
    count = len(operand.tuple_shapes)
    if not 0 <= attributes.index < count:
        raise ShapeError(
            f"the index must be in [0, {count}), got {attributes.index} for "
            f"{operand.without_layout()}"
        )
    return operand.tuple_shapes[attributes.index].without_layout()


def decode(proto: hlo_pb2.HloInstructionProto, shape: Shape) -> GetTupleElementAttributes:
    """Read tuple_index."""
    return GetTupleElementAttributes(proto.tuple_index)


def encode(attributes: GetTupleElementAttributes, proto: hlo_pb2.HloInstructionProto) -> None:
    """Write tuple_index."""
    proto.tuple_index = attributes.index


DEFINITIONS: tuple[AnyDefinition, ...] = (
    without_attributes(Opcode.TUPLE, infer_tuple),
    OpDefinition(
        Opcode.GET_TUPLE_ELEMENT,
        GetTupleElementAttributes,
        infer_get_tuple_element,
        decode,
        encode,
    ),
)
