"""Building the loop IR: statements in the order that they are executed in, inside of open loops."""

import dataclasses
from typing import Self

from xla_server.codegen.kernel_ir.expressions import (
    Cell,
    Expression,
    Memory,
    Value,
    known,
    whole,
)
from xla_server.codegen.kernel_ir.statements import Declare, For, Let, Set, Statement, Store
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.kernel_ir.unrolling import is_unrolled


class Names:
    """Names of values and cells: each is given once."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._count = 0

    def __call__(self, letter: str) -> str:
        """Return a new name that begins with a letter."""
        self._count += 1
        return f"{self._prefix}{letter}{self._count}"


class Body:
    """The statements of one level while they are built; `depth` levels are around it."""

    def __init__(self, outside: "Body | None" = None) -> None:
        self.outside = outside
        self.depth: int = outside.depth + 1 if outside else 0
        self.statements: list[Statement] = []

    def add(self, *statements: Statement) -> None:
        """Append statements."""
        self.statements += statements

    def let(self, name: str, expression: Expression, origin: int | None = None) -> Value:
        """Bind a new value to an expression."""
        value = Value(name, expression.type)
        self.statements.append(Let(value, expression, origin))
        return value

    def declare(self, name: str, start: Expression) -> Cell:
        """Declare a new cell."""
        cell = Cell(name, start.type)
        self.statements.append(Declare(cell, start))
        return cell

    def set(self, cell: Cell, expression: Expression, origin: int | None = None) -> None:
        """Change a cell."""
        self.statements.append(Set(cell, expression, origin))

    def store(self, memory: Memory, type: str, index: Expression, value: Expression) -> None:
        """Store an element."""
        self.statements.append(Store(memory, Type(type), index, value))


class Loop(Body):
    """The body of a serial loop, which stands in the body around it once it is closed."""

    def __init__(
        self,
        outside: Body,
        name: str,
        high: int | Expression,
        low: int | Expression = 0,
        *,
        step: int = 1,
        iterations: float | None = None,
    ) -> None:
        super().__init__(outside)
        self.axis = Value(name, Type.I64)
        self._around, self._step = outside, step
        self._low, self._high = whole(low), whole(high)
        if iterations is None:
            first, end = known(self._low), known(self._high)
            if first is None or end is None:
                raise ValueError(f"a loop of unknown bounds must have iterations, got {name}")
            iterations = max(0, -(-(end - first) // step))
        self._iterations = iterations

    def close(self) -> None:
        """Append the loop to the body around it."""
        body = tuple(self.statements)
        loop = For(self.axis, self._low, self._high, body, self._iterations, self._step)
        self._around.add(dataclasses.replace(loop, unrolled=True) if is_unrolled(loop) else loop)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self.close()
