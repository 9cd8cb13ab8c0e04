"""slice: a strided box out of an array, fixed when the program is written.

Semantics: XLA's Slice.
"""

import dataclasses
from collections.abc import Sequence

from xla_contract.errors import ShapeError
from xla_contract.ops import rules
from xla_contract.ops.definition import OpDefinition
from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import ProgramShape, Shape


@dataclasses.dataclass(frozen=True, slots=True)
class SliceAttributes:
    """Per dimension the first element, one past the last, and the step."""

    starts: tuple[int, ...]
    limits: tuple[int, ...]
    strides: tuple[int, ...]


def infer_slice(
    operands: Sequence[Shape], attributes: SliceAttributes, called: Sequence[ProgramShape]
) -> Shape:
    """The elements start, start + stride, ... below limit, in every dimension."""
    (operand,) = operands
    rules.expect_array(operand, "the operand")
    rules.expect_entries(attributes.starts, operand, "starts")
    rules.expect_entries(attributes.limits, operand, "limits")
    rules.expect_entries(attributes.strides, operand, "strides")
    sizes = []
    boxes = zip(attributes.starts, attributes.limits, attributes.strides, strict=True)
    for number, (start, limit, stride) in enumerate(boxes):
        size = operand.dimensions[number]
        evidence = f"[{start}:{limit}:{stride}] in dimension {number} of {operand.without_layout()}"
        if not 0 <= start <= limit <= size:
            raise ShapeError(f"0 <= start <= limit <= {size} must hold, got {evidence}")
        if stride < 1:
            raise ShapeError(f"strides must be positive, got {evidence}")
        sizes.append(-((start - limit) // stride))
    flags = [
        operand.is_dynamic(d) and size == operand.dimensions[d] for d, size in enumerate(sizes)
    ]
    return operand.with_dimensions(sizes, flags)


def decode(proto: hlo_pb2.HloInstructionProto, shape: Shape) -> SliceAttributes:
    """Read slice_dimensions."""
    return SliceAttributes(
        tuple(d.start for d in proto.slice_dimensions),
        tuple(d.limit for d in proto.slice_dimensions),
        tuple(d.stride for d in proto.slice_dimensions),
    )


def encode(attributes: SliceAttributes, proto: hlo_pb2.HloInstructionProto) -> None:
    """Write slice_dimensions."""
    boxes = zip(attributes.starts, attributes.limits, attributes.strides, strict=True)
    for start, limit, stride in boxes:
        proto.slice_dimensions.add(start=start, limit=limit, stride=stride)


DEFINITION = OpDefinition(Opcode.SLICE, SliceAttributes, infer_slice, decode, encode)
