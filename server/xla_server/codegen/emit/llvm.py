"""Emission of LLVM IR from the loop IR.

Values are LLVM values. Cells and loop counters are allocated on the stack, and LLVM's first pass
(SROA) makes registers of them. Every choice is in the loop IR: the loops to unroll, the stores that
alias no load, and the level of LLVM's optimisation.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.dispatcher import Dispatcher

from xla_server.codegen.compiler.blocks import BlockWriter, module_of
from xla_server.codegen.compiler.python_compiler import InlinedFunction
from xla_server.codegen.compiler.python_values import FORMS, WORD, Typed, constant, parts, whole
from xla_server.codegen.emit.loop_metadata import (
    UNROLLED,
    Request,
    item_request,
    request,
    vector_request,
)
from xla_server.codegen.instructions.constants import CONSTANTS
from xla_server.codegen.instructions.instruction import Instruction
from xla_server.codegen.instructions.memory import COMPUTED
from xla_server.codegen.kernel_ir import expressions as expr
from xla_server.codegen.kernel_ir import statements as stmt
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.target.machine import Machine


def kernel_module(
    kernel: Kernel, names: Mapping[str, Any], symbol: str, machine: Machine
) -> ir.Module:
    """Return the LLVM module of a kernel for a machine, as `symbol`.

    `names` maps function names to instructions and to functions that are inlined.
    """

    def write(builder: Any, first: Any, args: Sequence[Any]) -> None:
        Emitter(builder, first, kernel, names, machine, args).write()

    module = module_of(symbol, 3, write)
    if kernel.few_items is not None:
        # LLVM makes no vectors that are never filled. llvmlite refuses what has operands.
        for bound in module.globals[symbol].args[-2:]:
            set.add(bound.attributes, f"range(i64 0, {kernel.few_items + 1})")
    return module


class Emitter(BlockWriter):
    """Emits one kernel into a builder."""

    def __init__(
        self,
        builder: Any,
        first: Any,
        kernel: Kernel,
        names: Mapping[str, Any],
        machine: Machine,
        args: Sequence[Any],
    ) -> None:
        super().__init__(builder, {first})
        self._kernel, self._names, self._machine = kernel, names, machine
        arguments = [(COMPUTED["i64"], argument) for argument in args]
        self._values: dict[expr.Value, Typed] = dict(
            zip((expr.BUFFERS, expr.START, expr.STOP), arguments, strict=True)
        )
        self._cells: dict[expr.Cell, tuple[Any, Any]] = {}
        self._memory: dict[expr.Memory, Typed] = {}
        (self._end,) = self._blocks("end")

    def write(self) -> None:
        """Write the kernel's body, without the return."""
        self._bind_memory()
        self._write_all(self._kernel.body)
        self._branch(self._end)
        self._position_at(self._end)

    def _bind_memory(self) -> None:
        """Bind buffers to their addresses in the kernel's table, and arrays to stack memory."""
        table = self._values[expr.BUFFERS]
        for buffer in self._kernel.buffers:
            self._memory[buffer] = self._apply("peek_i64", table, whole(buffer.number))
        for array in self._kernel.stack:
            self._memory[array] = self._apply("alloca", whole(array.byte_size))

    def _apply(self, function: str, *operands: Typed) -> Typed:
        called = self._names.get(function)
        if isinstance(called, Instruction):
            return self._call_instruction(called, operands)
        if isinstance(called, Dispatcher):
            inlined = InlinedFunction(self._builder, self._reached, called.py_func, operands)
            return inlined.write() or (types.void, None)
        raise ValueError(f"a kernel must call instructions, got {function}")

    def _write_all(self, statements: Sequence[stmt.Statement]) -> None:
        for statement in statements:
            if self._is_unreachable:
                return
            self._write(statement)

    def _write(self, statement: stmt.Statement) -> None:
        match statement:
            case stmt.Let(value=value, expression=expression):
                self._values[value] = self._of_type(self._value(expression), value)
            case stmt.Declare(cell=cell, start=start):
                kind, code = self._of_type(self._value(start), cell)
                self._cells[cell] = kind, self._alloca(FORMS[kind])
                self._set(cell, code)
            case stmt.Set(cell=cell, expression=expression):
                self._set(cell, self._of_type(self._value(expression), cell)[1])
            case stmt.Accumulate(cell=cell, function=function, operand=operand):
                total = self._apply(function, self._value(cell), self._value(operand))
                self._set(cell, self._of_type(total, cell)[1])
            case stmt.Store(guard=None):
                self._store(statement)
            case stmt.Store(guard=guard) if guard is not None:
                self._if_else(self._value(guard)[1], lambda: self._store(statement))
            case stmt.For():
                self._loop(statement)
            case stmt.While(test=test, body=body):
                self._while(lambda: self._value(test)[1], lambda: self._write_all(body))
            case stmt.If(test=test, body=body, orelse=orelse):
                self._if_else(
                    self._value(test)[1],
                    lambda: self._write_all(body),
                    lambda: self._write_all(orelse),
                )
            case stmt.ParallelFor(is_range=True, body=body):
                self._write_all(body)
            case stmt.ParallelFor():
                self._part(statement)
            case stmt.Stop(flag=flag):
                is_stopped = self._builder.icmp_signed("!=", self._flag(flag), ir.Constant(WORD, 0))
                self._if_else(is_stopped, lambda: self._branch(self._end))
            case stmt.Call(routine=routine, operands=operands, results=results):
                found = self._apply(routine.name, *map(self._value, operands))
                bound = parts(found) if len(results) > 1 else [found][: len(results)]
                for value, result in zip(results, bound, strict=True):
                    self._values[value] = self._of_type(result, value)
            case stmt.Shuffle():
                self._exchange(statement)
            case stmt.Barrier():
                self._barrier()
            case stmt.Break():
                self._branch(self._loops[-1][1])

    def _flag(self, flag: expr.Buffer) -> Any:
        """Return the value of the cancellation flag: 0 to continue."""
        return self._apply("watch_i64", self._memory[flag])[1]

    def _exchange(self, exchange: stmt.Shuffle) -> None:
        """Raise ValueError: threads of a processor have no shuffle."""
        raise ValueError(
            f"work items of a processor must exchange nothing, got {exchange.value.name}"
        )

    def _barrier(self) -> None:
        """Raise ValueError: threads of a processor have no barrier."""
        raise ValueError("work items of a processor must not wait for others, got a barrier")

    def _of_type(self, value: Typed, bound: expr.Value | expr.Cell) -> Typed:
        if value[0] != COMPUTED[bound.type]:
            raise ValueError(f"{bound.name} must be {bound.type}, got {value[0]}")
        return value

    def _set(self, cell: expr.Cell, code: Any) -> None:
        self._builder.store(code, self._cells[cell][1])

    def _store(self, store: stmt.Store) -> None:
        operands = self._base(store.memory), self._value(store.index), self._value(store.value)
        self._apply(f"{store.memory.usage.store}_{store.type}", *operands)

    def _base(self, memory: expr.Memory) -> Typed:
        return (
            self._value(memory.address) if isinstance(memory, expr.Region) else self._memory[memory]
        )

    def _value(self, expression: expr.Expression) -> Typed:
        match expression:
            case expr.Value():
                return self._values[expression]
            case expr.Cell():
                kind, slot = self._cells[expression]
                return kind, self._builder.load(slot)
            case expr.Const(type=kind, parts=parts):
                return constant(CONSTANTS[kind](*parts))
            case expr.Index():
                return self._index(expression)
            case expr.Apply(function=function, operands=operands):
                return self._apply(function, *map(self._value, operands))
            case expr.Load(memory=memory, type=kind, index=index, guard=guard):
                base = self._base(memory)
                if guard is None:
                    element = self._value(index)
                else:
                    element = self._apply(
                        "select", self._value(guard), self._value(index), whole(0)
                    )
                return self._apply(f"{memory.usage.load}_{kind}", base, element)
            case expr.Address(memory=memory, index=index, byte_size=byte_size):
                number, base = expr.known(index), self._base(memory)
                if number == 0:
                    return base
                if number is not None:
                    return self._apply("add", base, whole(number * byte_size))
                ahead = self._apply("mul", self._value(index), whole(byte_size))
                return self._apply("add", base, ahead)
            case expr.Quotient(operand=operand, divisor=divisor):
                return self._apply("whole_div", self._value(operand), whole(divisor))
            case expr.Remainder(operand=operand, divisor=divisor):
                return self._apply("whole_mod", self._value(operand), whole(divisor))

    def _index(self, index: expr.Index) -> Typed:
        found = whole(index.constant) if index.constant or not index.terms else None
        for term, factor in index.terms:
            value = self._value(term)
            if factor != 1:
                value = self._apply("mul", value, whole(factor))
            found = value if found is None else self._apply("add", found, value)
        assert found is not None
        return found

    def _part(self, part: stmt.ParallelFor) -> None:
        start, stop = self._values[expr.START], self._values[expr.STOP]
        if len(self._kernel.parts) > 1:
            start = self._apply("maximum", start, whole(part.first))
            stop = self._apply("minimum", stop, whole(part.first + part.items))
        if part.axis is None:
            has_any = self._builder.icmp_signed("<", start[1], stop[1])
            self._if_else(has_any, lambda: self._write_all(part.body))
            return
        back = self._count_axis(part.axis, start[1], stop[1], part.step, part.body)
        requested = item_request(part, self._machine)
        if back is not None and requested:
            request(back, requested)

    def _loop(self, loop: stmt.For) -> None:
        low, high = self._value(loop.low)[1], self._value(loop.high)[1]
        back = self._count_axis(loop.axis, low, high, loop.step, loop.body)
        requested = UNROLLED if loop.unrolled else self._vector_request(loop)
        if back is not None and requested:
            request(back, requested)

    def _vector_request(self, loop: stmt.For) -> Request | None:
        return vector_request(loop, self._machine)

    def _count_axis(
        self, axis: expr.Value, low: Any, high: Any, step: int, body: Sequence[stmt.Statement]
    ) -> Any | None:
        """Write a loop, as `_for` does, whose counter is the value of an axis."""

        def inside(number: Any) -> None:
            self._values[axis] = COMPUTED["i64"], number
            self._write_all(body)

        return self._for(low, high, step, inside)
