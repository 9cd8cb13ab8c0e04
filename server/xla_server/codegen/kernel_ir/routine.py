"""Routines that kernels call: machine code of its own, whose parameters have names and units."""

import dataclasses
import enum
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeAlias

from xla_server.codegen.kernel_ir.expressions import Apply, Expression, whole
from xla_server.codegen.kernel_ir.types import Type

Operands: TypeAlias = Mapping[str, int | Expression]
"""The operands of a call by the names of parameters."""


Cost: TypeAlias = Callable[[Mapping[str, int]], float]
"""The time of a call in accesses, by the operands that are known numbers: of a product, it is one.
"""


class Unit(enum.Enum):
    """Meanings of a parameter's number, which is passed as i64.

    OFFSET is the bytes from one element, row or matrix to the next. FLAG is 0 or 1, or a truth
    value. FUNCTION is the address of another routine, 0 for none. BITS alone are passed as u64.
    """

    READ = "address of memory that is read"
    WRITE = "address of memory that is written"
    UPDATE = "address of memory that is read and written"
    CANCELLED = "address of the cancellation flag"
    TABLE = "address of the table of buffer addresses"
    FUNCTION = "address of a routine"
    OFFSET = "bytes"
    ELEMENTS = "elements"
    COUNT = "count"
    FLAG = "flag"
    LETTER = "code of a letter"
    NUMBER = "bits of a number"
    BITS = "random bits"

    @property
    def types(self) -> tuple[Type, ...]:
        """The types that an operand may have."""
        return {Unit.FLAG: (Type.I64, Type.B1), Unit.BITS: (Type.U64,)}.get(self, (Type.I64,))


Read = Annotated[int, Unit.READ]
Write = Annotated[int, Unit.WRITE]
Update = Annotated[int, Unit.UPDATE]
Cancelled = Annotated[int, Unit.CANCELLED]
Table = Annotated[int, Unit.TABLE]
Function = Annotated[int, Unit.FUNCTION]
Offset = Annotated[int, Unit.OFFSET]
Elements = Annotated[int, Unit.ELEMENTS]
Count = Annotated[int, Unit.COUNT]
Flag = Annotated[int, Unit.FLAG]
Letter = Annotated[int, Unit.LETTER]
Number = Annotated[int, Unit.NUMBER]
"""Parameters of routines that are functions of Python, by their units."""


@dataclasses.dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a routine."""

    name: str
    unit: Unit


@dataclasses.dataclass(frozen=True, slots=True)
class Routine:
    """The signature of a routine, what calls of it cost, and whether they are inlined.

    One that may run for long has a parameter for the cancellation flag, which it polls. One that
    only other routines call has no cost.
    """

    name: str
    parameters: tuple[Parameter, ...]
    results: tuple[Type, ...] = ()
    is_inlined: bool = False
    cost: Cost | None = dataclasses.field(default=None, compare=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters, in the order that they are passed in."""
        return tuple(parameter.name for parameter in self.parameters)

    def named(self, name: str) -> "Routine":
        """Return a routine of the same parameters with another name."""
        return dataclasses.replace(self, name=name)

    def work(self, numbers: Mapping[str, int]) -> float:
        """Return the time of a call with these operands, in accesses."""
        if self.cost is None:
            raise ValueError(f"a routine that kernels call must have a cost, got {self.name}")
        return self.cost(numbers)

    def operands(self, given: Operands) -> tuple[Expression, ...]:
        """Return the operands of a call, which gives each parameter once by its name."""
        missing, unknown = set(self.names) - given.keys(), given.keys() - set(self.names)
        if missing or unknown:
            raise ValueError(
                f"a call of {self.name} must give each of its parameters and nothing else, "
                f"got nothing for {sorted(missing)} and operands for {sorted(unknown)}"
            )
        operands = tuple(whole(given[name]) for name in self.names)
        for parameter, operand in zip(self.parameters, operands, strict=True):
            if operand.type not in parameter.unit.types:
                raise ValueError(
                    f"{parameter.name} of {self.name} must be {parameter.unit.types[0]}, "
                    f"got {operand.type}"
                )
        return operands


def parameters(unit: Unit, *names: str) -> tuple[Parameter, ...]:
    """Return parameters of one unit."""
    return tuple(Parameter(name, unit) for name in names)


def parameters_of(**units: Unit) -> tuple[Parameter, ...]:
    """Return parameters by their units."""
    return tuple(Parameter(name, unit) for name, unit in units.items())


def routine_of(
    name: str, function: Callable[..., Any], cost: Cost | None = None, *, is_inlined: bool = False
) -> Routine:
    """Return the routine of a function of Python, whose annotations are units.

    Its result is an int64, if it is annotated.
    """
    units = dict(getattr(function, "py_func", function).__annotations__)
    results = () if units.pop("return") is None else (Type.I64,)
    given = tuple(Parameter(each, unit.__metadata__[0]) for each, unit in units.items())
    return Routine(name, given, results, is_inlined, cost)


def function_address(name: str) -> Expression:
    """Return the address of a routine, for routines that call it."""
    return Apply(f"{name}_address", (), Type.I64)
