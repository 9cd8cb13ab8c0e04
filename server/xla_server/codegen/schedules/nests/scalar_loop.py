"""The kernel of a whole while loop on scalars, with the loop's state in variables."""

import dataclasses
from collections.abc import Container, Sequence

from xla_server.codegen.kernel_ir.builder import Body, Loop
from xla_server.codegen.kernel_ir.expressions import Buffer, Cell, Index, Usage, Value, condition
from xla_server.codegen.kernel_ir.expressions import Load as LoadExpression
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import Break, If, Set, Stop, While
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.schedules.builders.graph_builder import applied
from xla_server.codegen.schedules.builders.loop_builder import LoopBuilder, Nest
from xla_server.codegen.schedules.builders.scalar_builder import Named
from xla_server.codegen.trace.graph import Immediate, Load, Node, Store, reached
from xla_server.codegen.trace.kernel_types import KernelType
from xla_server.target.target import Target

_WORK_UNSEEN = 1 << 16
"""Time between two tests of the cancellation flag, in additions."""


@dataclasses.dataclass(frozen=True, slots=True)
class Register:
    """An element of a loop's state in a variable, with the buffers it is loaded from and stored to.

    `source` and `target` are numbers of arguments. An element that the body never changes has no
    target and no next value.
    """

    variable: Named
    kernel_type: KernelType
    element: int
    source: int
    target: int | None = None
    next: Node | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ScalarLoop:
    """A loop on scalars: while `condition` holds, execute `stores`, then update all registers.

    `order` lists every node after its operands. `cancellation` is the number of the cancellation
    flag's buffer; None for a loop without one. `time` is that of an iteration, in additions.
    """

    registers: Sequence[Register]
    condition: Node
    stores: Sequence[Store]
    order: Sequence[Node]
    cancellation: int | None
    time: int
    target: Target


def scalar_loop_kernel(loop: ScalarLoop) -> Kernel:
    """Return the kernel of a loop. It has one work item."""
    return _ScalarLoopBuilder(loop).built()


class _ScalarLoopBuilder(LoopBuilder):
    def __init__(self, loop: ScalarLoop) -> None:
        written = {part.target for part in loop.registers if part.target is not None}
        super().__init__(Nest((), tuple(loop.stores), loop.target), written)
        self._loop = loop
        self._variables: dict[Register, Cell | Value] = {}
        used: set[int] = set()
        for part in loop.registers:
            used |= {part.source} if part.target is None else {part.source, part.target}
        loads = reached([loop.condition, *_next(loop.registers)])
        used |= {node.argument for node in loads if isinstance(node, Load)}
        self._buffers = {n: self._buffer(n) for n in sorted(used | {*self._buffers})}

    def built(self) -> Kernel:
        """Return the kernel."""
        loop = self._loop
        for part in loop.registers:
            self._load(part)
        going = self._top.declare("going", Immediate.of("b1", 1).constant)
        around = Body(self._top)
        if loop.cancellation is not None:
            self._flag = Buffer(loop.cancellation, Usage.FLAG)
            around.add(Stop(self._flag))
        body = self._invariants = Loop(around, "iteration", max(1, _WORK_UNSEEN // loop.time))
        self._evaluate_all(set(reached([loop.condition])))
        test = self._value(loop.condition)
        leave = Set(going, condition("bit_not", going)), Break()
        body.add(If(condition("bit_not", test), leave))
        self._change(body)
        body.close()
        self._top.add(While(going, tuple(around.statements), 1))
        for part in loop.registers:
            if part.target is not None:
                kind = part.kernel_type
                value = applied(kind.narrow, self._variables[part], kind.storage)
                target = self._buffers[part.target]
                self._top.store(target, kind.storage, Index(part.element), value)
        return self._kernel()

    def _load(self, part: Register) -> None:
        """Load an element of the state into a value, or into a cell if the body changes it."""
        kind, name = part.kernel_type, part.variable.name
        load = LoadExpression(self._buffers[part.source], Type(kind.storage), Index(part.element))
        start = applied(kind.widen, load, kind.computed)
        changes = part.next is not None and part.next is not part.variable
        bind = self._top.declare if changes else self._top.let
        self._variables[part] = self._values[part.variable] = bind(name, start)

    def _evaluate_all(self, wanted: Container[Node]) -> None:
        """Evaluate nodes after their operands, without recursion through deep chains."""
        for node in self._loop.order:
            if node in wanted and not node.variables:
                self._value(node)

    def _change(self, body: Body) -> None:
        """Build one iteration: all values are computed before the first assignment."""
        loop = self._loop
        roots = [*(store.value for store in loop.stores), *_next(loop.registers)]
        self._evaluate_all(set(reached(roots)))
        # Indices are computed before the first store.
        stores = [self._store_statement(store, self._narrowed(store)) for store in loop.stores]
        changes = [
            (cell, self._value(part.next))
            for part, cell in self._variables.items()
            if part.next is not None and isinstance(cell, Cell)
        ]
        body.add(*stores)
        changed = {cell for cell, _ in changes}
        ready = [
            body.let(f"{cell.name}_next", new) if new in changed else new for cell, new in changes
        ]
        for (cell, _), new in zip(changes, ready, strict=True):
            body.set(cell, new)


def _next(registers: Sequence[Register]) -> list[Node]:
    return [part.next for part in registers if part.next is not None]
