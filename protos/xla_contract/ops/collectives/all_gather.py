"""all-gather and its two halves: the participants' operands joined along a dimension.

Semantics: XLA's AllGather. With several operands the result is a tuple.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import InvalidArgumentError, ShapeError
from xla_contract.ops.attribute_fields import OnlyDimension, Special
from xla_contract.ops.collectives.async_pairs import element_of_start
from xla_contract.ops.collectives.collective import (
    Participants,
    StatedParticipants,
    check_dimension,
    check_participants,
    declared_sizes,
    needs_arrays,
    require_one_result_each,
    resized,
)
from xla_contract.ops.signature import one_or_tuple
from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape


def _read_sizes(proto: hlo_pb2.HloInstructionProto, shape: Shape) -> tuple[int, ...]:
    if proto.opcode == Opcode.ALL_GATHER_START:
        if len(shape.tuple_shapes) != 2:
            raise InvalidArgumentError(
                f"the result must be a pair of operands and result, got {shape.without_layout()}"
            )
        shape = shape.tuple_shapes[1]
    return declared_sizes(shape, proto.dimensions[0])


@dataclasses.dataclass(frozen=True, slots=True)
class AllGatherAttributes:
    """The joined dimension, its size in each result, and the participants."""

    dimension: Annotated[int, OnlyDimension("gathered")]
    gathered: Annotated[tuple[int, ...], Special(_read_sizes)]
    participants: StatedParticipants = dataclasses.field(default_factory=Participants)


def infer_all_gather(operands: Sequence[Shape], attributes: AllGatherAttributes) -> Shape:
    """The operands' shapes with the dimension as many times as long as a group is large."""
    return one_or_tuple(_gathered(operands, attributes))


def infer_all_gather_start(operands: Sequence[Shape], attributes: AllGatherAttributes) -> Shape:
    """The pair of the operands and the result, each a tuple when there are several operands."""
    results = _gathered(operands, attributes)
    given = [operand.without_layout() for operand in operands]
    return Shape.tuple_of([one_or_tuple(given), one_or_tuple(results)])


def infer_all_gather_done(operands: Sequence[Shape]) -> Shape:
    """The second element of the first half's result."""
    return element_of_start(operands, 1)


def _gathered(operands: Sequence[Shape], attributes: AllGatherAttributes) -> list[Shape]:
    check_participants(attributes.participants)
    arrays = needs_arrays(operands)
    dimension = attributes.dimension
    check_dimension("gathered", dimension, arrays)
    require_one_result_each(attributes.gathered, arrays)
    count = attributes.participants.group_size
    results = []
    for array, size in zip(arrays, attributes.gathered, strict=True):
        part = array.dimensions[dimension]
        if count is None and part > 0:
            # No groups are stated: the first result determines the group's size.
            count = max(1, size // part)
        ways = 1 if count is None else count
        if size != part * ways:
            raise ShapeError(
                f"dimension {dimension} of the result must be that of the operand times the "
                f"group's size {ways}, got {size} for {array}"
            )
        results.append(resized(array, dimension, size))
    return results
