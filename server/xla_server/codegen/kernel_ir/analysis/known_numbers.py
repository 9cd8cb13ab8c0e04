"""Evaluation of a kernel's integers and addresses from known values."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence, Set

from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.integer_rules import FUNCTIONS
from xla_server.codegen.kernel_ir.types import Type


@dataclasses.dataclass(frozen=True, slots=True)
class ByteAddress:
    """A byte of memory."""

    memory: ir.Buffer | ir.StackArray | ir.SharedArray
    byte: int

    def __add__(self, ahead: int) -> "ByteAddress":
        return ByteAddress(self.memory, self.byte + ahead)

    def __sub__(self, back: int) -> "ByteAddress":
        return self + -back

    __radd__ = __add__


Known = int | ByteAddress | None
"""A number, an address, or None for an unknown value."""

_FUNCTIONS: Mapping[str, Callable[..., int]] = {**FUNCTIONS, "alloca_i32": int}

_OF_ADDRESSES = {("add", 0), ("add", 1), ("sub", 0), ("select", 1, 2)}
"""Functions whose result is an address, each with the positions of operands that are addresses."""


class Numbers:
    """The known values of names, and evaluation of expressions.

    Results of the functions `unknown` are unknown.
    """

    def __init__(
        self, names: dict[ir.Value | ir.Cell, Known], unknown: Set[str] = frozenset()
    ) -> None:
        self.names, self._unknown = names, unknown

    def address(self, memory: ir.Memory) -> Known:
        """Return the address of memory."""
        return (
            self.value(memory.address) if isinstance(memory, ir.Region) else ByteAddress(memory, 0)
        )

    def value(self, expression: ir.Expression) -> Known:
        """Return the number or the address that an expression is."""
        match expression:
            case ir.Value() | ir.Cell():
                return self.names.get(expression)
            case ir.Const(type=kind, parts=(number,)) if kind in (Type.I64, Type.B1):
                return number
            case ir.Index(constant=total, terms=terms):
                parts = [(self.value(term), factor) for term, factor in terms]
                numbers = [(n, factor) for n, factor in parts if isinstance(n, int)]
                whole = len(numbers) == len(parts)
                return total + sum(n * factor for n, factor in numbers) if whole else None
            case ir.Quotient(operand=operand, divisor=divisor):
                dividend = self.value(operand)
                return dividend // divisor if isinstance(dividend, int) else None
            case ir.Remainder(operand=operand, divisor=divisor):
                dividend = self.value(operand)
                return dividend % divisor if isinstance(dividend, int) else None
            case ir.Address(memory=memory, index=index, byte_size=byte_size):
                address, ahead = self.address(memory), self.value(index)
                if isinstance(address, ByteAddress) and isinstance(ahead, int):
                    return address + ahead * byte_size
            case ir.Apply(function=function, operands=operands) if function in _FUNCTIONS:
                return self._applied(function, [self.value(each) for each in operands])
        return None

    def _applied(self, function: str, operands: Sequence[Known]) -> Known:
        if None in operands or function in self._unknown:
            return 0 if function == "bit_and" and 0 in operands else None
        addresses = [
            number for number, each in enumerate(operands) if isinstance(each, ByteAddress)
        ]
        if addresses and (function, *addresses) not in _OF_ADDRESSES:
            return None
        return _FUNCTIONS[function](*operands)
