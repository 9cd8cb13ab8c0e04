"""constant: a value that is part of the program.

Semantics: XLA's kConstant.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import InvalidArgumentError
from xla_contract.ops.attribute_fields import Special
from xla_contract.stubs import hlo_pb2
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_contract.wire.literals.proto import literal_from_proto, literal_to_proto


def _read_literal(proto: hlo_pb2.HloInstructionProto, shape: Shape) -> Literal:
    if not proto.HasField("literal"):
        raise InvalidArgumentError(
            f"a constant must have a literal, got none for {shape.without_layout()}"
        )
    return literal_from_proto(proto.literal)


def _write_literal(literal: Literal, proto: hlo_pb2.HloInstructionProto) -> None:
    proto.literal.CopyFrom(literal_to_proto(literal))


@dataclasses.dataclass(frozen=True, slots=True)
class ConstantAttributes:
    """The value. Its layout is that in which it was written, not that of the result."""

    literal: Annotated[Literal, Special(_read_literal, _write_literal)]


def infer_constant(operands: Sequence[Shape], attributes: ConstantAttributes) -> Shape:
    """The literal's shape."""
    return attributes.literal.shape.without_layout()
