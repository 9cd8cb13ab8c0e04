"""Building the loop IR: statements in the order that they are executed in, inside of open loops."""

import abc
import dataclasses
from typing import Self

from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir import statements as stmt
from xla_server.codegen.kernel_ir.routine import Operands, Routine
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

    def call(self, routine: Routine, given: Operands, results: tuple[ir.Value, ...] = ()) -> None:
        """Call a routine with an operand for each of its parameters, and bind its results."""
        self.statements.append(stmt.Call.of(routine, given, results))

    def store_at(
        self, kind: str, address: ir.Expression, index: int | ir.Expression, value: ir.Expression
    ) -> None:
        """Store an element of those from an address on, in memory of any use."""
        self.store(ir.Region(address, ir.Role.SCRATCH), kind, ir.whole(index), value)

    def store(
        self, memory: ir.Memory, type: str, index: ir.Expression, value: ir.Expression
    ) -> None:
        """Store an element."""
        self.statements.append(stmt.Store(memory, Type(type), index, value))


class Block(Body, abc.ABC):
    """The body of a statement, which stands in the body around it once it is closed."""

    def __init__(self, outside: Body) -> None:
        super().__init__(outside)
        self._around = outside

    @abc.abstractmethod
    def close(self) -> None:
        """Append the statement to the body around it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self.close()


class Items(Block):
    """The body of a parallel loop over work items, or of a range of them: then without `axis`."""

    def __init__(self, outside: Body, items: int, name: str | None = "t") -> None:
        super().__init__(outside)
        self._items, self._axis = items, None if name is None else ir.Value(name, Type.I64)

    @property
    def axis(self) -> ir.Value:
        """The number of the work item."""
        assert self._axis is not None
        return self._axis

    def close(self) -> None:
        """Append the loop."""
        body, is_range = tuple(self.statements), self._axis is None
        self._around.add(stmt.ParallelFor(self._axis, self._items, body, is_range=is_range))


class Branch(Block):
    """Statements under a condition, and in `orelse` those where it does not hold."""

    def __init__(self, outside: Body, test: ir.Expression, share: float = 1.0) -> None:
        super().__init__(outside)
        self._test, self._share = test, share
        self.orelse = Body(outside)

    def close(self) -> None:
        """Append the branch."""
        bodies = tuple(self.statements), tuple(self.orelse.statements)
        self._around.add(stmt.If(self._test, *bodies, self._share))


class Repeat(Block):
    """The body of a loop under a condition, with about so many iterations."""

    def __init__(self, outside: Body, test: ir.Expression, expected: float) -> None:
        super().__init__(outside)
        self._test, self._expected = test, expected

    def close(self) -> None:
        """Append the loop."""
        self._around.add(stmt.While(self._test, tuple(self.statements), self._expected))


class Loop(Block):
    """The body of a serial loop."""

    def __init__(
        self,
        outside: Body,
        name: str,
        high: int | ir.Expression,
        low: int | ir.Expression = 0,
        *,
        step: int = 1,
        iterations: float | None = None,
        unrolled: bool = False,
    ) -> None:
        super().__init__(outside)
        self.axis = ir.Value(name, Type.I64)
        self._step, self._unrolled = step, unrolled
        self._low, self._high = ir.whole(low), ir.whole(high)
        if iterations is None:
            first, end = ir.known(self._low), ir.known(self._high)
            if first is None or end is None:
                raise ValueError(f"a loop of unknown bounds must have iterations, got {name}")
            iterations = max(0, -(-(end - first) // step))
        self._iterations = iterations

    def close(self) -> None:
        """Append the loop, unrolled where it is short or was to be."""
        body = tuple(self.statements)
        loop = stmt.For(self.axis, self._low, self._high, body, self._iterations, self._step)
        unrolled = self._unrolled or is_unrolled(loop)
        self._around.add(dataclasses.replace(loop, unrolled=unrolled))


def dealt(item: ir.Expression, tasks: int, items: int) -> tuple[ir.Expression, ir.Expression]:
    """Return the first task of a work item and the one behind its last, of evenly dealt tasks."""
    ends = ir.times(item, tasks), ir.times(ir.plus(item, 1), tasks)
    first, last = (ir.integer_op("whole_div", end, items) for end in ends)
    return first, last
