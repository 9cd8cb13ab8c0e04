"""all-reduce and its two halves: each operand combined over the participants, element by element.

Semantics: XLA's AllReduce. With several operands the result is a tuple. The first half gives what
the whole gives, and the second passes it on.
"""

import dataclasses
from collections.abc import Sequence

from xla_contract.ops.collectives.collective import (
    Participants,
    check_combiner,
    check_participants,
    needs_arrays,
    read_participants,
    write_participants,
)
from xla_contract.ops.definition import (
    AnyDefinition,
    NoAttributes,
    OpDefinition,
    without_attributes,
)
from xla_contract.ops.signature import one_or_tuple
from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import ProgramShape, Shape


@dataclasses.dataclass(frozen=True, slots=True)
class AllReduceAttributes:
    """Participants of an all-reduce."""

    participants: Participants = dataclasses.field(default_factory=Participants)


def infer_all_reduce(
    operands: Sequence[Shape], attributes: AllReduceAttributes, called: Sequence[ProgramShape]
) -> Shape:
    """The operands' shapes; the groups may differ in size."""
    check_participants(attributes.participants, uniform=False)
    arrays = needs_arrays(operands)
    check_combiner(called, arrays)
    return one_or_tuple(arrays)


def infer_all_reduce_done(
    operands: Sequence[Shape], attributes: NoAttributes, called: Sequence[ProgramShape]
) -> Shape:
    """The operand's shape."""
    return operands[0].without_layout()


def _decode(proto: hlo_pb2.HloInstructionProto, shape: Shape) -> AllReduceAttributes:
    return AllReduceAttributes(read_participants(proto))


def _encode(attributes: AllReduceAttributes, proto: hlo_pb2.HloInstructionProto) -> None:
    write_participants(attributes.participants, proto)


DEFINITIONS: tuple[AnyDefinition, ...] = (
    *(
        OpDefinition(opcode, AllReduceAttributes, infer_all_reduce, _decode, _encode)
        for opcode in (Opcode.ALL_REDUCE, Opcode.ALL_REDUCE_START)
    ),
    without_attributes(Opcode.ALL_REDUCE_DONE, infer_all_reduce_done),
)
