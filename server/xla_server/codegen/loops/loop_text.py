"""The text of a kernel that runs a whole while loop, its state in variables."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from xla_server.codegen.loops.block import Block
from xla_server.codegen.loops.nest import Nest, Printer
from xla_server.codegen.loops.scalar_text import Named
from xla_server.codegen.trace.graph import Literal, Node, Store
from xla_server.codegen.trace.kernel_types import KernelType

_WORK_UNSEEN = 1 << 16
"""Operations after which a loop looks whether it is to stop."""


@dataclasses.dataclass(frozen=True, slots=True)
class Register:
    """An element of the state in a variable: where it comes from, and where it goes.

    `source` and `target` are numbers of arguments; what the body never changes has no target and
    no next value.
    """

    variable: Named
    kernel_type: KernelType
    element: int
    source: int
    target: int | None = None
    next: Node | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class ScalarLoop:
    """A loop on scalars: goes on while `condition`, does `stores`, then all registers change.

    `order` has every node after those it reads.
    """

    registers: Sequence[Register]
    condition: Node
    stores: Sequence[Store]
    order: Sequence[Node]
    cancellation: int
    cost: int


def loop_text(loop: ScalarLoop) -> str:
    """The kernel's text. Its range is one trip."""
    return _LoopPrinter(loop).text()


class _LoopPrinter(Printer):
    def __init__(self, loop: ScalarLoop) -> None:
        super().__init__(Nest((), tuple(loop.stores)))
        self._loop = loop
        self._names.update({part.variable: part.variable.name for part in loop.registers})
        self._top = Block(3, None)

    def text(self) -> str:
        loop = self._loop
        going = self._name(Literal("b1(1)", "b1"))
        self._name_all(_needed([loop.condition]))
        test = self._name(loop.condition)
        self._top.add(f"if bit_not({test}):")
        self._top.add("    going = bit_not(going)")
        self._top.add("    break")
        self._change()
        lines = [
            *(f"{name} = {text}" for text, name in self._constants.items()),
            "def kernel(buffers, start, stop):",
            *(f"    buffer{n} = peek_i64(buffers, {n})" for n in sorted(self._used())),
            *(f"    {line}" for line in self._loads()),
            f"    going = {going}",
            "    while going:",
            f"        if watch_i64(buffer{loop.cancellation}) != 0:",
            "            return",
            f"        for turn in range({max(1, _WORK_UNSEEN // loop.cost)}):",
            *self._top.lines,
            *(f"    {line}" for line in self._results()),
        ]
        return "\n".join(lines) + "\n"

    def _used(self) -> set[int]:
        found = self._arguments() | {self._loop.cancellation}
        for part in self._loop.registers:
            found |= {part.source} if part.target is None else {part.source, part.target}
        loads = _needed([self._loop.condition, *_next(self._loop.registers)])
        return found | {node.argument for node in loads if hasattr(node, "argument")}

    def _name_all(self, wanted: Mapping[Node, None]) -> None:
        """Write nodes in the order they were made in, so that none waits for a deep chain."""
        for node in self._loop.order:
            if node in wanted and not node.variables:
                self._name(node)

    def _change(self) -> None:
        """What one trip does: everything is computed before the first element changes."""
        loop, block = self._loop, self._top
        guards = [store.guard for store in loop.stores if store.guard is not None]
        roots = [*guards, *(store.value for store in loop.stores), *_next(loop.registers)]
        self._name_all(_needed(roots))
        # Whatever stands in a guard or index is computed before the first element is stored.
        lines = [line for store in loop.stores for line in self._store_lines(store)]
        changes = [
            (part.variable.name, self._name(part.next))
            for part in loop.registers
            if part.next is not None and part.next is not part.variable
        ]
        for line in lines:
            block.add(line)
        changed = {name for name, _ in changes}
        for name, new in changes:
            if new in changed:
                block.add(f"{name}_next = {new}")
        for name, new in changes:
            block.add(f"{name} = {name}_next" if new in changed else f"{name} = {new}")

    def _store_lines(self, store: Store) -> list[str]:
        offset, value = self._index(store.offset, self._top), self._narrow(store)
        line = f"store_{store.kernel_type.storage}(buffer{store.argument}, {offset}, {value})"
        if store.guard is None:
            return [line]
        return [f"if {self._name(store.guard)}:", f"    {line}"]

    def _loads(self) -> Iterable[str]:
        for part in self._loop.registers:
            loaded = f"load_{part.kernel_type.storage}(buffer{part.source}, {part.element})"
            yield f"{part.variable.name} = {part.kernel_type.widen.format(loaded)}"

    def _results(self) -> Iterable[str]:
        for part in self._loop.registers:
            if part.target is not None:
                value = part.kernel_type.narrow.format(part.variable.name)
                place = f"buffer{part.target}, {part.element}"
                yield f"store_{part.kernel_type.storage}({place}, {value})"


def _next(registers: Sequence[Register]) -> list[Node]:
    return [part.next for part in registers if part.next is not None]


def _needed(roots: Sequence[Node]) -> dict[Node, None]:
    """Everything that nodes are computed from, and they themselves."""
    found: dict[Node, None] = {}
    waiting = list(roots)
    while waiting:
        node = waiting.pop()
        if node not in found:
            found[node] = None
            waiting += node.inputs()
    return found
