"""Accesses of a kernel at the first and the last iterations of its loops.

Bounds, tests and indices are evaluated as in one call for all work items. Values that depend on
data are unknown, and statements under an unknown test are left out: each access that is found is
one that the kernel does.
"""

import dataclasses
from collections.abc import Iterator, Sequence, Set

from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir import statements as stmt
from xla_server.codegen.kernel_ir.analysis.known_numbers import ByteAddress, Known, Numbers
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.kernel_ir.walk import read_by, walk

_MAX_STATEMENTS = 1 << 12
"""Limit of executed statements: nested loops run all pairs of first and last iterations."""


@dataclasses.dataclass(frozen=True, slots=True)
class ElementAccess:
    """A load or a store of an element by a work item; `item` is None outside of work items."""

    address: ByteAddress
    type: Type
    is_store: bool
    item: int | None


def accesses(kernel: Kernel, *, is_clamped: bool = True) -> list[ElementAccess]:
    """Return the known accesses of a call for all work items.

    Without `is_clamped`, accesses whose index depends on a minimum are left out.
    """
    unknown = frozenset() if is_clamped else frozenset({"minimum"})
    execution = _Execution({ir.START: 0, ir.STOP: kernel.items}, unknown)
    execution.run(kernel.body, None)
    return execution.found


class _Execution(Numbers):
    """Executes statements under known tests, at the ends of loops with known bounds."""

    def __init__(self, names: dict[ir.Value | ir.Cell, Known], unknown: Set[str]) -> None:
        super().__init__(names, unknown)
        self.found: list[ElementAccess] = []
        self._left = _MAX_STATEMENTS

    def run(self, statements: Sequence[stmt.Statement], item: int | None) -> None:
        """Execute statements that belong to a work item."""
        for statement in statements:
            self._left -= 1
            if self._left < 0:
                return
            self._note(statement, item)
            match statement:
                case stmt.Let(value=value, expression=expression):
                    self.names[value] = self.value(expression)
                case stmt.If(test=test, body=body, orelse=orelse):
                    decided = self.value(test)
                    if decided is not None:
                        self.run(body if decided else orelse, item)
                case stmt.For(axis=axis, body=body):
                    for number in self._iterations(statement):
                        self.names[axis] = number
                        self.run(body, item)
                case stmt.ParallelFor(is_range=True, body=body):
                    self.run(body, None)
                case stmt.ParallelFor(axis=axis, body=body):
                    items = range(statement.first, statement.first + statement.items)
                    for number in _ends(items[:: statement.step], 2):
                        if axis is not None:
                            self.names[axis] = number
                        self.run(body, number)

    def _iterations(self, loop: stmt.For) -> Iterator[int]:
        """Yield the first and the last iteration; none for a loop that may end early."""
        low, high = self.value(loop.low), self.value(loop.high)
        is_left = any(isinstance(each, stmt.Break) for each, _ in walk(loop.body))
        if isinstance(low, int) and isinstance(high, int) and not is_left:
            yield from _ends(range(low, high, loop.step), 1)

    def _note(self, statement: stmt.Statement, item: int | None) -> None:
        """Add the accesses of a statement itself."""
        loads = (each for each in read_by(statement) if isinstance(each, ir.Load))
        for access in (*loads, *((statement,) if isinstance(statement, stmt.Store) else ())):
            if access.guard is not None and not self.value(access.guard):
                continue
            address, index = self.address(access.memory), self.value(access.index)
            if isinstance(address, ByteAddress) and isinstance(index, int):
                found = address + index * access.type.byte_size
                self.found.append(ElementAccess(found, access.type, access is statement, item))


def _ends(numbers: range, first: int) -> Iterator[int]:
    """Yield the `first` first numbers, and the last one."""
    yield from dict.fromkeys((*numbers[:first], *numbers[-1:]))
