"""Definition of one operation in the contract: attributes, their wire form, its shape rule."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from xla_contract.ops.attribute_fields import Field
from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import ProgramShape, Shape

A = TypeVar("A")


@dataclasses.dataclass(frozen=True, slots=True)
class NoAttributes:
    """The attributes of an operation that has none."""


NO_ATTRIBUTES = NoAttributes()

Rule: TypeAlias = Callable[[Sequence[Shape], A], Shape]
"""The shape rule of an operation that calls no computation, of operands and attributes."""

CallingRule: TypeAlias = Callable[[Sequence[Shape], A, Sequence[ProgramShape]], Shape]
"""The shape rule of an operation that calls computations, of their signatures, too."""


@dataclasses.dataclass(frozen=True, slots=True)
class OpDefinition:
    """Definition of one operation.

    `infer(operands, attributes, called)` returns the result shape, without layout, and raises
    ShapeError with the bare rule and evidence. `called` are the signatures of the called
    computations in the order of called_computation_ids. `fields` are those of the record, in its
    order.
    """

    opcode: Opcode
    attributes: type[Any]
    infer: CallingRule[Any]
    fields: tuple[Field, ...] = ()

    def decode(self, proto: hlo_pb2.HloInstructionProto, shape: Shape) -> Any:
        """Return the attributes of an instruction with this declared shape.

        The shape has the types and sizes that HLO keeps in it. Raises InvalidArgumentError.
        """
        if not self.fields:
            return NO_ATTRIBUTES
        return self.attributes(*[field.read(proto, shape) for field in self.fields])

    def encode(self, attributes: Any, proto: hlo_pb2.HloInstructionProto) -> None:
        """Write the attributes; name, opcode, shape, ids and operands stay as they are."""
        for field, name in zip(self.fields, self.attributes.__match_args__, strict=False):
            field.write(getattr(attributes, name), proto)


def defined(opcode: Opcode, attributes: type[A], rule: Rule[A], *fields: Field) -> OpDefinition:
    """The definition of an operation that calls no computation."""

    # The module of an operation is where its rule is looked for.
    @functools.wraps(rule)
    def infer(operands: Sequence[Shape], record: Any, called: Sequence[ProgramShape]) -> Shape:
        return rule(operands, record)

    return OpDefinition(opcode, attributes, infer, fields)


def calling(
    opcode: Opcode, attributes: type[A], rule: CallingRule[A], *fields: Field
) -> OpDefinition:
    """The definition of an operation that calls computations."""
    return OpDefinition(opcode, attributes, rule, fields)


def without_attributes(opcode: Opcode, rule: Callable[[Sequence[Shape]], Shape]) -> OpDefinition:
    """The definition of an operation that is fully said by its operands."""

    @functools.wraps(rule)
    def infer(operands: Sequence[Shape], record: Any, called: Sequence[ProgramShape]) -> Shape:
        return rule(operands)

    return OpDefinition(opcode, NoAttributes, infer)


def calling_without_attributes(
    opcode: Opcode, rule: Callable[[Sequence[Shape], Sequence[ProgramShape]], Shape]
) -> OpDefinition:
    """The definition of an operation that its operands and called computations say fully."""

    @functools.wraps(rule)
    def infer(operands: Sequence[Shape], record: Any, called: Sequence[ProgramShape]) -> Shape:
        return rule(operands, called)

    return OpDefinition(opcode, NoAttributes, infer)
