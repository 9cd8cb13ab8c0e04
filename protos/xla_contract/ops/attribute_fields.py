"""Fields of attribute records, each with the part of HloInstructionProto that holds it.

A record has them as metadata of its fields: `Annotated[int, Scalar("num_carries")]`.
"""

import dataclasses
import enum
import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from xla_contract.errors import InvalidArgumentError
from xla_contract.stubs import hlo_pb2
from xla_contract.types.shape import Shape
from xla_contract.wire.dimension_numbers_proto import record_from_proto, record_to_proto


class Field(Protocol):
    """A field of an attribute record; `read` is the inverse of `write`."""

    def read(self, proto: hlo_pb2.HloInstructionProto, shape: Shape) -> Any:
        """The field's value in an instruction with this declared shape.

        Raises InvalidArgumentError if it is malformed.
        """

    def write(self, value: Any, proto: hlo_pb2.HloInstructionProto) -> None:
        """Store the value in the instruction."""


@dataclasses.dataclass(frozen=True, slots=True)
class Scalar:
    """A number, truth value or string, under a path such as `cholesky_options.lower`."""

    path: str

    def read(self, proto: hlo_pb2.HloInstructionProto, shape: Shape) -> Any:
        """The value; the type's default where the message has none."""
        return _getter(self.path)(proto)

    def write(self, value: Any, proto: hlo_pb2.HloInstructionProto) -> None:
        """Set the value."""
        parent, _, name = self.path.rpartition(".")
        setattr(_getter(parent)(proto) if parent else proto, name, value)


@functools.cache
def _getter(path: str) -> Callable[[Any], Any]:
    return operator.attrgetter(path)


@dataclasses.dataclass(frozen=True, slots=True)
class Repeated:
    """A tuple of scalars in a repeated field."""

    name: str

    def read(self, proto: hlo_pb2.HloInstructionProto, shape: Shape) -> tuple[Any, ...]:
        """All entries."""
        return tuple(getattr(proto, self.name))

    def write(self, value: Sequence[Any], proto: hlo_pb2.HloInstructionProto) -> None:
        """Append the entries."""
        getattr(proto, self.name).extend(value)


@dataclasses.dataclass(frozen=True, slots=True)
class OnlyDimension:
    """A dimension number, alone in the repeated field `dimensions`. `noun` names it in errors."""

    noun: str

    def read(self, proto: hlo_pb2.HloInstructionProto, shape: Shape) -> int:
        """The entry."""
        if len(proto.dimensions) != 1:
            inside = ",".join(map(str, proto.dimensions))
            raise InvalidArgumentError(
                f"dimensions must hold the {self.noun} dimension alone, got {{{inside}}}"
            )
        return proto.dimensions[0]

    def write(self, value: int, proto: hlo_pb2.HloInstructionProto) -> None:
        """Append the entry."""
        proto.dimensions.append(value)


@dataclasses.dataclass(frozen=True, slots=True)
class EnumMember:
    """A member of an enumeration, by its value, under a path as that of Scalar."""

    path: str
    kind: type[enum.StrEnum] | type[enum.IntEnum]
    is_optional: bool = False
    """True if a string may be empty, which is None in the record."""

    def read(self, proto: hlo_pb2.HloInstructionProto, shape: Shape) -> Any:
        """The member; InvalidArgumentError if the value is that of none."""
        value = _getter(self.path)(proto)
        if self.is_optional and not value:
            return None
        try:
            return self.kind(value)
        except ValueError:
            members = [
                each.value if isinstance(each, str) else f"{each.value} ({each.name.lower()})"
                for each in self.kind
            ]
            empty = "empty or " if self.is_optional else ""
            raise InvalidArgumentError(
                f"{self.path.split('.')[-1]} must be {empty}one of {', '.join(members)}, got "
                f"{value!r}"
            ) from None

    def write(self, value: Any, proto: hlo_pb2.HloInstructionProto) -> None:
        """Set the member's value."""
        Scalar(self.path).write("" if value is None else value.value, proto)


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """A record of windows, paddings or dimension numbers."""

    path: str
    kind: type[Any]

    def read(self, proto: hlo_pb2.HloInstructionProto, shape: Shape) -> Any:
        """The record of the field's message."""
        return record_from_proto(self.kind, _getter(self.path)(proto))

    def write(self, value: Any, proto: hlo_pb2.HloInstructionProto) -> None:
        """Write the record into the field."""
        record_to_proto(value, _getter(self.path)(proto))


@dataclasses.dataclass(frozen=True, slots=True)
class Declared:
    """A value that the declared shape of the instruction has, and no field of its message."""

    of_shape: Callable[[Shape], Any]

    def read(self, proto: hlo_pb2.HloInstructionProto, shape: Shape) -> Any:
        """The part of the shape; raises as `of_shape`."""
        return self.of_shape(shape)

    def write(self, value: Any, proto: hlo_pb2.HloInstructionProto) -> None:
        """Write nothing."""


DIMENSIONS = Declared(operator.attrgetter("dimensions"))
DYNAMIC_DIMENSIONS = Declared(operator.attrgetter("dynamic_dimensions"))
ELEMENT_TYPE = Declared(operator.attrgetter("element_type"))


def _write_nothing(value: Any, proto: hlo_pb2.HloInstructionProto) -> None:
    """Write no field: the instruction has the value elsewhere."""


@dataclasses.dataclass(frozen=True, slots=True)
class Special:
    """A field with functions of its own."""

    read: Callable[[hlo_pb2.HloInstructionProto, Shape], Any]
    write: Callable[[Any, hlo_pb2.HloInstructionProto], None] = _write_nothing
