"""Numba source of the loop IR: the readable form of kernels, for dumps, tests and cache keys.

Source of a kernel can be compiled by numba and gives the same bits as the emitted machine code.
"""

from collections.abc import Sequence

from xla_server.codegen.kernel_ir.expressions import (
    Address,
    Apply,
    Buffer,
    Cell,
    Const,
    Expression,
    Index,
    Load,
    Memory,
    Quotient,
    Region,
    Remainder,
    SharedArray,
    StackArray,
    Value,
    known,
)
from xla_server.codegen.kernel_ir.routine import Routine
from xla_server.codegen.kernel_ir.statements import (
    Accumulate,
    Barrier,
    Break,
    Call,
    Declare,
    Exchange,
    For,
    If,
    Let,
    Part,
    Set,
    Statement,
    Stop,
    Store,
    While,
)

HEAD = "def kernel(buffers, start, stop):"


class NumbaText:
    """Writes statements; constants have names of their own, which are defined before the kernel."""

    def __init__(self, prefix: str = "k") -> None:
        self._prefix = prefix
        self._constants: dict[str, str] = {}
        self._part_count = 1

    @property
    def constants(self) -> list[str]:
        """The lines that define the constants written so far."""
        return [f"{name} = {text}" for text, name in self._constants.items()]

    def kernel(
        self,
        buffers: Sequence[Buffer],
        arrays: Sequence[StackArray | SharedArray],
        body: Sequence[Statement],
    ) -> str:
        """Return the source of a kernel."""
        self._part_count = sum(isinstance(statement, Part) for statement in body)
        lines = [*self.memory(buffers, arrays, 1), *self.lines(body, 1)]
        return "\n".join([*self.constants, HEAD, *lines]) + "\n"

    def memory(
        self,
        buffers: Sequence[Buffer],
        arrays: Sequence[StackArray | SharedArray],
        depth: int = 0,
    ) -> list[str]:
        """Return the lines that define the addresses of memory."""
        margin = "    " * depth
        rooms = [
            (each.name, "room_for" if isinstance(each, StackArray) else "shared_room", each)
            for each in arrays
        ]
        return [
            *(f"{margin}{each.name} = peek_i64(buffers, {each.number})" for each in buffers),
            *(f"{margin}{name} = {room}({each.byte_size})" for name, room, each in rooms),
        ]

    def lines(self, body: Sequence[Statement], depth: int = 0) -> list[str]:
        """Return the lines of statements at a depth of indentation."""
        found: list[str] = []
        for statement in body:
            found += self._statement(statement, depth)
        return found or ["    " * depth + "pass"]

    def _statement(self, statement: Statement, depth: int) -> list[str]:
        text = self.expression
        match statement:
            case Let(value=name, expression=expression) | Set(cell=name, expression=expression):
                line = f"{name.name} = {text(expression)}"
            case Declare(cell=cell, start=start):
                line = f"{cell.name} = {text(start)}"
            case Accumulate(cell=cell, function=function, operand=operand):
                line = f"{cell.name} = {function}({cell.name}, {text(operand)})"
            case Store():
                if statement.guard is not None:
                    line = f"if {text(statement.guard)}:\n{'    ' * (depth + 1)}"
                else:
                    line = ""
                element = f"{self._base(statement.memory)}, {text(statement.index)}"
                line += (
                    f"{statement.memory.store}_{statement.type}({element}, {text(statement.value)})"
                )
            case Call(routine=routine, operands=operands, results=results):
                line = f"{', '.join(each.name for each in results)} = " if results else ""
                line += self._named_call(routine, operands, depth)
            case Exchange(value=value, operand=operand, distance=distance):
                line = f"{value.name} = exchange_{value.type}({text(operand)}, {distance})"
            case Barrier():
                line = "barrier()"
            case Stop(word=word):
                line = f"if watch_i64({word.name}) != 0:\n{'    ' * (depth + 1)}return"
            case Break():
                line = "break"
            case Part(is_range=True):
                return self.lines(statement.body, depth)
            case _:
                head = self._head(statement)
                found = ["    " * depth + head, *self.lines(statement.body, depth + 1)]
                if isinstance(statement, If) and statement.orelse:
                    found += ["    " * depth + "else:", *self.lines(statement.orelse, depth + 1)]
                return found
        return ["    " * depth + line]

    def _named_call(self, routine: Routine, operands: Sequence[Expression], depth: int) -> str:
        # Many numbers would say nothing without their names.
        margin = "\n" + "    " * depth
        given = zip(operands, routine.names, strict=True)
        lines = [f"    {self.expression(operand)},  # {name}" for operand, name in given]
        return margin.join([f"{routine.name}(", *lines, ")"]) if lines else f"{routine.name}()"

    def _head(self, statement: For | While | If | Part) -> str:
        text = self.expression
        match statement:
            case For(axis=axis, low=low, high=high, step=step):
                ends = [text(low), text(high)] if step > 1 or known(low) != 0 else [text(high)]
                ends += [str(step)] if step > 1 else []
                return f"for {axis.name} in range({', '.join(ends)}):"
            case While(test=test):
                return f"while {text(test)}:"
            case If(test=test):
                return f"if {text(test)}:"
            case Part(axis=None):
                return "if start < stop:"
            case Part(axis=Value() as axis, first=first, items=items, step=step):
                ends = ["start", "stop"]
                if self._part_count > 1:
                    ends = [f"maximum(start, {first})", f"minimum(stop, {first + items})"]
                ends += [str(step)] if step > 1 else []
                groups = f"  # groups of {statement.group}" if statement.group > 1 else ""
                return f"for {axis.name} in range({', '.join(ends)}):{groups}"
        raise AssertionError(f"no source for {type(statement).__name__}")

    def expression(self, expression: Expression) -> str:
        """Return the text of an expression."""
        match expression:
            case Value() | Cell():
                return expression.name
            case Const():
                return self._constant(expression)
            case Apply(function=function, operands=operands):
                return f"{function}({', '.join(map(self.expression, operands))})"
            case Load(memory=memory, type=type, index=index, guard=guard):
                element = self.expression(index)
                if guard is not None:
                    element = f"select({self.expression(guard)}, {element}, 0)"
                return f"{memory.load}_{type}({self._base(memory)}, {element})"
            case Address(memory=memory, index=index, byte_size=byte_size):
                return self._address(memory, index, byte_size)
            case Quotient(operand=operand, divisor=divisor):
                return f"whole_div({self.expression(operand)}, {divisor})"
            case Remainder(operand=operand, divisor=divisor):
                return f"whole_mod({self.expression(operand)}, {divisor})"
            case Index():
                return self._index(expression)

    def _index(self, index: Index) -> str:
        found = str(index.constant) if index.constant or not index.terms else ""
        for term, factor in index.terms:
            text = self.expression(term)
            if factor != 1:
                text = f"mul({text}, {factor})"
            found = f"add({found}, {text})" if found else text
        return found

    def _base(self, memory: Memory) -> str:
        return self.expression(memory.address) if isinstance(memory, Region) else memory.name

    def _address(self, memory: Memory, index: Expression, byte_size: int) -> str:
        number, base = known(index), self._base(memory)
        if number is not None:
            return f"add({base}, {number * byte_size})" if number else base
        element = self.expression(index)
        return f"add({base}, mul({element}, {byte_size}))"

    def _constant(self, constant: Const) -> str:
        name = f"{self._prefix}{len(self._constants)}"
        return self._constants.setdefault(constant_text(constant), name)


def constant_text(constant: Const) -> str:
    """Return the expression that makes a constant: floats by their bits."""
    written = str if constant.type.is_integer else hex
    return f"{constant.type}({', '.join(map(written, constant.parts))})"
