"""Kernels that call LAPACK on the matrices of a batch, one after the other.

LAPACK is column-major, so matrices are transposed before and after a call, in memory that each slot
of the kernel owns: the batch is divided among a few slots, which may run in parallel.
"""

import contextlib
import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, cast

import numpy as np

from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape
from xla_server.buffers.code import CANCELLATION, Value
from xla_server.codegen.instructions.lapack import LETTER, ROUTINES, workspace
from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir.builder import Body, Loop, Names
from xla_server.codegen.kernel_ir.expressions import Expression, Index, Usage
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import For, Let, ParallelFor, Stop
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.lower.kernel_thunks import kernel_thunk
from xla_server.codegen.lower.lowering import Lowering, Tree, leaves
from xla_server.codegen.routines.linear_algebra.matrix_blocks import matrix_routine
from xla_server.codegen.schedules.builders.launches.stopping import LONG_WORK_ITEM, is_long
from xla_server.codegen.trace.elementwise import literal
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.custom_calls.attributes import parse_attributes
from xla_server.ir.module import HloInstruction

Answer: TypeAlias = Callable[[Expression, Expression], Expression]
"""An integer element of a result, by its row and column."""


@dataclasses.dataclass(frozen=True, slots=True)
class MatrixCall:
    """Lowering of a call: builds its kernel; `rank` is as in MatrixKernel.

    `empty` maps results to values for an operand without elements: the number of an operand, or a
    function of each element's row and column; results without an entry are zero.
    """

    build: Callable[["MatrixKernel"], None]
    empty: Mapping[int, int | Answer] = dataclasses.field(default_factory=dict)
    rank: int = 2


def basis(row: Expression, column: Expression) -> Expression:
    """Return the vectors of a matrix without elements: an identity matrix."""
    return to("i64", ir.condition("eq", row, column))


Argument: TypeAlias = str | int | ElementType | Expression
"""An argument of LAPACK's routines: a letter, a number, a workspace, or an address."""


