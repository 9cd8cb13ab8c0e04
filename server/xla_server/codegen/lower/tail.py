"""What is done with a product as soon as a block of it is there: the tail of an output fusion.

The fusion's computation holds one dot or convolution, the producer. Whoever lowers that writes
blocks of the product to memory; the tail reads them there while they are in the cache and
writes the fusion's result, to the same place where both are of one type.
"""

import dataclasses
from collections.abc import Sequence

from xla_server.buffers.code import Value
from xla_server.codegen.kernel_ir.expressions import Value as Bound
from xla_server.codegen.kernel_ir.numba_text import NumbaText
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.loops.loop_builder import Nest, close
from xla_server.codegen.loops.rows import RowBuilder
from xla_server.codegen.loops.stored_nodes import all_nodes
from xla_server.codegen.lower.loop_kernel import cost_of_evaluations, evaluated_instructions
from xla_server.codegen.lower.loops import array_shapes, kernel_operands
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.codegen.trace.affine import Variable, multi_index, variable
from xla_server.codegen.trace.graph import Folded, Store
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.codegen.trace.rules import RULES
from xla_server.codegen.trace.tracer import Origins, Tracer
from xla_server.evaluator.cost import Cost
from xla_server.evaluator.evaluation_cost import instruction_cost_once
from xla_server.ir.module import HloInstruction


@dataclasses.dataclass(frozen=True, slots=True)
class TailText:
    """Parts of a kernel's text: constants before it, its first lines, the loops behind a block.

    `work` is what the tail takes for one element; `needs_rows` says that results depend on whole
    rows of the product.
    """

    constants: str
    first: tuple[str, ...]
    loops: tuple[str, ...]
    work: int
    needs_rows: bool
    cost: Cost = Cost()  # noqa: RUF009

    def first_lines(self, depth: int) -> str:
        """What comes before all loops, at a depth of indentation."""
        return "".join(f"{'    ' * depth}{line}\n" for line in self.first)

    def loop_lines(self, depth: int) -> str:
        """What comes after a block was written, at a depth of indentation."""
        return "".join(f"{'    ' * depth}{line}\n" for line in self.loops)


NO_TAIL = TailText("", (), (), 0, False)
"""Of a product that stands for itself."""


@dataclasses.dataclass(frozen=True, slots=True)
class Tail:
    """The tail of a fusion, while its producer is lowered.

    `arguments` are the kernel's: each operand of the fusion once, then `product`, where the
    producer writes, and `result`, which are often the same. A fusion of two results gives the
    product as the second. The operations of both are noted in `costs`.
    """

    fusion: HloInstruction
    producer: HloInstruction
    arguments: tuple[Value, ...]
    numbers: dict[HloInstruction, int]
    product: Value
    result: Value
    costs: dict[HloInstruction, Cost]

    @classmethod
    def of(
        cls,
        lowering: Lowering,
        fusion: HloInstruction,
        producer: HloInstruction,
        is_apart: bool = False,
    ) -> "Tail":
        """The tail of a fusion's producer, whose results are new values.

        `is_apart` has the product kept for itself, where its blocks overlap.
        """
        operands = kernel_operands(lowering, fusion)
        shape = array_shapes(fusion.shape)[0]
        result = product = lowering.new(shape, fusion.name)
        types = {producer.shape.element_type, shape.element_type}
        if is_apart or fusion.shape.is_tuple or len(types) > 1:
            product = lowering.new(producer.shape, f"{fusion.name}.product")
        arguments = tuple(dict.fromkeys([*operands.values(), product, result]))
        numbers = {operand: arguments.index(value) for operand, value in operands.items()}
        return cls(fusion, producer, arguments, numbers, product, result, lowering.costs)

    def argument(self, operand: HloInstruction) -> int:
        """The kernel's argument that an operand of the producer is, a parameter of the fusion."""
        (called,) = self.fusion.called
        return self.numbers[self.fusion.operands[called.parameters.index(operand)]]

    @property
    def tree(self) -> Tree:
        """The values of the fusion."""
        return (self.result, self.product) if self.fusion.shape.is_tuple else self.result

    @property
    def writes(self) -> tuple[Value, ...]:
        """The values that the kernel writes."""
        return tuple(dict.fromkeys([self.product, self.result]))

    @property
    def reads(self) -> tuple[Value, ...]:
        """The values that it reads and does not write."""
        return tuple(value for value in self.arguments if value not in self.writes)

    def text(self, rows: int, columns: int) -> TailText:
        """The tail of the product seen as one matrix of these sizes.

        The kernel says what is to be done by its variables first_row, last_row, first_column and
        last_column. Where it needs rows, a block must have all columns.
        """
        numbers = {**self.numbers, self.producer: self.arguments.index(self.product)}
        loops = (Variable(rows, "i"), Variable(columns, "i"))
        place = variable(loops[0]) * columns + variable(loops[1])
        index = multi_index(place, self.result.shape.dimensions)
        origins: Origins = {}
        store = Store(
            self.arguments.index(self.result),
            KERNEL_TYPE[self.result.shape.element_type],
            place,
            Tracer(RULES, numbers, origins).value(self.fusion, index),
        )
        text = _TailBuilder(Nest(loops, (store,)), {numbers[self.producer]}).tail(origins)
        self.costs[self.fusion] = instruction_cost_once(self.producer) + text.cost
        return text


def with_tail(
    tail: Tail | None, values: Sequence[Value], rows: int, columns: int
) -> tuple[list[int], TailText, tuple[Value, ...]]:
    """The numbers of values among a kernel's arguments, its tail's text, and the arguments.

    The product is seen as a matrix of `rows` by `columns`.
    """
    arguments = tuple(dict.fromkeys([*(tail.arguments if tail else ()), *values]))
    text = tail.text(rows, columns) if tail else NO_TAIL
    return [arguments.index(value) for value in values], text, arguments


def used(
    arguments: Sequence[Value], written: Sequence[Value], tail: Tail | None
) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
    """The values that a kernel only reads, and those that it writes."""
    writes = tuple(dict.fromkeys([*written, *(tail.writes if tail else ())]))
    return tuple(value for value in arguments if value not in writes), writes


class _TailBuilder(RowBuilder):
    """Builds the loops over a block of rows and columns."""

    def tail(self, origins: Origins) -> TailText:
        """The text."""
        row, column = self._nest.loops
        self._allocate_rows()
        first_row, last_row, first_column, last_column = (
            Bound(f"{end}_{axis}", Type.I64)
            for axis in ("row", "column")
            for end in ("first", "last")
        )
        body = self._open(row, self._top, last_row, first_row, row.size)
        inner = self._open(column, body, last_column, first_column, column.size)
        if row.size == 1:
            # Values that depend on no row may depend on the product, which is computed in the loop.
            self._invariants = body
        self._store(self._nest.stores, inner)
        close([body, inner])
        work = self._work(self._nest.loops)
        found = self._scheduled(work)
        text = NumbaText()
        *first, loops = found.kernel.body
        lines = text.lines(first) if first else []
        loop_lines = text.lines([loops])
        needs_rows = any(isinstance(node, Folded) for node in all_nodes(self._nest.stores))
        return TailText(
            "".join(f"{line}\n" for line in text.constants),
            (*text.memory(found.kernel.buffers, found.kernel.stack), *lines),
            tuple(loop_lines),
            work,
            needs_rows,
            cost_of_evaluations(evaluated_instructions(found.evaluations, origins)),
        )
