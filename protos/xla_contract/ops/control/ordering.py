"""Operations that pass a value through or tie effects together, and compute nothing.

opt-barrier, add-dependency, after-all and domain; semantics: XLA's OptimizationBarrier, AfterAll
and the two instructions that only passes of the compiler insert.
"""

import dataclasses
from collections.abc import Sequence

from xla_contract.errors import ShapeError
from xla_contract.ops.definition import (
    AnyDefinition,
    NoAttributes,
    OpDefinition,
    without_attributes,
)
from xla_contract.stubs import hlo_pb2, xla_data_pb2
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import ProgramShape, Shape


@dataclasses.dataclass(frozen=True, slots=True)
class DomainAttributes:
    """The shardings outside and inside the domain, as serialised OpSharding; None where unsaid."""

    entry_sharding: bytes | None = None
    exit_sharding: bytes | None = None


def infer_opt_barrier(
    operands: Sequence[Shape], attributes: NoAttributes, called: Sequence[ProgramShape]
) -> Shape:
    """The operand's shape, whatever it is."""
    return operands[0].without_layout()


def infer_domain(
    operands: Sequence[Shape], attributes: DomainAttributes, called: Sequence[ProgramShape]
) -> Shape:
    """The operand's shape, whatever it is."""
    return operands[0].without_layout()


def infer_add_dependency(
    operands: Sequence[Shape], attributes: NoAttributes, called: Sequence[ProgramShape]
) -> Shape:
    """The first operand's shape; the second is the token to wait for."""
    value, token = operands
    _expect_token(token, "the second operand")
    return value.without_layout()


def infer_after_all(
    operands: Sequence[Shape], attributes: NoAttributes, called: Sequence[ProgramShape]
) -> Shape:
    """A token, made of any number of tokens."""
    for number, operand in enumerate(operands):
        _expect_token(operand, f"operand {number}")
    return Shape.token()


def _expect_token(shape: Shape, name: str) -> None:
    if not shape.is_token:
        raise ShapeError(f"{name} must be a token, got {shape.without_layout()}")


def decode_domain(proto: hlo_pb2.HloInstructionProto, shape: Shape) -> DomainAttributes:
    """Read the two shardings."""

    def sharding(field: str) -> bytes | None:
        if not proto.HasField(field):
            return None
        message: xla_data_pb2.OpSharding = getattr(proto, field)
        return message.SerializeToString(deterministic=True)

    return DomainAttributes(sharding("domain_entry_sharding"), sharding("domain_exit_sharding"))


def encode_domain(attributes: DomainAttributes, proto: hlo_pb2.HloInstructionProto) -> None:
    """Write the two shardings."""
    if attributes.entry_sharding is not None:
        proto.domain_entry_sharding.MergeFromString(attributes.entry_sharding)
        proto.domain_entry_sharding.SetInParent()
    if attributes.exit_sharding is not None:
        proto.domain_exit_sharding.MergeFromString(attributes.exit_sharding)
        proto.domain_exit_sharding.SetInParent()


DEFINITIONS: tuple[AnyDefinition, ...] = (
    without_attributes(Opcode.OPT_BARRIER, infer_opt_barrier),
    without_attributes(Opcode.ADD_DEPENDENCY, infer_add_dependency),
    without_attributes(Opcode.AFTER_ALL, infer_after_all),
    OpDefinition(Opcode.DOMAIN, DomainAttributes, infer_domain, decode_domain, encode_domain),
)
