"""Kernels that call LAPACK on the matrices of a batch, one after the other.

LAPACK counts columns first, so matrices are transposed on their way in and out, in memory that
each slot of the kernel has for itself: the batch is divided among a few slots, which may run side
by side.
"""

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, cast

import numpy as np

from xla_contract.element_type import ElementType
from xla_contract.shape import Shape
from xla_server.buffers.code import CANCELLATION, CopyThunk, KernelThunk, Value
from xla_server.codegen.instructions.lapack import LETTER, workspace
from xla_server.codegen.kernel_ir.kernel import SourceKernel
from xla_server.codegen.loops.stopping import is_long, stop_lines
from xla_server.codegen.lower.lowering import Lowering, Tree, leaves
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.custom_calls.attributes import parse_attributes
from xla_server.ir.module import HloInstruction
from xla_server.target.tuning import tuning_of

LowerCall: TypeAlias = Callable[[Lowering, HloInstruction], Tree]
"""Adds the rows of a call and gives its values."""


@dataclasses.dataclass(frozen=True, slots=True)
class MatrixCall:
    """How a call becomes rows; `rank` is that of its first operand without the batch.

    Where an operand has no elements, `empty` says of results what they are: the operand of that
    number, or what an expression of `row` and `column` gives; zero where it says nothing.
    """

    lower: LowerCall
    empty: Mapping[int, int | str] = dataclasses.field(default_factory=dict)
    rank: int = 2


BASIS = "to_i64(eq(row, column))"
"""The answer for vectors of a matrix without elements: the first ones of a basis."""

_BLOCK = 16
"""Rows and columns that are transposed together, so that both sides stay in the cache."""

_NAN = {"f32": 0x7FC00000, "f64": 0x7FF8000000000000}


