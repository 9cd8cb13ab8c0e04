"""Definition of one operation in the contract: attributes, their wire form, its shape rule."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import ProgramShape, Shape

A = TypeVar("A")


@dataclasses.dataclass(frozen=True, slots=True)
class NoAttributes:
    """The attributes of an operation that has none."""


NO_ATTRIBUTES = NoAttributes()


@dataclasses.dataclass(frozen=True, slots=True)
class OpDefinition(Generic[A]):
    """Definition of one operation.

    - `infer(operands, attributes, called)` returns the result shape, without layout, and raises
      ShapeError with the bare rule and evidence. `called` are the signatures of the called
      computations in the order of called_computation_ids.
    - `decode(proto, shape)` reads the attributes of an instruction with the declared shape `shape`,
      which has the types and sizes that HLO keeps in the result shape. It raises
      InvalidArgumentError.
    - `encode(attributes, proto)` writes the attributes and leaves name, opcode, shape, ids and
      operands alone. `decode(encode(a)) == a`.
    """

    opcode: Opcode
    attributes: type[A]
    infer: Callable[[Sequence[Shape], A, Sequence[ProgramShape]], Shape]
    decode: Callable[[hlo_pb2.HloInstructionProto, Shape], A]
    encode: Callable[[A, hlo_pb2.HloInstructionProto], None]


AnyDefinition = OpDefinition[Any]


def decode_nothing(proto: hlo_pb2.HloInstructionProto, shape: Shape) -> NoAttributes:
    """The decoder of operations without attributes."""
    return NO_ATTRIBUTES


def encode_nothing(attributes: NoAttributes, proto: hlo_pb2.HloInstructionProto) -> None:
    """The encoder of operations without attributes."""


def without_attributes(
    opcode: Opcode,
    infer: Callable[[Sequence[Shape], NoAttributes, Sequence[ProgramShape]], Shape],
) -> OpDefinition[NoAttributes]:
    """The definition of an operation that is fully said by its operands."""
    return OpDefinition(opcode, NoAttributes, infer, decode_nothing, encode_nothing)
