"""reduce-scatter: operands combined over the participants, each of whom keeps its part.

Semantics: XLA's ReduceScatter. With several operands the result is a tuple.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import ShapeError
from xla_contract.ops.attribute_fields import OnlyDimension
from xla_contract.ops.collectives.collective import (
    DECLARED_SIZES,
    Participants,
    StatedParticipants,
    check_combiner,
    check_dimension,
    check_participants,
    needs_arrays,
    require_one_result_each,
    resized,
)
from xla_contract.ops.signature import one_or_tuple
from xla_contract.types.shape import ProgramShape, Shape


@dataclasses.dataclass(frozen=True, slots=True)
class ReduceScatterAttributes:
    """The divided dimension, its size in each result, and the participants."""

    dimension: Annotated[int, OnlyDimension("scattered")]
    scattered: Annotated[tuple[int, ...], DECLARED_SIZES]
    participants: StatedParticipants = dataclasses.field(default_factory=Participants)


def infer_reduce_scatter(
    operands: Sequence[Shape], attributes: ReduceScatterAttributes, called: Sequence[ProgramShape]
) -> Shape:
    """The operands' shapes with the dimension divided by the size of a group."""
    check_participants(attributes.participants)
    arrays = needs_arrays(operands)
    check_combiner(called, arrays)
    dimension = attributes.dimension
    check_dimension("scattered", dimension, arrays)
    require_one_result_each(attributes.scattered, arrays)
    count = attributes.participants.group_size
    results = []
    for array, size in zip(arrays, attributes.scattered, strict=True):
        whole = array.dimensions[dimension]
        if count is None and size > 0:
            # No groups are stated: the first result determines the group's size.
            count = max(1, whole // size)
        ways = 1 if count is None else count
        if size * ways != whole:
            raise ShapeError(
                f"dimension {dimension} of the operand must be that of the result times the "
                f"group's size {ways}, got {array} and {size} in the result"
            )
        results.append(resized(array, dimension, size))
    return one_or_tuple(results)
