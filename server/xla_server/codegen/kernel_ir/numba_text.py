"""Numba source of the loop IR: the readable form of kernels, for dumps, tests and cache keys.

Source of a kernel can be compiled by numba and gives the same bits as the emitted machine code.
"""

from collections.abc import Sequence

from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir import statements as stmt
from xla_server.codegen.kernel_ir.routine import Routine

HEAD = "def kernel(buffers, start, stop):"


def is_constant(name: str) -> bool:
    """Return whether a name is one that the source of a kernel gives to constants."""
    return name[:1] == "k" and name[1:].isdecimal()


class NumbaText:
    """Writes statements; constants have names of their own, which are defined before the kernel."""

    def __init__(self) -> None:
        self._constants: dict[str, str] = {}
        self._part_count = 1

    @property
    def constants(self) -> list[str]:
        """The lines that define the constants written so far."""
        return [f"{name} = {text}" for text, name in self._constants.items()]

    def kernel(
        self,
        buffers: Sequence[ir.Buffer],
        arrays: Sequence[ir.StackArray | ir.SharedArray],
        body: Sequence[stmt.Statement],
    ) -> str:
        """Return the source of a kernel."""
        self._part_count = sum(isinstance(statement, stmt.ParallelFor) for statement in body)
        lines = [f"    {each.name} = peek_i64(buffers, {each.number})" for each in buffers]
        for array in arrays:
            allocate = "alloca" if isinstance(array, ir.StackArray) else "shared_array"
            lines.append(f"    {array.name} = {allocate}({array.byte_size})")
        lines += self.lines(body, 1)
        return "\n".join([*self.constants, HEAD, *lines]) + "\n"

    def lines(self, body: Sequence[stmt.Statement], depth: int = 0) -> list[str]:
        """Return the lines of statements at a depth of indentation."""
        found: list[str] = []
        for statement in body:
            found += self._statement(statement, depth)
        return found or ["    " * depth + "pass"]

    def _statement(self, statement: stmt.Statement, depth: int) -> list[str]:
        text = self.expression
        match statement:
            case (
                stmt.Let(value=name, expression=expression)
                | stmt.Set(cell=name, expression=expression)
                | stmt.Declare(cell=name, start=expression)
            ):
                line = f"{name.name} = {text(expression)}"
            case stmt.Accumulate(cell=cell, function=function, operand=operand):
                line = f"{cell.name} = {function}({cell.name}, {text(operand)})"
            case stmt.Store():
                if statement.guard is not None:
                    line = f"if {text(statement.guard)}:\n{'    ' * (depth + 1)}"
                else:
                    line = ""
                element = f"{self._base(statement.memory)}, {text(statement.index)}"
                line += (
                    f"{statement.memory.usage.store}_{statement.type}"
                    f"({element}, {text(statement.value)})"
                )
            case stmt.Call(routine=routine, operands=operands, results=results):
                line = f"{', '.join(each.name for each in results)} = " if results else ""
                line += self._named_call(routine, operands, depth)
            case stmt.Shuffle(value=value, operand=operand, distance=distance):
                line = f"{value.name} = exchange_{value.type}({text(operand)}, {distance})"
            case stmt.Barrier():
                line = "barrier()"
            case stmt.Stop(flag=flag):
                line = f"if watch_i64({flag.name}) != 0:\n{'    ' * (depth + 1)}return"
            case stmt.Break():
                line = "break"
            case stmt.ParallelFor(is_range=True):
                return self.lines(statement.body, depth)
            case _:
                head = self._head(statement)
                found = ["    " * depth + head, *self.lines(statement.body, depth + 1)]
                if isinstance(statement, stmt.If) and statement.orelse:
                    found += ["    " * depth + "else:", *self.lines(statement.orelse, depth + 1)]
                return found
        return ["    " * depth + line]

    def _named_call(self, routine: Routine, operands: Sequence[ir.Expression], depth: int) -> str:
        # Many numbers would be unreadable without their names.
        margin = "\n" + "    " * depth
        arguments = zip(operands, routine.names, strict=True)
        lines = [f"    {self.expression(operand)},  # {name}" for operand, name in arguments]
        return margin.join([f"{routine.name}(", *lines, ")"]) if lines else f"{routine.name}()"

    def _head(self, statement: stmt.For | stmt.While | stmt.If | stmt.ParallelFor) -> str:
        text = self.expression
        match statement:
            case stmt.For(axis=axis, low=low, high=high, step=step):
                ends = [text(low), text(high)] if step > 1 or ir.known(low) != 0 else [text(high)]
                ends += [str(step)] if step > 1 else []
                return f"for {axis.name} in range({', '.join(ends)}):"
            case stmt.While(test=test):
                return f"while {text(test)}:"
            case stmt.If(test=test):
                return f"if {text(test)}:"
            case stmt.ParallelFor(axis=axis, first=first, items=items, step=step):
                ends = ["start", "stop"]
                if self._part_count > 1:
                    ends = [f"maximum(start, {first})", f"minimum(stop, {first + items})"]
                if axis is None:
                    return f"if {ends[0]} < {ends[1]}:"
                ends += [str(step)] if step > 1 else []
                groups = f"  # groups of {statement.group}" if statement.group > 1 else ""
                return f"for {axis.name} in range({', '.join(ends)}):{groups}"
        raise AssertionError(f"no source for {type(statement).__name__}")

    def expression(self, expression: ir.Expression) -> str:
        """Return the text of an expression."""
        match expression:
            case ir.Value() | ir.Cell():
                return expression.name
            case ir.Const():
                return self._constant(expression)
            case ir.Apply(function=function, operands=operands):
                return f"{function}({', '.join(map(self.expression, operands))})"
            case ir.Load(memory=memory, type=type, index=index, guard=guard):
                element = self.expression(index)
                if guard is not None:
                    element = f"select({self.expression(guard)}, {element}, 0)"
                return f"{memory.usage.load}_{type}({self._base(memory)}, {element})"
            case ir.Address(memory=memory, index=index, byte_size=byte_size):
                return self._address(memory, index, byte_size)
            case ir.Quotient(operand=operand, divisor=divisor):
                return f"whole_div({self.expression(operand)}, {divisor})"
            case ir.Remainder(operand=operand, divisor=divisor):
                return f"whole_mod({self.expression(operand)}, {divisor})"
            case ir.Index():
                return self._index(expression)

    def _index(self, index: ir.Index) -> str:
        found = str(index.constant) if index.constant or not index.terms else ""
        for term, factor in index.terms:
            text = self.expression(term)
            if factor != 1:
                text = f"mul({text}, {factor})"
            found = f"add({found}, {text})" if found else text
        return found

    def _base(self, memory: ir.Memory) -> str:
        return self.expression(memory.address) if isinstance(memory, ir.Region) else memory.name

    def _address(self, memory: ir.Memory, index: ir.Expression, byte_size: int) -> str:
        number, base = ir.known(index), self._base(memory)
        if number is not None:
            return f"add({base}, {number * byte_size})" if number else base
        element = self.expression(index)
        return f"add({base}, mul({element}, {byte_size}))"

    def _constant(self, constant: ir.Const) -> str:
        # Floats are written by their bits.
        written = str if constant.type.is_integer else hex
        text = f"{constant.type}({', '.join(map(written, constant.parts))})"
        return self._constants.setdefault(text, f"k{len(self._constants)}")
