"""Epilogues of output fusions: what follows a product while a block of it is in the cache.

The fusion's computation holds one dot or convolution, the producer. Whoever lowers that writes
blocks of the product to memory; the epilogue reads them there and writes the fusion's result, to
the same memory where both are of one type.
"""

import dataclasses
from collections.abc import Sequence
from typing import TypeAlias

from xla_server.buffers.code import Value
from xla_server.codegen.kernel_ir.builder import Body
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.expressions import Buffer, Expression, Role, StackArray, whole
from xla_server.codegen.kernel_ir.expressions import Value as Bound
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import Let, Statement
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.loops.loop_builder import Nest, close
from xla_server.codegen.loops.rows import RowBuilder
from xla_server.codegen.loops.stored_nodes import all_nodes
from xla_server.codegen.lower.loop_kernel import cost_of_evaluations, evaluated_instructions
from xla_server.codegen.lower.loops import array_shapes, kernel_operands
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.codegen.trace.graph import ReductionResult, Store
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.codegen.trace.rules import RULES
from xla_server.codegen.trace.tracer import Origins, Tracer
from xla_server.evaluator.cost_analysis import Cost
from xla_server.evaluator.evaluation_cost import instruction_cost_once
from xla_server.ir.affine import Variable, multi_index, variable
from xla_server.ir.module import HloInstruction

Ends: TypeAlias = tuple[int | Expression, int | Expression]
"""The first of some rows or columns, and the one behind the last."""


@dataclasses.dataclass(frozen=True, slots=True)
class Epilogue:
    """The statements of a kernel that follow a block of a product.

    `prologue` is executed once for each call of the kernel, `loops` behind each block, whose first
    and last row and column are `bounds`. `work` are the operations for one element; `needs_rows`
    says that results depend on whole rows of the product. Without statements there is none.
    """

    buffers: tuple[Buffer, ...] = ()
    stack: tuple[StackArray, ...] = ()
    prologue: tuple[Statement, ...] = ()
    loops: tuple[Statement, ...] = ()
    bounds: tuple[Bound, ...] = ()
    work: int = 0
    needs_rows: bool = False
    cost: Cost = Cost()  # noqa: RUF009

    def emit(self, body: Body, rows: Ends, columns: Ends) -> None:
        """Append the loops over a block, where a product has an epilogue."""
        if self.loops:
            for value, end in zip(self.bounds, (*rows, *columns), strict=True):
                body.add(Let(value, whole(end)))
            body.add(*self.loops)


class EpilogueKernel:
    """A kernel while it is built that has an epilogue, or none.

    Numbers are those of its arguments; an argument that both use has one buffer.
    """

    def __init__(self, epilogue: Epilogue) -> None:
        self.epilogue, self.body = epilogue, Body()
        self._known = {buffer.number: buffer for buffer in epilogue.buffers}
        self._buffers: list[Buffer] = []
        self._stack: list[StackArray] = []
        self.body.add(*epilogue.prologue)

    def buffer(self, number: int, role: Role) -> Buffer:
        """Return the buffer of an argument."""
        found = self._known.setdefault(number, Buffer(number, role))
        self._buffers.append(found)
        return found

    def stack_array(self, name: str, byte_size: int) -> StackArray:
        """Allocate memory on the stack."""
        found = StackArray(name, byte_size)
        self._stack.append(found)
        return found

    def built(self, effort: Effort) -> Kernel:
        """Return the kernel. One with an epilogue is optimised, whatever the effort is else."""
        buffers = tuple(dict.fromkeys([*self._buffers, *self.epilogue.buffers]))
        stack = (*self._stack, *self.epilogue.stack)
        effort = Effort.OPTIMISED if self.epilogue.loops else effort
        return Kernel(buffers, stack, tuple(self.body.statements), effort)


NO_EPILOGUE = Epilogue()
"""The epilogue of a product that is not fused with anything."""


