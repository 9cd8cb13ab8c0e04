"""Accesses of a kernel at the first and the last iterations of its loops.

Bounds, tests and indices are computed as one call for all work items computes them. Values that
depend on data are not known, and statements under a test that is not known are left out: each
access that is found is one that the kernel does.
"""

import dataclasses
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence, Set

from xla_server.codegen.kernel_ir.expressions import (
    START,
    STOP,
    Address,
    Apply,
    Buffer,
    Cell,
    Const,
    Expression,
    Index,
    Load,
    Memory,
    Quotient,
    Region,
    Remainder,
    StackArray,
    Value,
)
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import Break, For, If, Let, Part, Statement, Store
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.kernel_ir.walk import read_by, walk

_MOST_STATEMENTS = 1 << 12
"""Statements that are looked at: loops in loops have their first and last iterations together."""


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """A byte of memory."""

    memory: Buffer | StackArray
    byte: int

    def __add__(self, ahead: int) -> "Place":
        return Place(self.memory, self.byte + ahead)

    def __sub__(self, back: int) -> "Place":
        return self + -back

    __radd__ = __add__


@dataclasses.dataclass(frozen=True, slots=True)
class Access:
    """A load or a store of an element by a work item; `item` is None outside of all of them."""

    place: Place
    type: Type
    is_store: bool
    item: int | None


def accesses(kernel: Kernel, *, is_clamped: bool = True) -> list[Access]:
    """Return accesses that a call for all work items does.

    Without `is_clamped` those whose index depends on a minimum are left out.
    """
    unknown = frozenset() if is_clamped else frozenset({"minimum"})
    execution = _Execution({START: 0, STOP: kernel.items}, unknown)
    execution.run(kernel.body, None)
    return execution.found


Known = int | Place | None
"""A number, an address, or what is not known."""

_FUNCTIONS: Mapping[str, Callable[..., int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "minimum": min,
    "maximum": max,
    "whole_div": operator.floordiv,
    "whole_mod": operator.mod,
    "bit_and": operator.and_,
    "bit_or": operator.or_,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "select": lambda test, then, other: then if test else other,
}


_OF_ADDRESSES = {("add", 0), ("add", 1), ("sub", 0), ("select", 1, 2)}
"""Functions that give an address, and which of their operands are addresses then."""


class _Execution:
    """Executes statements as far as they are known."""

    def __init__(self, names: dict[Value | Cell, Known], unknown: Set[str]) -> None:
        self.found: list[Access] = []
        self._names, self._unknown = names, unknown
        self._left = _MOST_STATEMENTS

    def run(self, statements: Sequence[Statement], item: int | None) -> None:
        """Execute statements that belong to a work item."""
        for statement in statements:
            self._left -= 1
            if self._left < 0:
                return
            self._note(statement, item)
            match statement:
                case Let(value=value, expression=expression):
                    self._names[value] = self._value(expression)
                case If(test=test, body=body, orelse=orelse):
                    decided = self._value(test)
                    if decided is not None:
                        self.run(body if decided else orelse, item)
                case For(axis=axis, body=body):
                    for number in self._iterations(statement):
                        self._names[axis] = number
                        self.run(body, item)
                case Part(is_range=True, body=body):
                    self.run(body, None)
                case Part(axis=axis, body=body):
                    items = range(statement.first, statement.first + statement.items)
                    for number in _some(items[:: statement.step]):
                        if axis is not None:
                            self._names[axis] = number
                        self.run(body, number)

    def _iterations(self, loop: For) -> Iterator[int]:
        """Yield the first and the last iteration; none of a loop that a test may leave."""
        low, high = self._value(loop.low), self._value(loop.high)
        is_left = any(isinstance(each, Break) for each, _ in walk(loop.body))
        if isinstance(low, int) and isinstance(high, int) and not is_left:
            numbers = range(low, high, loop.step)
            yield from dict.fromkeys((*numbers[:1], *numbers[-1:]))

    def _note(self, statement: Statement, item: int | None) -> None:
        """Add the accesses of a statement itself."""
        for each in read_by(statement):
            if isinstance(each, Load):
                self._add(each, item, is_store=False)
        if isinstance(statement, Store):
            self._add(statement, item, is_store=True)

    def _add(self, access: Load | Store, item: int | None, *, is_store: bool) -> None:
        if access.guard is not None and not self._value(access.guard):
            return
        place = self._place(access.memory)
        index = self._value(access.index)
        if isinstance(place, Place) and isinstance(index, int):
            found = place + index * access.type.byte_size
            self.found.append(Access(found, access.type, is_store, item))

    def _place(self, memory: Memory) -> Known:
        return self._value(memory.address) if isinstance(memory, Region) else Place(memory, 0)

    def _value(self, expression: Expression) -> Known:
        match expression:
            case Value() | Cell():
                return self._names.get(expression)
            case Const(type=kind, parts=(number,)) if kind in (Type.I64, Type.B1):
                return number
            case Index(constant=total, terms=terms):
                parts = [(self._value(term), factor) for term, factor in terms]
                numbers = [(n, factor) for n, factor in parts if isinstance(n, int)]
                whole = len(numbers) == len(parts)
                return total + sum(n * factor for n, factor in numbers) if whole else None
            case Quotient(operand=operand, divisor=divisor):
                dividend = self._value(operand)
                return dividend // divisor if isinstance(dividend, int) else None
            case Remainder(operand=operand, divisor=divisor):
                dividend = self._value(operand)
                return dividend % divisor if isinstance(dividend, int) else None
            case Address(memory=memory, index=index, byte_size=byte_size):
                place, ahead = self._place(memory), self._value(index)
                if isinstance(place, Place) and isinstance(ahead, int):
                    return place + ahead * byte_size
            case Apply(function=function, operands=operands) if function in _FUNCTIONS:
                return self._applied(function, [self._value(each) for each in operands])
        return None

    def _applied(self, function: str, operands: Sequence[Known]) -> Known:
        if None in operands or function in self._unknown:
            return 0 if function == "bit_and" and 0 in operands else None
        addresses = [number for number, each in enumerate(operands) if isinstance(each, Place)]
        if addresses and (function, *addresses) not in _OF_ADDRESSES:
            return None
        return _FUNCTIONS[function](*operands)


def _some(items: range) -> Iterator[int]:
    """Yield the first two work items and the last one."""
    yield from dict.fromkeys((*items[:2], *items[-1:]))
