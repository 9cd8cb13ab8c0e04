"""Bytes that a launch moves between memory and a GPU, counted from the statements of its kernel.

An element that a work item loads again at the same index counts once: it is in a register, or in a
cache. Loads of broadcast elements count for each thread.
"""

import math
from collections.abc import Hashable

from xla_server.codegen.gpu.repetitions import Forms
from xla_server.codegen.kernel_ir.analysis.counts import share_of
from xla_server.codegen.kernel_ir.expressions import (
    Apply,
    Buffer,
    Expression,
    Index,
    Load,
    Quotient,
    Remainder,
    Value,
)
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import For, Let, ParallelFor, Store
from xla_server.codegen.kernel_ir.walk import read_by, walk


def bytes_moved(kernel: Kernel) -> float:
    """Return the bytes of all loads from buffers and stores there."""
    return sum(_Count(kernel).moved.values())


class _Count:
    """The bytes of each access by its kind, buffer, type and index."""

    def __init__(self, kernel: Kernel) -> None:
        self.moved: dict[Hashable, float] = {}
        self._bound: dict[Value, Expression] = {}
        self._forms = Forms()
        times: dict[int, float] = {}
        for statement, path in walk(kernel.body):
            around = times[id(path[-1])] * share_of(statement, path) if path else 1.0
            times[id(statement)] = around
            for each in read_by(statement):
                if isinstance(each, Load):
                    self._add("load", each, around)
            self._forms.bind(statement, path)
            match statement:
                case Let(value=value, expression=expression):
                    self._bound[value] = expression
                case For(iterations=iterations):
                    times[id(statement)] = around * iterations
                case ParallelFor(items=items):
                    times[id(statement)] = around * items
                case Store():
                    self._add("store", statement, around * self._share(statement.guard))

    def _add(self, kind: str, access: Load | Store, times: float) -> None:
        if isinstance(access.memory, Buffer):
            place = kind, access.memory, access.type, self._forms.of(access.index)
            count = times * access.type.byte_size
            self.moved[place] = max(count, self.moved.get(place, 0.0))

    def _share(self, guard: Expression | None) -> float:
        """Return the share of threads that a guard lets store, as far as it is one of numbers."""
        match guard:
            case Apply(function="bit_and", operands=operands):
                return math.prod(map(self._share, operands))
            case Apply(function="eq", operands=(Value() as number, Index())):
                return 1 / self._range(number)
        return 1.0

    def _range(self, number: Value) -> float:
        """Return how many values a number of a thread has."""
        match self._bound.get(number):
            case Remainder(divisor=divisor):
                return divisor
            case Quotient(operand=Index(terms=((Value() as inner, 1),)), divisor=divisor):
                return self._range(inner) / divisor
        raise AssertionError(f"the number of a part must be bound, got {number.name}")
