"""Routines that kernels call: machine code of its own, whose parameters have names and units."""

import dataclasses
import enum
from collections.abc import Mapping
from typing import TypeAlias

from xla_server.codegen.kernel_ir.expressions import Apply, Expression, whole
from xla_server.codegen.kernel_ir.types import Type

Operands: TypeAlias = Mapping[str, int | Expression]
"""The operands of a call by the names of parameters."""


class Unit(enum.Enum):
    """Meanings of a parameter's number, which is passed as i64.

    OFFSET is the bytes from one element, row or matrix to the next. FLAG is 0 or 1. FUNCTION is the
    address of another routine, 0 for none.
    """

    READ = "address of memory that is read"
    WRITE = "address of memory that is written"
    UPDATE = "address of memory that is read and written"
    FUNCTION = "address of a routine"
    OFFSET = "bytes"
    ELEMENTS = "elements"
    COUNT = "count"
    FLAG = "flag"
    NUMBER = "bits of an f64"

    @property
    def is_stored_to(self) -> bool:
        """Return whether the routine changes the memory at the address."""
        return self in (Unit.WRITE, Unit.UPDATE)


@dataclasses.dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a routine."""

    name: str
    unit: Unit


@dataclasses.dataclass(frozen=True, slots=True)
class Routine:
    """The signature of a routine that returns nothing, and whether calls of it are inlined."""

    name: str
    parameters: tuple[Parameter, ...]
    is_inlined: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters, in the order that they are passed in."""
        return tuple(parameter.name for parameter in self.parameters)

    def named(self, name: str) -> "Routine":
        """Return a routine of the same parameters with another name."""
        return dataclasses.replace(self, name=name)

    def operands(self, given: Operands) -> tuple[Expression, ...]:
        """Return the operands of a call, which gives each parameter once by its name."""
        missing, unknown = set(self.names) - given.keys(), given.keys() - set(self.names)
        if missing or unknown:
            raise ValueError(
                f"a call of {self.name} must give each of its parameters and nothing else, "
                f"got nothing for {sorted(missing)} and operands for {sorted(unknown)}"
            )
        return tuple(whole(given[name]) for name in self.names)


def parameters(unit: Unit, *names: str) -> tuple[Parameter, ...]:
    """Return parameters of one unit."""
    return tuple(Parameter(name, unit) for name in names)


def function_address(name: str) -> Expression:
    """Return the address of a routine, for routines that call it."""
    return Apply(f"{name}_address", (), Type.I64)