class MatrixKernel:
    """Builder of the kernel of one instruction.

    `rank` is that of the first operand without the batch. Operands and results are the addresses of
    the current matrix. `body` has the statements for each matrix. Matrices that need no scratch
    memory may be processed in `parts`, each a work item.
    """

    def __init__(self, lowering: Lowering, i: HloInstruction, rank: int = 2) -> None:
        first = i.operands[0].shape
        self.core = first.dimensions[first.rank - rank :]
        self.element = first.element_type
        self.real = self.element.real_component
        self.result: Tree = lowering.new_tree(i.shape, i.name)
        self.body = Body()
        self.names = Names()
        self.part, self.parts = ir.Value("part", Type.I64), 1
        self.instruction = i
        self._lowering = lowering
        self._results = leaves(self.result)
        self._batch = first.dimensions[: first.rank - rank]
        self.count = math.prod(self._batch)
        self.tuned = lowering.target.tuning.linear_algebra
        self._slots = max(1, min(self.count, self.tuned.row_slots))
        self._buffers: dict[Value, ir.Buffer] = {}
        self._updates: dict[Value, None] = {}
        self._slot, self._number = (ir.Value(name, Type.I64) for name in ("slot", "matrix"))
        self._of_slots: dict[Expression, ir.Value] = {}
        self._of_matrices: dict[Expression, ir.Value] = {}

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
        """The kernel type of the first operand's elements."""
        return KERNEL_TYPE[self.element].computed

    def read(self, number: int) -> Expression:
        """An operand."""
        operand = self.instruction.operands[number]
        value = self._lowering.array(operand)
        return self._matrix(value, operand.shape, Usage.READ)

    def write(self, number: int = 0) -> Expression:
        """A result, all of which the kernel writes."""
        value = self._results[number]
        return self._matrix(value, value.shape, Usage.SCRATCH)

    def change(self, number: int, operand: int) -> Expression:
        """A result that starts as a copy of an operand, for the kernel to change."""
        self.copy(number, operand)
        self._updates[self._results[number]] = None
        return self.write(number)

    def copy(self, number: int, operand: int) -> None:
        """Append the copy of an operand to a result."""
        source = self._lowering.array(self.instruction.operands[operand])
        self._lowering.copy(self._results[number], source)

    def workspace(self, element: ElementType, count: int) -> Expression:
        """Allocate a workspace of `count` elements."""
        shape = Shape.array(element, (self._slots, max(1, count)))
        value = self._lowering.new(shape, f"{self.instruction.name}.workspace")
        memory = ir.Address(self._buffer(value, Usage.SCRATCH))
        address = memory + self._slot * (max(1, count) * element.byte_width)
        return self._of_slots.setdefault(address, ir.Value(self.names("workspace"), Type.I64))

    @contextlib.contextmanager
    def within(self, body: Body) -> Iterator[None]:
        """Within the block, append to another body."""
        outside, self.body = self.body, body
        yield
        self.body = outside

    @contextlib.contextmanager
    def loop(
        self, high: int | Expression, low: int | Expression = 0, iterations: float | None = None
    ) -> Iterator[ir.Value]:
        """Build the body of a loop of a variable."""
        body = Loop(self.body, self.names("i"), high, low, iterations=iterations)
        with body, self.within(body):
            yield body.axis

    def store(
        self, kind: str, address: Expression, index: int | Expression, value: Expression
    ) -> None:
        """Write an element of memory at an address."""
        self.body.store_at(kind, address, index, value)

    def call(self, name: str, arguments: Mapping[str, Argument]) -> None:
        """Call a routine, named without its type's letter, with operands by LAPACK's names.

        Numbers and single letters are passed by address. An element type stands for a workspace and
        its size, which is queried from the routine.
        """
        name = LETTER[self.computed] + name
        queried = {each: _queried(argument) for each, argument in arguments.items()}
        sizes = workspace(
            name, {each: value for each, value in queried.items() if value is not None}
        )
        operands = dict[str, int | Expression]()
        for each, argument in arguments.items():
            if isinstance(argument, ElementType):
                operands[each] = self.workspace(argument, sizes[each])
                operands[f"l{each}"] = _address(sizes[each])
            else:
                operands[each] = _address(argument)
        self.body.call(ROUTINES[name], operands)

    def call_by_blocks(self, name: str, arguments: Mapping[str, int | Expression]) -> None:
        """Call the routine of `matrix_blocks`, which polls the cancellation flag."""
        operands = {**arguments, "cancelled": ir.Address(self._flag)}
        self.body.call(matrix_routine(name, self.computed), operands)

    def stop(self) -> None:
        """Return from the kernel if the execution was cancelled."""
        self.body.add(Stop(self._flag))

    def to_column_major(self, operand: int) -> Expression:
        """Copy a matrix of the operands to column-major order."""
        rows, columns = self.instruction.operands[operand].shape.dimensions[-2:]
        source, target = self.read(operand), self.workspace(self.element, rows * columns)
        self.transpose(source, target, rows, columns)
        return target

    def from_column_major(self, source: Expression, result: int) -> None:
        """Copy a column-major matrix to a result."""
        rows, columns = self._results[result].shape.dimensions[-2:]
        self.transpose(source, self.write(result), columns, rows)

    def transpose(self, source: Expression, target: Expression, rows: int, columns: int) -> None:
        """Write the transpose of the rows x columns matrix at `source` to `target`."""

        def move(r: Expression, c: Expression) -> None:
            element = ir.load_at(self.computed, source, r * columns + c)
            self.store(self.computed, target, c * rows + r, element)

        side = self.tuned.transposed_rows

        def inside(block: Expression, size: int) -> contextlib.AbstractContextManager[ir.Value]:
            first = block * side
            return self.loop(ir.integer_op("minimum", size, first + side), first, side)

        if min(rows, columns) <= side:
            with self.loop(rows) as r, self.loop(columns) as c:
                move(r, c)
            return
        with self.loop(-(-rows // side)) as y:
            if rows * columns >= LONG_WORK_ITEM:
                self.stop()
            with self.loop(-(-columns // side)) as x, inside(y, rows) as r, inside(x, columns) as c:
                move(r, c)

    def fill(
        self, element: ElementType, target: Expression, count: int, value: Expression | None = None
    ) -> None:
        """Write a number `count` times: `value`, which is real, or zero."""
        kind = KERNEL_TYPE[element.real_component].computed
        zero = real(kind, 0)
        with self.loop(count) as k:
            if element.is_complex:
                self.store(kind, target, k * 2, value or zero)
                self.store(kind, target, k * 2 + 1, zero)
            else:
                self.store(kind, target, k, value or zero)

    @property
    def nan(self) -> Expression:
        """NaN of the real type."""
        return real(KERNEL_TYPE[self.real].computed, math.nan)

    def status(self) -> ir.Value:
        """Return the address of a status that is no result."""
        return self.body.let("status", _address(0))

    def is_failed(self, status: Expression) -> Expression:
        """Return whether a status is not zero."""
        zero = ir.Const(Type.I32, (0,))
        return ir.condition("ne", ir.load_at("i32", status, 0), zero)

    def done(self) -> Tree:
        """Add the kernel; return the instruction's values."""
        if self.parts > 1:
            self._slots = self.count * self.parts
        each = -(-self.count * self.parts // self._slots)
        kernel = self._kernel(each, Body())
        if each > 1 and is_long(kernel):
            poll = Body()
            poll.add(Stop(self._flag))
            kernel = self._kernel(each, poll)
        arguments, updates = tuple(self._buffers), tuple(self._updates)
        self._lowering.add(kernel_thunk(self.instruction.name, kernel, arguments, updates=updates))
        return self.result

    def _kernel(self, each: int, before: Body) -> Kernel:
        """Return the kernel: `before` runs before each of the `each` matrices of a slot."""
        slots, slot = Body(), self._slot
        slots.add(*(Let(value, address) for address, value in self._of_slots.items()))
        low, high = (n * self.count // self._slots for n in (slot + 0, slot + 1))
        if self.parts > 1:
            slots.add(Let(self.part, slot % self.parts))
            low, high = slot // self.parts, slot // self.parts + 1
        lets = (Let(value, address) for address, value in self._of_matrices.items())
        matrices = (*lets, *before.statements, *self.body.statements)
        slots.add(For(self._number, low, high, matrices, each))
        part = ParallelFor(slot, self._slots, tuple(slots.statements))
        return Kernel(tuple(self._buffers.values()), (), (part,))

    def _matrix(self, value: Value, shape: Shape, usage: Usage) -> Expression:
        core = shape.dimensions[len(self._batch) :]
        step = math.prod(core) * shape.element_type.byte_width
        address = ir.Address(self._buffer(value, usage)) + self._number * step
        return self._of_matrices.setdefault(address, ir.Value(self.names("matrix"), Type.I64))

    @property
    def _flag(self) -> ir.Buffer:
        return self._buffer(CANCELLATION, Usage.FLAG)

    def _buffer(self, value: Value, usage: Usage) -> ir.Buffer:
        return self._buffers.setdefault(value, ir.Buffer(len(self._buffers), usage))


def real(kind: str, number: float) -> ir.Const:
    """A number of a real type."""
    dtype = Type(kind).dtype
    return literal(dtype.type(number), ElementType.from_dtype(dtype)).constant


def to(kind: str, value: Expression) -> Expression:
    """A value converted to another type."""
    return ir.Apply(f"to_{kind}", (value,), Type(kind))


def flag(is_set: bool) -> ir.Const:
    """A predicate constant."""
    return ir.Const(Type.B1, (int(is_set),))


def option(i: HloInstruction, name: str) -> str:
    """An attribute that is a letter."""
    return chr(cast(int, parse_attributes(i.attributes.opaque)[name]))


def _queried(argument: Argument) -> int | np.dtype[Any] | None:
    if isinstance(argument, ElementType):
        return argument.dtype
    if isinstance(argument, str):
        return ord(argument)
    return argument if isinstance(argument, int) else None


def _address(argument: str | int | Expression) -> Expression:
    """An argument as routines take it: by its address."""
    number = ord(argument) if isinstance(argument, str) else argument
    if isinstance(number, int):
        return ir.Apply("alloca_i32", (Index(number),), Type.I64)
    return number
