"""Expressions of the loop IR. They are pure, except that a `Load` reads memory.

Names and memory (`Value`, `Cell`, `Buffer`, `StackArray`, `SharedArray`) are compared by identity,
expressions by structure.
"""

import dataclasses
import enum
import functools
from collections.abc import Sequence
from typing import ClassVar, TypeAlias, cast

from xla_server.codegen.kernel_ir.integer_rules import folded, kept
from xla_server.codegen.kernel_ir.types import Type


class Usage(enum.Enum):
    """The use of memory: loads of READ memory may be moved across stores to WRITE memory.

    SCRATCH is memory that the kernel reads and writes, whose accesses keep their order. FLAG is the
    cancellation flag. A value names the instructions that load and store: LLVM must not move loads
    across the kernel's own stores to that memory.
    """

    READ = "load", "store"
    WRITE = "reload", "store"
    SCRATCH = "peek", "poke"
    FLAG = "watch", "store"
    STACK = "kept", "keep"
    SHARED = "shared", "share"

    @property
    def load(self) -> str:
        """The instruction of loads."""
        return self.value[0]

    @property
    def store(self) -> str:
        """The instruction of stores."""
        return self.value[1]


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """Argument `number` of the kernel."""

    number: int
    usage: Usage

    @property
    def name(self) -> str:
        """The name of its address."""
        return "cancelled" if self.usage is Usage.FLAG else f"buffer{self.number}"


@dataclasses.dataclass(frozen=True, slots=True)
class Region:
    """Memory from a computed address on, such as a part of a buffer."""

    address: "Expression"
    usage: Usage


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class StackArray:
    """Memory on the stack, aligned to 64 bytes, which each call of the kernel allocates."""

    name: str
    byte_size: int
    usage: ClassVar[Usage] = Usage.STACK


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class SharedArray:
    """Memory that the work items of a group share, aligned to 16 bytes; each group has its own.

    On a GPU it is shared memory of a block.
    """

    name: str
    byte_size: int
    usage: ClassVar[Usage] = Usage.SHARED


Memory: TypeAlias = Buffer | Region | StackArray | SharedArray


class Integer:
    """Operators of i64 expressions, which evaluate constants.

    A dividend is never negative.
    """

    __slots__ = ()

    def __add__(self, other: "int | Expression") -> "Expression":
        return plus(cast("Expression", self), other)

    def __sub__(self, other: "int | Expression") -> "Expression":
        return integer_op("sub", cast("Expression", self), other)

    def __mul__(self, factor: int) -> "Expression":
        return times(cast("Expression", self), factor)

    def __floordiv__(self, divisor: int) -> "Expression":
        return integer_op("whole_div", cast("Expression", self), divisor)

    def __mod__(self, divisor: int) -> "Expression":
        return integer_op("whole_mod", cast("Expression", self), divisor)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Value(Integer):
    """An SSA value: bound once, by a `Let` or as the variable of a loop."""

    name: str
    type: Type


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Cell(Integer):
    """A variable that statements change: an accumulator, or the state of a loop."""

    name: str
    type: Type


START, STOP = Value("start", Type.I64), Value("stop", Type.I64)
"""The range of work items of one call."""

BUFFERS = Value("buffers", Type.I64)
"""The address of the table of buffer addresses, an argument of each call."""


@dataclasses.dataclass(frozen=True, slots=True)
class Const(Integer):
    """A constant: the value of an integer, the bits of a float, those of both parts if complex."""

    type: Type
    parts: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Quotient(Integer):
    """floor(operand / divisor) of an operand that is never negative."""

    operand: "Index"
    divisor: int
    type: ClassVar[Type] = Type.I64


@dataclasses.dataclass(frozen=True, slots=True)
class Remainder(Integer):
    """operand mod divisor of an operand that is never negative."""

    operand: "Index"
    divisor: int
    type: ClassVar[Type] = Type.I64


@dataclasses.dataclass(frozen=True, slots=True)
class Index(Integer):
    """constant + sum of factor * term: a number of elements, or an integer of a loop."""

    constant: int = 0
    terms: "tuple[tuple[Expression, int], ...]" = ()
    type: ClassVar[Type] = Type.I64