class MatrixKernel:
    """The kernel of one instruction while it is written.

    `rank` is that of the first operand without the batch. Operands and results are named by
    variables of the kernel that hold the address of the matrix at hand.
    """

    def __init__(self, lowering: Lowering, i: HloInstruction, rank: int = 2) -> None:
        first = i.operands[0].shape
        self.core = first.dimensions[first.rank - rank :]
        self.element = first.element_type
        self.result: Tree = lowering.fresh(i.shape, i.name)
        self._instruction = i
        self._lowering = lowering
        self._results = leaves(self.result)
        self._batch = first.dimensions[: first.rank - rank]
        self._count = math.prod(self._batch)
        self._slots = max(1, min(self._count, tuning_of(lowering.machine).row_slots))
        self._arguments: dict[Value, None] = {}
        self._reads: dict[Value, None] = {}
        self._writes: dict[Value, None] = {}
        self._updates: dict[Value, None] = {}
        self._addresses: dict[str, str] = {}
        self._lines: list[str] = []
        self._depth = 3

    @property
    def rows(self) -> int:
        """Rows of the first operand."""
        return self.core[0]

    @property
    def columns(self) -> int:
        """Columns of the first operand."""
        return self.core[1]

    @property
    def computed(self) -> str:
        """The type of the first operand's elements, as kernels call it."""
        return KERNEL_TYPE[self.element].computed

    @property
    def real(self) -> ElementType:
        """The real type of the same precision."""
        return self.element.real_component if self.element.is_complex else self.element

    def read(self, number: int) -> str:
        """An operand."""
        operand = self._instruction.operands[number]
        value = self._lowering.array(operand)
        self._reads[value] = None
        return self._matrix(value, operand.shape)

    def write(self, number: int = 0) -> str:
        """A result, all of which the kernel writes."""
        value = self._results[number]
        self._writes[value] = None
        return self._matrix(value, value.shape)

    def change(self, number: int, operand: int) -> str:
        """A result that is a copy of an operand, for the kernel to change."""
        self.copy(number, operand)
        self._updates[self._results[number]] = None
        return self.write(number)

    def copy(self, number: int, operand: int) -> None:
        """Let a result be a copy of an operand."""
        source = self._lowering.array(self._instruction.operands[operand])
        self._lowering.add(CopyThunk(self._results[number], source))

    def room(self, element: ElementType, count: int) -> str:
        """Memory to work in for `count` elements."""
        shape = Shape.array(element, (self._slots, max(1, count)))
        value = self._lowering.new(shape, f"{self._instruction.name}.room")
        self._writes[value] = None
        step = max(1, count) * element.byte_width
        return self._named("w", f"b{self._number(value)} + slot * {step}")

    def add(self, *lines: str) -> None:
        """Append lines, done for every matrix."""
        self._lines += ["    " * self._depth + line for line in lines]

    @contextlib.contextmanager
    def block(self, header: str) -> Iterator[None]:
        """What is added inside belongs to a statement."""
        self.add(header)
        self._depth += 1
        yield
        self._depth -= 1

    def call(self, name: str, *arguments: str | int | ElementType) -> None:
        """Call a routine named without the letter of its type.

        Numbers and single letters go by address. An element type stands for an array to work in
        and for its size, which the routine is asked for.
        """
        name = LETTER[self.computed] + name
        sizes = iter(workspace(name, [_asked(argument) for argument in arguments]))
        given = list[str]()
        for argument in arguments:
            if isinstance(argument, ElementType):
                size = next(sizes)
                given += [self.room(argument, size), _address(size)]
            else:
                given.append(_address(argument))
        self.add(f"{name}({', '.join(given)})")

    def cancelled(self) -> str:
        """The address of the word that cancels."""
        return self._named("w", f"b{self._number(CANCELLATION)}")

    def look(self) -> None:
        """Stop here if the execution is to."""
        self.add(*stop_lines(0, self.cancelled()))

    def take(self, operand: int) -> str:
        """A copy of a matrix among the operands, in LAPACK's order."""
        rows, columns = self._instruction.operands[operand].shape.dimensions[-2:]
        source, target = self.read(operand), self.room(self.element, rows * columns)
        self.turn(source, target, rows, columns)
        return target

    def give(self, source: str, result: int) -> None:
        """Let a result be a matrix in LAPACK's order."""
        rows, columns = self._results[result].shape.dimensions[-2:]
        self.turn(source, self.write(result), columns, rows)

    def turn(self, source: str, target: str, rows: int, columns: int) -> None:
        """Write the rows x columns matrix at `source` column by column to `target`."""
        kind = self.computed
        move = f"poke_{kind}({target}, c * {rows} + r, peek_{kind}({source}, r * {columns} + c))"
        if min(rows, columns) <= _BLOCK:
            with self.block(f"for r in range({rows}):"), self.block(f"for c in range({columns}):"):
                self.add(move)
            return
        blocks = [f"range({-(-size // _BLOCK)})" for size in (rows, columns)]
        inside = [
            f"range({at} * {_BLOCK}, minimum({size}, {at} * {_BLOCK} + {_BLOCK}))"
            for at, size in (("y", rows), ("x", columns))
        ]
        with self.block(f"for y in {blocks[0]}:"):
            if is_long(rows * columns):
                self.look()
            with (
                self.block(f"for x in {blocks[1]}:"),
                self.block(f"for r in {inside[0]}:"),
                self.block(f"for c in {inside[1]}:"),
            ):
                self.add(move)

    def fill(self, element: ElementType, target: str, count: int, value: str = "") -> None:
        """Write a real number `count` times, zero unless another is named."""
        if element.is_complex:
            kind = KERNEL_TYPE[element.real_component].computed
            with self.block(f"for k in range({count}):"):
                self.add(f"poke_{kind}({target}, 2 * k, {value or f'to_{kind}(0)'})")
                self.add(f"poke_{kind}({target}, 2 * k + 1, to_{kind}(0))")
            return
        kind = KERNEL_TYPE[element].computed
        with self.block(f"for k in range({count}):"):
            self.add(f"poke_{kind}({target}, k, {value or f'to_{kind}(0)'})")

    def status(self) -> str:
        """A place for a status that is no result."""
        self.add("status = room_i32(0)")
        return "status"

    @property
    def count(self) -> int:
        """Matrices of the batch."""
        return self._count

    def done(self, work: int, parts: int = 1) -> Tree:
        """Add the kernel, of `work` operations for each matrix; the instruction's values.

        What needs no room may be done for each `part` of each matrix by itself.
        """
        if parts > 1:
            self._slots = self._count * parts
            work //= parts
        real = KERNEL_TYPE[self.real].computed
        each = -(-self._count * parts // self._slots)
        looks = stop_lines(3, self.cancelled()) if each > 1 and is_long(work * each) else []
        lines = [f"nan = {real}({_NAN[real]:#x})", "def kernel(buffers, start, stop):"]
        lines += [f"    b{n} = peek_i64(buffers, {n})" for n in range(len(self._arguments))]
        room = [(name, text) for name, text in self._addresses.items() if name[0] == "w"]
        matrices = [(name, text) for name, text in self._addresses.items() if name[0] == "m"]
        lines += ["    for slot in range(start, stop):"]
        lines += [f"        {name} = {text}" for name, text in room]
        low, high = (
            f"whole_div({slot} * {self._count}, {self._slots})" for slot in ("slot", "(slot + 1)")
        )
        if parts > 1:
            lines += [f"        part = whole_mod(slot, {parts})"]
            low = f"whole_div(slot, {parts})"
            high = f"{low} + 1"
        lines += [f"        for t in range({low}, {high}):"]
        lines += [f"            {name} = {text}" for name, text in matrices]
        lines += [*looks, *self._lines]
        self._lowering.add(
            KernelThunk(
                self._instruction.name,
                SourceKernel("\n".join(lines) + "\n"),
                self._slots,
                work * each,
                tuple(self._arguments),
                tuple(self._reads),
                tuple(self._writes),
                updates=tuple(self._updates),
            )
        )
        return self.result

    def _matrix(self, value: Value, shape: Shape) -> str:
        core = shape.dimensions[len(self._batch) :]
        step = math.prod(core) * shape.element_type.byte_width
        return self._named("m", f"b{self._number(value)} + t * {step}")

    def _number(self, value: Value) -> int:
        self._arguments[value] = None
        return list(self._arguments).index(value)

    def _named(self, letter: str, address: str) -> str:
        for name, known in self._addresses.items():
            if known == address:
                return name
        name = f"{letter}{len(self._addresses)}"
        self._addresses[name] = address
        return name


def option(i: HloInstruction, name: str) -> str:
    """An attribute that is a letter."""
    return chr(cast(int, parse_attributes(i.attributes.opaque)[name]))


def _asked(argument: str | int | ElementType) -> int | np.dtype[Any] | None:
    """An argument as `workspace` takes it."""
    if isinstance(argument, ElementType):
        return argument.dtype
    if isinstance(argument, str):
        return ord(argument) if len(argument) == 1 else None
    return argument


def _address(argument: str | int) -> str:
    if isinstance(argument, int):
        return f"room_i32({argument})"
    is_letter = len(argument) == 1
    return f"room_i32({ord(argument)})" if is_letter else argument
