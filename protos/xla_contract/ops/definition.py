"""Definition of one operation in the contract: attributes, their wire form, its shape rule."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from xla_contract.ops.attribute_fields import Field
from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import ProgramShape, Shape


@dataclasses.dataclass(frozen=True, slots=True)
class NoAttributes:
    """The attributes of an operation that has none."""


NO_ATTRIBUTES = NoAttributes()


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
    infer: Callable[[Sequence[Shape], Any, Sequence[ProgramShape]], Shape]
    fields: tuple[Field, ...]

    @classmethod
    def of(cls, opcode: Opcode, rule: Callable[..., Shape]) -> "OpDefinition":
        """Return the definition by a shape rule; the result depends on the rule's parameters.

        They are `operands`, the record of the attributes as `attributes` where there are any, and
        `called` where computations are called.
        """
        taken = inspect.get_annotations(rule)
        record = taken.get("attributes", NoAttributes)
        has_attributes, calls = "attributes" in taken, "called" in taken

        # `wraps`, as the rule is looked for in the module of the operation: `infer.__module__`.
        @functools.wraps(rule)
        def infer(operands: Sequence[Shape], found: Any, called: Sequence[ProgramShape]) -> Shape:
            if has_attributes:
                return rule(operands, found, called) if calls else rule(operands, found)
            return rule(operands, called) if calls else rule(operands)

        kinds = inspect.get_annotations(record)
        fields = tuple(kinds[name].__metadata__[0] for name in record.__match_args__)
        return cls(opcode, record, infer, fields)

    def decode(self, proto: hlo_pb2.HloInstructionProto, shape: Shape) -> Any:
        """Return the attributes of an instruction with this declared shape.

        The shape has the types and sizes that HLO keeps in it. Raises InvalidArgumentError.
        """
        if not self.fields:
            return NO_ATTRIBUTES
        return self.attributes(*[field.read(proto, shape) for field in self.fields])

    def encode(self, attributes: Any, proto: hlo_pb2.HloInstructionProto) -> None:
        """Write the attributes; name, opcode, shape, ids and operands stay as they are."""
        for field, name in zip(self.fields, self.attributes.__match_args__, strict=True):
            field.write(getattr(attributes, name), proto)