@dataclasses.dataclass(frozen=True, slots=True)
class Apply(Integer):
    """An instruction, by its name in kernels, applied to operands."""

    function: str
    operands: "tuple[Expression, ...]"
    type: Type


@dataclasses.dataclass(frozen=True, slots=True)
class Load(Integer):
    """Element number `index` of memory that holds elements of `type`.

    If `guard` is false, element 0 is read instead, and nothing uses the value.
    """

    memory: Memory
    type: Type
    index: "Expression"
    guard: "Expression | None" = None


@dataclasses.dataclass(frozen=True, slots=True)
class Address(Integer):
    """The address of element number `index` of memory that holds elements of `byte_size`."""

    memory: Memory
    index: "Expression" = dataclasses.field(default_factory=Index)
    byte_size: int = 1
    type: ClassVar[Type] = Type.I64


Expression: TypeAlias = Value | Cell | Const | Quotient | Remainder | Index | Apply | Load | Address


def operands_of(expression: Expression) -> tuple[Expression, ...]:
    """Return the expressions directly inside of one."""
    match expression:
        case Apply():
            return expression.operands
        case Load(guard=None) | Address():
            return *addresses_of(expression.memory), expression.index
        case Load(index=index, guard=guard) if guard is not None:
            return *addresses_of(expression.memory), index, guard
        case Index():
            return tuple(term for term, _ in expression.terms)
        case Quotient() | Remainder():
            return (expression.operand,)
    return ()


def addresses_of(memory: Memory) -> tuple[Expression, ...]:
    """Return the expressions of memory's address."""
    return (memory.address,) if isinstance(memory, Region) else ()


def load_at(kind: str, address: Expression, index: "int | Expression") -> Load:
    """Return the load of an element relative to an address, in memory of any use."""
    return Load(Region(address, Usage.SCRATCH), Type(kind), whole(index))


def whole(number: "int | Expression") -> Expression:
    """Return an integer as an expression."""
    return Index(number) if isinstance(number, int) else number


def known(expression: Expression) -> int | None:
    """Return the value of an integer that is constant."""
    return expression.constant if isinstance(expression, Index) and not expression.terms else None


def simplified(expression: Apply) -> Expression:
    """Return an instruction on integers, simplified by the rules."""
    numbers = [_number(operand) for operand in expression.operands]
    number = folded(expression.function, numbers)
    if number is not None and expression.type is Type.I64:
        return Index(number)
    if number is not None and expression.type is Type.B1:
        return Const(Type.B1, (number,))
    position = kept(expression.function, numbers)
    return expression if position is None else expression.operands[position]


def _number(expression: Expression) -> int | None:
    """Return the value of a constant integer or predicate."""
    if isinstance(expression, Const) and expression.type is Type.B1:
        return expression.parts[0]
    return known(expression)


def integer_op(function: str, *operands: "int | Expression") -> Expression:
    """Return an i64 instruction applied to integers, simplified."""
    return simplified(Apply(function, tuple(map(whole, operands)), Type.I64))


def condition(function: str, *operands: "int | Expression") -> Expression:
    """Return an instruction whose result is a predicate, simplified."""
    return simplified(Apply(function, tuple(map(whole, operands)), Type.B1))


def all_of(tests: Sequence[Expression]) -> Expression:
    """Return the conjunction of tests, at least one."""
    return functools.reduce(functools.partial(condition, "bit_and"), tests)


def opaque(number: int) -> Const:
    """Return an integer that `known` does not recognise.

    A short loop up to it is neither unrolled nor vectorised.
    """
    return Const(Type.I64, (number,))


def plus(left: "int | Expression", right: "int | Expression") -> Expression:
    """Return a sum of integers, simplified."""
    return integer_op("add", left, right)


def times(expression: "int | Expression", factor: int) -> Expression:
    """Return a product of an integer with a known factor, simplified."""
    return integer_op("mul", expression, factor)
