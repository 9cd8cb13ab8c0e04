"""Builders of the loop IR: statements in order of execution, inside of open loops."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Self

from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir import statements as stmt
from xla_server.codegen.kernel_ir.routine import Operands, Routine
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.kernel_ir.unrolling import is_unrolled


class Names:
    """Names of values and cells; none is issued twice."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._count = 0

    def __call__(self, letter: str) -> str:
        """Return a new name that begins with a letter."""
        self._count += 1
        return f"{self._prefix}{letter}{self._count}"


class Body:
    """Builder of the statements of one level, with `depth` levels around it."""

    def __init__(self, outside: "Body | None" = None) -> None:
        self.depth: int = outside.depth + 1 if outside else 0
        self.statements: list[stmt.Statement] = []

    def add(self, *statements: stmt.Statement) -> None:
        """Append statements."""
        self.statements += statements

    def let(self, name: str, expression: ir.Expression, origin: int | None = None) -> ir.Value:
        """Bind a new value to an expression."""
        value = ir.Value(name, expression.type)
        self.statements.append(stmt.Let(value, expression, origin))
        return value

    def declare(self, name: str, start: ir.Expression) -> ir.Cell:
        """Declare a new cell."""
        cell = ir.Cell(name, start.type)
        self.statements.append(stmt.Declare(cell, start))
        return cell

    def set(self, cell: ir.Cell, expression: ir.Expression, origin: int | None = None) -> None:
        """Change a cell."""
        self.statements.append(stmt.Set(cell, expression, origin))

    def call(
        self, routine: Routine, operands: Operands, results: tuple[ir.Value, ...] = ()
    ) -> None:
        """Call a routine with an operand for each of its parameters, and bind its results."""
        self.statements.append(stmt.Call.of(routine, operands, results))

    def store_at(
        self, kind: str, address: ir.Expression, index: int | ir.Expression, value: ir.Expression
    ) -> None:
        """Store an element relative to an address, in memory of any use."""
        self.store(ir.Region(address, ir.Usage.SCRATCH), kind, ir.whole(index), value)

    def store(
        self, memory: ir.Memory, type: str, index: ir.Expression, value: ir.Expression
    ) -> None:
        """Store an element."""
        self.statements.append(stmt.Store(memory, Type(type), index, value))


class Block(Body):
    """The body of a statement, which is appended to the body around it when this one is closed."""

    def __init__(
        self, outside: Body, made: Callable[[tuple[stmt.Statement, ...]], stmt.Statement]
    ) -> None:
        super().__init__(outside)
        self._around, self._made = outside, made

    def close(self) -> None:
        """Append the statement to the body around it."""
        self._around.add(self._made(tuple(self.statements)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self.close()


class Items(Block):
    """The body of a parallel loop over work items, or, without `axis`, of a range of them."""

    def __init__(self, outside: Body, items: int, name: str | None = "t") -> None:
        axis = self._axis = None if name is None else ir.Value(name, Type.I64)
        is_range = axis is None
        super().__init__(
            outside, lambda body: stmt.ParallelFor(axis, items, body, is_range=is_range)
        )

    @property
    def axis(self) -> ir.Value:
        """The number of the work item."""
        assert self._axis is not None
        return self._axis


class Branch(Block):
    """Statements under a condition; `orelse` has those for the other case."""

    def __init__(self, outside: Body, test: ir.Expression, share: float = 1.0) -> None:
        orelse = self.orelse = Body(outside)
        super().__init__(outside, lambda body: stmt.If(test, body, tuple(orelse.statements), share))


class Repeat(Block):
    """The body of a loop while a condition holds, with about `expected` iterations."""

    def __init__(self, outside: Body, test: ir.Expression, expected: float) -> None:
        super().__init__(outside, lambda body: stmt.While(test, body, expected))


class Loop(Block):
    """The body of a serial loop, and the `bounds` of its axis."""

    def __init__(
        self,
        outside: Body,
        name: str,
        high: int | ir.Expression,
        low: int | ir.Expression = 0,
        *,
        step: int = 1,
        iterations: float | None = None,
        unrolled: bool | None = None,
        vectorised: bool = False,
    ) -> None:
        axis = self.axis = ir.Value(name, Type.I64)
        begin, end = self.bounds = ir.whole(low), ir.whole(high)
        if iterations is None:
            numbers = ir.known(begin), ir.known(end)
            if numbers[0] is None or numbers[1] is None:
                raise ValueError(f"a loop of unknown bounds must have iterations, got {name}")
            iterations = len(range(numbers[0], numbers[1], step))
        self.iterations = iterations

        def made(body: tuple[stmt.Statement, ...]) -> stmt.For:
            """Unroll the loop if that was requested; without a request, if it is short."""
            loop = stmt.For(axis, begin, end, body, iterations, step, vectorised=vectorised)
            is_copied = is_unrolled(loop) if unrolled is None else unrolled
            return dataclasses.replace(loop, unrolled=is_copied)

        super().__init__(outside, made)


def task_range(item: ir.Expression, tasks: int, items: int) -> tuple[ir.Expression, ir.Expression]:
    """Return a work item's range of tasks; work items differ by at most one task."""
    ends = ir.times(item, tasks), ir.times(ir.plus(item, 1), tasks)
    first, last = (ir.integer_op("whole_div", end, items) for end in ends)
    return first, last


def positions(
    body: Body, names: Names, number: ir.Expression, sizes: Sequence[int], letter: str = "i"
) -> list[ir.Value]:
    """Bind the indices of an element by its number, in row-major order of dimensions of `sizes`."""
    found: list[ir.Value] = []
    for dimension, size in reversed(list(enumerate(sizes))):
        index = ir.Index(0, ((number, 1),))
        found.append(body.let(names(letter), ir.Remainder(index, size) if dimension else number))
        if dimension:
            number = body.let(names("t"), ir.Quotient(index, size))
    return found[::-1]
