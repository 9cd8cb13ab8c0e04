"""Routines that kernels call: separate machine code, whose parameters have names and units."""

import dataclasses
import enum
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, TypeAlias

from xla_server.codegen.kernel_ir.expressions import Apply, Expression, whole
from xla_server.codegen.kernel_ir.types import Type

Word: TypeAlias = int | Expression
"""A number that is passed as a parameter."""

Record: TypeAlias = tuple[Any, ...]
"""A NamedTuple that has several parameters as its fields, or records of them."""

Operands: TypeAlias = Mapping[str, Word | Record]
"""The operands of a call by the names of parameters and records."""


Cost: TypeAlias = Callable[[Mapping[str, int]], float]
"""The time of a call, in accesses, from the operands that are known numbers."""


class Unit(enum.Enum):
    """Meanings of a parameter's number, which is passed as i64.

    OFFSET is the bytes from one element, row or matrix to the next. FLAG is 0 or 1, or a truth
    value. FUNCTION is the address of another routine, 0 for none. Only BITS are passed as u64.
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
Function = Annotated[Word, Unit.FUNCTION]
Offset = Annotated[int, Unit.OFFSET]
Elements = Annotated[int, Unit.ELEMENTS]
Count = Annotated[int, Unit.COUNT]
Flag = Annotated[int, Unit.FLAG]
Letter = Annotated[int, Unit.LETTER]
Number = Annotated[int, Unit.NUMBER]
"""Annotations, by unit, of parameters of routines in Python and of fields of records.

Records are of numbers that are known when a kernel is built, and of routines.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a routine."""

    name: str
    unit: Unit


@dataclasses.dataclass(frozen=True, slots=True)
class Routine:
    """The signature of a routine, its cost function, and whether calls are inlined.

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

    def operands(self, arguments: Operands) -> tuple[Expression, ...]:
        """Return the operands of a call in order, from those by name, one per parameter."""
        words = {name: word for each in arguments.items() for name, word in _words(*each)}
        missing, unknown = set(self.names) - words.keys(), words.keys() - set(self.names)
        if missing or unknown:
            raise ValueError(
                f"a call of {self.name} must give each of its parameters and nothing else, "
                f"got nothing for {sorted(missing)} and operands for {sorted(unknown)}"
            )
        operands = tuple(whole(words[name]) for name in self.names)
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
    """Return the routine of a function of Python, whose annotations are units or records.

    Its result is an int64, if it is annotated.
    """
    units = dict(getattr(function, "py_func", function).__annotations__)
    results = () if units.pop("return") is None else (Type.I64,)
    operands = tuple(parameter for each in units.items() for parameter in _parameters(*each))
    return Routine(name, operands, results, is_inlined, cost)


def _parameters(name: str, annotation: Any) -> Iterator[Parameter]:
    """Yield a parameter, or those of the fields of a record, each named `record.field`."""
    if not hasattr(annotation, "_fields"):
        yield Parameter(name, annotation.__metadata__[0])
        return
    for field, unit in annotation.__annotations__.items():
        yield from _parameters(f"{name}.{field}", unit)


def _words(name: str, operand: Word | Record) -> Iterator[tuple[str, Word]]:
    """Yield an operand, or those of the fields of a record, by the names of parameters."""
    if not isinstance(operand, tuple):
        yield name, operand
        return
    for field, value in operand._asdict().items():  # type: ignore[attr-defined]
        yield from _words(f"{name}.{field}", value)


def arguments_of(
    function: Callable[..., Any],
    words: Iterator[Any],
    joined: Callable[[list[Any], type[Record]], Any],
) -> list[Any]:
    """Return the arguments of a routine's function, from a word for each of its parameters.

    `joined` makes a record from its fields, of a class.
    """

    def argument(annotation: Any) -> Any:
        if not hasattr(annotation, "_fields"):
            return next(words)
        return joined([argument(each) for each in annotation.__annotations__.values()], annotation)

    return [argument(each) for name, each in function.__annotations__.items() if name != "return"]


def out_of_line(function: str) -> str:
    """Return the name of the form of an elementary function that is called, not inlined."""
    return f"called_{function}"


def function_address(name: str) -> Expression:
    """Return the address of a routine, for routines that call it."""
    return Apply(f"{name}_address", (), Type.I64)
