"""Operations that pass a value through or tie effects together, and compute nothing.

opt-barrier, add-dependency, after-all and domain; semantics: XLA's OptimizationBarrier, AfterAll
and the two instructions that only passes of the compiler insert.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import ShapeError
from xla_contract.stubs import hlo_pb2, xla_data_pb2
from xla_contract.types.shape import Shape


@dataclasses.dataclass(frozen=True, slots=True)
class _Sharding:
    """A field of an instruction that is a sharding, kept in serialised form."""

    name: str

    def read(self, proto: hlo_pb2.HloInstructionProto, _: Shape) -> bytes | None:
        """The serialised message; None if it is absent."""
        if not proto.HasField(self.name):
            return None
        message: xla_data_pb2.OpSharding = getattr(proto, self.name)
        return message.SerializeToString(deterministic=True)

    def write(self, value: bytes | None, proto: hlo_pb2.HloInstructionProto) -> None:
        """Set the message, also if it is empty."""
        if value is not None:
            getattr(proto, self.name).MergeFromString(value)
            getattr(proto, self.name).SetInParent()


@dataclasses.dataclass(frozen=True, slots=True)
class DomainAttributes:
    """The shardings outside and inside the domain, as serialised OpSharding; None if unsaid."""

    entry_sharding: Annotated[bytes | None, _Sharding("domain_entry_sharding")] = None
    exit_sharding: Annotated[bytes | None, _Sharding("domain_exit_sharding")] = None


def infer_opt_barrier(operands: Sequence[Shape]) -> Shape:
    """The operand's shape, whatever it is."""
    return operands[0].without_layout()


def infer_domain(operands: Sequence[Shape], attributes: DomainAttributes) -> Shape:
    """The operand's shape, whatever it is."""
    return operands[0].without_layout()


def infer_add_dependency(operands: Sequence[Shape]) -> Shape:
    """The first operand's shape; the second is the token to wait for."""
    value, token = operands
    _expect_token(token, "the second operand")
    return value.without_layout()


def infer_after_all(operands: Sequence[Shape]) -> Shape:
    """A token, made of any number of tokens."""
    for number, operand in enumerate(operands):
        _expect_token(operand, f"operand {number}")
    return Shape.token()


def _expect_token(shape: Shape, name: str) -> None:
    if not shape.is_token:
        raise ShapeError(f"{name} must be a token, got {shape.without_layout()}")
