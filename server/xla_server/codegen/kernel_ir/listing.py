"""The notation of the loop IR, for messages, dumps and documentation.

kernel, optimised: buffer0 read, buffer1 write, row0 2048 bytes
  parallel t1 < 64:
    cell a5 = f32 -0
    for i6 < 500:
      v8 = exp_f32(buffer0.f32[i6 + 500 t1])
      row0.f32[i6] = v8
      a5 = add_in_any_order(a5, v8)    any order
"""

import struct
from collections.abc import Iterator, Sequence

from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir import statements as stmt
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.types import Type


def listing(kernel: Kernel) -> str:
    """Return a kernel in the notation of the loop IR."""
    memory = [f"{buffer.name} {buffer.role.value}" for buffer in kernel.buffers]
    memory += [f"{array.name} {array.byte_size} bytes" for array in kernel.stack]
    memory += [f"{array.name} {array.byte_size} bytes shared" for array in kernel.shared]
    head = f"kernel, {kernel.effort.name.lower()}: {', '.join(memory)}"
    return "\n".join([head, *_lines(kernel.body, 1)]) + "\n"


def _lines(body: Sequence[stmt.Statement], depth: int) -> Iterator[str]:
    for statement in body:
        yield "  " * depth + _line(statement)
        if isinstance(statement, stmt.For | stmt.While | stmt.If | stmt.ParallelFor):
            yield from _lines(statement.body, depth + 1)
        if isinstance(statement, stmt.If) and statement.orelse:
            yield "  " * depth + "else:"
            yield from _lines(statement.orelse, depth + 1)


def _line(statement: stmt.Statement) -> str:
    match statement:
        case (
            stmt.Let(value=target, expression=expression)
            | stmt.Set(cell=target, expression=expression)
        ):
            return f"{target.name} = {_text(expression)}"
        case stmt.Declare(cell=cell, start=start):
            return f"cell {cell.name} = {_text(start)}"
        case stmt.Accumulate(cell=cell, function=function, operand=operand, order=order):
            total = f"{cell.name} = {function}({cell.name}, {_text(operand)})"
            return f"{total}    {order.value} order"
        case stmt.Store():
            element = f"{_base(statement.memory)}.{statement.type}[{_text(statement.index)}]"
            guard = "" if statement.guard is None else f"    if {_text(statement.guard)}"
            return f"{element} = {_text(statement.value)}{guard}"
        case stmt.For(axis=axis, low=low, high=high, step=step):
            bounds = f"{axis.name} < {_text(high)}"
            if ir.known(low) != 0:
                bounds = f"{axis.name} from {_text(low)} < {_text(high)}"
            by = f" by {step}" if step > 1 else ""
            return f"for {bounds}{by}{', unrolled' if statement.unrolled else ''}:"
        case stmt.While(test=test):
            return f"while {_text(test)}:"
        case stmt.If(test=test):
            return f"if {_text(test)}:"
        case stmt.ParallelFor(is_range=True, items=items):
            return f"each call, of {items}:"
        case stmt.ParallelFor(axis=None):
            return "once:"
        case stmt.ParallelFor(axis=ir.Value() as axis, items=items, first=first, step=step):
            before, by = f"{first} <= " if first else "", f" by {step}" if step > 1 else ""
            groups = f", groups of {statement.group}" if statement.group > 1 else ""
            return f"parallel {before}{axis.name} < {first + items}{by}{groups}:"
        case stmt.Stop(word=word):
            return f"stop if {word.name}"
        case stmt.Call(routine=routine, operands=operands, results=results):
            bound = f"{', '.join(each.name for each in results)} = " if results else ""
            named = zip(routine.names, map(_text, operands), strict=True)
            given = ", ".join(f"{name} = {text}" for name, text in named)
            return f"{bound}call {routine.name}({given})"
        case stmt.Shuffle(value=value, operand=operand, distance=distance):
            return f"{value.name} = {_text(operand)} of item xor {distance}"
        case stmt.Barrier():
            return "barrier"
        case stmt.Break():
            return "break"
    raise AssertionError(f"no notation for {type(statement).__name__}")


def _text(expression: ir.Expression) -> str:
    match expression:
        case ir.Value() | ir.Cell():
            return expression.name
        case ir.Const(type=kind, parts=parts):
            return f"{kind} {', '.join(_number(kind, part) for part in parts)}"
        case ir.Apply(function=function, operands=operands):
            return f"{function}({', '.join(map(_text, operands))})"
        case ir.Load(memory=memory, type=kind, index=index, guard=guard):
            given = "" if guard is None else f" if {_text(guard)}"
            return f"{_base(memory)}.{kind}[{_text(index)}{given}]"
        case ir.Address(memory=memory, index=index, byte_size=byte_size):
            at = f"{byte_size} bytes * ({_text(index)})"
            return f"&{_base(memory)}" if ir.known(index) == 0 else f"&{_base(memory)} + {at}"
        case ir.Quotient(operand=operand, divisor=divisor):
            return f"({_text(operand)}) / {divisor}"
        case ir.Remainder(operand=operand, divisor=divisor):
            return f"({_text(operand)}) mod {divisor}"
        case ir.Index(constant=constant, terms=terms):
            parts_of = [str(constant)] if constant or not terms else []
            parts_of += [_text(t) if f == 1 else f"{f} {_text(t)}" for t, f in terms]
            return " + ".join(parts_of)
    raise AssertionError(f"no notation for {type(expression).__name__}")


def _base(memory: ir.Memory) -> str:
    return f"({_text(memory.address)})" if isinstance(memory, ir.Region) else memory.name


def _number(kind: Type, part: int) -> str:
    if kind.is_integer:
        return str(part)
    wide = kind in (Type.F64, Type.C128)
    (number,) = struct.unpack("<d" if wide else "<f", part.to_bytes(8 if wide else 4, "little"))
    return repr(number) if wide else f"{number:.9g}"
