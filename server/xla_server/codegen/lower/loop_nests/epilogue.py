"""Epilogues of output fusions: operations on a block of a product while it is in the cache.

The fusion's computation has one dot or convolution, the producer. Its lowering writes blocks of the
product to memory; the epilogue reads them and writes the fusion's result, to the same memory if
both have one type.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from xla_contract.types.shape import Shape
from xla_server.buffers.code import Value
from xla_server.codegen.kernel_ir.builder import Body
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.expressions import Buffer, Expression, StackArray, Usage, whole
from xla_server.codegen.kernel_ir.expressions import Value as Bound
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import Let, Statement
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.lower.kernel_thunks import kernel_thunk
from xla_server.codegen.lower.loop_nests.loop_kernel import (
    cost_of_evaluations,
    evaluated_instructions,
)
from xla_server.codegen.lower.loop_nests.loop_lowering import kernel_operands
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.codegen.schedules.builders.loop_builder import LoopBuilder, Nest, close
from xla_server.codegen.schedules.builders.stored_nodes import all_nodes
from xla_server.codegen.trace.graph import ReductionResult, Store
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.codegen.trace.rules import RULES
from xla_server.codegen.trace.tracer import Origins, Tracer
from xla_server.evaluator.cost_analysis import Cost
from xla_server.evaluator.evaluation_cost import instruction_cost_once
from xla_server.ir.analysis.affine import Variable, multi_index, variable
from xla_server.ir.module import HloInstruction

Ends: TypeAlias = tuple[int | Expression, int | Expression]
"""Range of rows or columns: the first one, and one past the last."""


@dataclasses.dataclass(frozen=True, slots=True)
class Epilogue:
    """The statements of a kernel that follow each block of a product.

    `prologue` is executed once for each call of the kernel, `loops` after each block, whose ranges
    of rows and columns are `bounds`. `buffers` are numbered by `arguments`; `needs_rows` says that
    results depend on whole rows of the product. Without statements the product has no epilogue.
    """

    arguments: tuple[Value, ...] = ()
    buffers: tuple[Buffer, ...] = ()
    stack: tuple[StackArray, ...] = ()
    prologue: tuple[Statement, ...] = ()
    loops: tuple[Statement, ...] = ()
    bounds: tuple[Bound, ...] = ()
    needs_rows: bool = False
    cost: Cost = Cost()  # noqa: RUF009

    def emit(self, body: Body, rows: Ends, columns: Ends) -> None:
        """Append the loops over a block, if the product has an epilogue."""
        if self.loops:
            for value, end in zip(self.bounds, (*rows, *columns), strict=True):
                body.add(Let(value, whole(end)))
            body.add(*self.loops)


NO_EPILOGUE = Epilogue()
"""The epilogue of a product that is not fused with anything."""


class EpilogueKernel:
    """Builder of a kernel with or without an epilogue.

    A value that kernel and epilogue use has one buffer. Results and scratch memory are values that
    the kernel writes.
    """

    def __init__(self, epilogue: Epilogue = NO_EPILOGUE) -> None:
        self.epilogue, self.body = epilogue, Body()
        self._arguments = {value: number for number, value in enumerate(epilogue.arguments)}
        self._known = {buffer.number: buffer for buffer in epilogue.buffers}
        self._buffers: list[Buffer] = []
        self._stack: list[StackArray] = []
        self.body.add(*epilogue.prologue)

    def buffer(self, value: Value, usage: Usage) -> Buffer:
        """Return the buffer of a value."""
        number = self._arguments.setdefault(value, len(self._arguments))
        found = self._known.setdefault(number, Buffer(number, usage))
        self._buffers.append(found)
        return found

    def buffers(self, read: Iterable[Value], written: Value) -> tuple[Buffer, ...]:
        """Return the buffers of values that the kernel reads, and of one that it writes."""
        reads = [self.buffer(value, Usage.READ) for value in read]
        return *reads, self.buffer(written, Usage.WRITE)

    def stack_array(self, name: str, byte_size: int) -> StackArray:
        """Allocate memory on the stack."""
        self._stack.append(StackArray(name, byte_size))
        return self._stack[-1]

    def built(self, effort: Effort) -> Kernel:
        """Return the kernel, with this effort; one with an epilogue is OPTIMISED."""
        buffers = tuple(dict.fromkeys([*self._buffers, *self.epilogue.buffers]))
        stack = (*self._stack, *self.epilogue.stack)
        effort = Effort.OPTIMISED if self.epilogue.loops else effort
        return Kernel(buffers, stack, tuple(self.body.statements), effort)

    def add(
        self, lowering: Lowering, name: str, effort: Effort, updates: tuple[Value, ...] = ()
    ) -> None:
        """Append the thunk of the kernel."""
        arguments = tuple(self._arguments)
        lowering.add(kernel_thunk(name, self.built(effort), arguments, updates=updates))


@dataclasses.dataclass(frozen=True, slots=True)
class Product:
    """A dot or convolution to be lowered, alone or with the epilogue of an output fusion.

    It reads `operands` and is written to `value`; `result` is that of the instruction, and often
    the same. A fusion reads the values `read`; the second of two results is the product. The
    operations of both are added to the costs of `lowering`.
    """

    lowering: Lowering
    producer: HloInstruction
    operands: tuple[Value, ...]
    value: Value
    result: Value
    fusion: HloInstruction | None = None
    read: Mapping[HloInstruction, Value] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(
        cls,
        lowering: Lowering,
        producer: HloInstruction,
        fusion: HloInstruction | None,
        shape: Shape | None = None,
        is_apart: bool = False,
    ) -> "Product":
        """Return a product alone, or inside of a fusion, whose results are new values.

        A product alone has its own shape or `shape`. `is_apart` stores a fused product in a value
        of its own, as blocks that overlap require.
        """
        if fusion is None:
            operands = tuple(lowering.array(operand) for operand in producer.operands)
            value = lowering.new(shape or producer.shape, producer.name)
            return cls(lowering, producer, operands, value, value)
        read = kernel_operands(lowering, fusion.operands)
        shape = next(fusion.shape.leaves())
        result = value = lowering.new(shape, fusion.name)
        types = {producer.shape.element_type, shape.element_type}
        if is_apart or fusion.shape.is_tuple or len(types) > 1:
            value = lowering.new(producer.shape, f"{fusion.name}.product")
        bound = dict(zip(fusion.called[0].parameters, fusion.operands, strict=True))
        operands = tuple(read[bound[operand]] for operand in producer.operands)
        return cls(lowering, producer, operands, value, result, fusion, read)

    @property
    def name(self) -> str:
        """The name of the instruction that is lowered."""
        return (self.fusion or self.producer).name

    @property
    def tree(self) -> Tree:
        """The values of the instruction."""
        is_tuple = self.fusion is not None and self.fusion.shape.is_tuple
        return (self.result, self.value) if is_tuple else self.result

    def epilogue(self, rows: int, columns: int) -> Epilogue:
        """Return the epilogue of the product seen as one matrix of these sizes.

        If it needs rows, a block must have all columns.
        """
        if self.fusion is None:
            return NO_EPILOGUE
        arguments = tuple(dict.fromkeys([*self.read.values(), self.value, self.result]))
        read = {**self.read, self.producer: self.value}
        numbers = {operand: arguments.index(value) for operand, value in read.items()}
        function, known = self.lowering.equal.function(self.fusion), self.lowering.kernels
        positions = (*numbers.values(), arguments.index(self.result))
        key = Epilogue, function, positions, rows, columns
        if function is None or key not in known:
            known[key] = self._written(arguments.index(self.result), numbers, rows, columns)
        found: Epilogue = known[key]
        self.lowering.costs[self.fusion] = instruction_cost_once(self.producer) + found.cost
        return dataclasses.replace(found, arguments=arguments)

    def _written(
        self, result: int, numbers: Mapping[HloInstruction, int], rows: int, columns: int
    ) -> Epilogue:
        """Return the epilogue of a kernel with the operands' buffers and one of the result."""
        assert self.fusion is not None
        loops = (Variable(rows, "i"), Variable(columns, "i"))
        element = variable(loops[0]) * columns + variable(loops[1])
        index = multi_index(element, self.result.shape.dimensions)
        origins: Origins = {}
        store = Store(
            result,
            KERNEL_TYPE[self.result.shape.element_type],
            element,
            Tracer(RULES, numbers, origins).value(self.fusion, index),
        )
        nest = Nest(loops, (store,), self.lowering.target)
        return _EpilogueBuilder(nest, {numbers[self.producer]}).epilogue(origins)


class _EpilogueBuilder(LoopBuilder):
    """Builds the loops over a block of rows and columns."""

    def epilogue(self, origins: Origins) -> Epilogue:
        """Return the epilogue without its arguments."""
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
        found = self._scheduled()
        *prologue, loops = found.kernel.body
        return Epilogue(
            buffers=found.kernel.buffers,
            stack=found.kernel.stack,
            prologue=tuple(prologue),
            loops=(loops,),
            bounds=bounds,
            needs_rows=any(
                isinstance(node, ReductionResult) for node in all_nodes(self._nest.stores)
            ),
            cost=cost_of_evaluations(evaluated_instructions(found.evaluations, origins)),
        )