@dataclasses.dataclass(frozen=True, slots=True)
class EpilogueFusion:
    """A fusion of a product and its epilogue, while the producer is lowered.

    `arguments` are the kernel's: each operand of the fusion once, then `product`, where the
    producer writes, and `result`, which are often the same. A fusion of two results gives the
    product as the second. The operations of both are noted in the costs of
    `lowering`.
    """

    fusion: HloInstruction
    producer: HloInstruction
    arguments: tuple[Value, ...]
    numbers: dict[HloInstruction, int]
    product: Value
    result: Value
    lowering: Lowering

    @classmethod
    def of(
        cls,
        lowering: Lowering,
        fusion: HloInstruction,
        producer: HloInstruction,
        is_apart: bool = False,
    ) -> "EpilogueFusion":
        """Return a fusion around a producer, whose results are new values.

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
        return cls(fusion, producer, arguments, numbers, product, result, lowering)

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

    def epilogue(self, rows: int, columns: int) -> Epilogue:
        """Return the epilogue of the product seen as one matrix of these sizes.

        Where it needs rows, a block must have all columns.
        """
        numbers = {**self.numbers, self.producer: self.arguments.index(self.product)}
        loops = (Variable(rows, "i"), Variable(columns, "i"))
        element = variable(loops[0]) * columns + variable(loops[1])
        index = multi_index(element, self.result.shape.dimensions)
        origins: Origins = {}
        store = Store(
            self.arguments.index(self.result),
            KERNEL_TYPE[self.result.shape.element_type],
            element,
            Tracer(RULES, numbers, origins).value(self.fusion, index),
        )
        nest = Nest(loops, (store,), self.lowering.target)
        found = _EpilogueBuilder(nest, {numbers[self.producer]}).epilogue(origins)
        self.lowering.costs[self.fusion] = instruction_cost_once(self.producer) + found.cost
        return found


def with_epilogue(
    fusion: EpilogueFusion | None, values: Sequence[Value], rows: int, columns: int
) -> tuple[list[int], Epilogue, tuple[Value, ...]]:
    """The numbers of values among a kernel's arguments, its epilogue, and the arguments.

    The product is seen as a matrix of `rows` by `columns`.
    """
    arguments = tuple(dict.fromkeys([*(fusion.arguments if fusion else ()), *values]))
    epilogue = fusion.epilogue(rows, columns) if fusion else NO_EPILOGUE
    return [arguments.index(value) for value in values], epilogue, arguments


def used(
    arguments: Sequence[Value], written: Sequence[Value], fusion: EpilogueFusion | None
) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
    """The values that a kernel only reads, and those that it writes."""
    writes = tuple(dict.fromkeys([*written, *(fusion.writes if fusion else ())]))
    return tuple(value for value in arguments if value not in writes), writes


class _EpilogueBuilder(RowBuilder):
    """Builds the loops over a block of rows and columns."""

    def epilogue(self, origins: Origins) -> Epilogue:
        """Return the epilogue."""
        row, column = self._nest.loops
        self._allocate_rows()
        bounds = tuple(
            Bound(f"{end}_{axis}", Type.I64)
            for axis in ("row", "column")
            for end in ("first", "last")
        )
        first_row, last_row, first_column, last_column = bounds
        body = self._open(row, self._top, last_row, first_row, row.size)
        inner = self._open(column, body, last_column, first_column, column.size)
        if row.size == 1:
            # Values that depend on no row may depend on the product, which is computed in the loop.
            self._invariants = body
        self._store(self._nest.stores, inner)
        close([body, inner])
        work = self._work(self._nest.loops)
        found = self._scheduled(work)
        *prologue, loops = found.kernel.body
        return Epilogue(
            found.kernel.buffers,
            found.kernel.stack,
            tuple(prologue),
            (loops,),
            bounds,
            work,
            needs_rows=any(
                isinstance(node, ReductionResult) for node in all_nodes(self._nest.stores)
            ),
            cost=cost_of_evaluations(evaluated_instructions(found.evaluations, origins)),
        )
