"""all-to-all: each participant sends its n-th part to the n-th of its group.

Semantics: XLA's AllToAll in both forms: an array split along a dimension, and one operand for
each of the group, which gives a tuple.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import InvalidArgumentError, ShapeError
from xla_contract.ops.attribute_fields import Special
from xla_contract.ops.collectives.collective import (
    Participants,
    StatedParticipants,
    check_dimension,
    check_participants,
    needs_arrays,
)
from xla_contract.ops.signature import listed
from xla_contract.stubs import hlo_pb2
from xla_contract.types.shape import Shape


def _read_dimension(proto: hlo_pb2.HloInstructionProto, shape: Shape) -> int | None:
    if len(proto.dimensions) > 1:
        raise InvalidArgumentError(
            f"an all-to-all may name one dimension, got {list(proto.dimensions)} for {shape}"
        )
    return proto.dimensions[0] if proto.dimensions else None


def _write_dimension(dimension: int | None, proto: hlo_pb2.HloInstructionProto) -> None:
    if dimension is not None:
        proto.dimensions.append(dimension)


@dataclasses.dataclass(frozen=True, slots=True)
class AllToAllAttributes:
    """The split dimension, None in the form with one operand for each; the participants."""

    split_dimension: Annotated[int | None, Special(_read_dimension, _write_dimension)] = None
    participants: StatedParticipants = dataclasses.field(default_factory=Participants)


def infer_all_to_all(operands: Sequence[Shape], attributes: AllToAllAttributes) -> Shape:
    """The operand's shape, or the tuple of the operands' shapes, which must be equal."""
    check_participants(attributes.participants, has_global_ids=False)
    arrays = needs_arrays(operands)
    count = attributes.participants.groups.size
    dimension = attributes.split_dimension
    if dimension is None:
        if any(array != arrays[0] for array in arrays):
            raise ShapeError(f"operands must have equal shapes, got {listed(arrays)}")
        if count is not None and len(arrays) != count:
            raise ShapeError(
                f"there must be one operand for each of a group, got {len(arrays)} for groups "
                f"{attributes.participants.groups}"
            )
        return Shape.tuple_of(arrays)
    if len(arrays) != 1:
        raise ShapeError(f"a split all-to-all must have one operand, got {listed(arrays)}")
    (array,) = arrays
    check_dimension("split", dimension, arrays)
    if not array.is_static:
        raise ShapeError(f"a split all-to-all must be of static size, got {array}")
    if count is not None and array.dimensions[dimension] % count:
        raise ShapeError(
            f"the split dimension must be divisible by the group's size {count}, got dim "
            f"{dimension} = {array.dimensions[dimension]} of {array}"
        )
    return array
