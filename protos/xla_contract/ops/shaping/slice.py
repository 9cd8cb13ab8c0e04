"""slice: a strided box out of an array, fixed when the program is written.

Semantics: XLA's Slice.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import ShapeError
from xla_contract.ops import rules
from xla_contract.stubs import hlo_pb2
from xla_contract.types.shape import Shape


@dataclasses.dataclass(frozen=True, slots=True)
class _Bounds:
    """One number of each entry of slice_dimensions."""

    name: str

    def read(self, proto: hlo_pb2.HloInstructionProto, _: Shape) -> tuple[int, ...]:
        """The numbers, dimension by dimension."""
        return tuple(getattr(entry, self.name) for entry in proto.slice_dimensions)

    def write(self, numbers: Sequence[int], proto: hlo_pb2.HloInstructionProto) -> None:
        """Set the numbers in existing entries, or in new ones."""
        for position, number in enumerate(numbers):
            if position == len(proto.slice_dimensions):
                proto.slice_dimensions.add()
            setattr(proto.slice_dimensions[position], self.name, number)


@dataclasses.dataclass(frozen=True, slots=True)
class SliceAttributes:
    """Per dimension the first element, one past the last, and the step."""

    starts: Annotated[tuple[int, ...], _Bounds("start")]
    limits: Annotated[tuple[int, ...], _Bounds("limit")]
    strides: Annotated[tuple[int, ...], _Bounds("stride")]


def infer_slice(operands: Sequence[Shape], attributes: SliceAttributes) -> Shape:
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
